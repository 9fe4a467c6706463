"""Memory inside CPU kernels that fake execution cannot see.

Formulas read off allocator traces of torch 2.13 on the CPU. They give bytes
above the level before the kernel at its highest point, as alternatives of
which the highest counts. Where the amount depends on the data (a product with
zeros in it, the iterations of a decomposition) nothing is said.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from shardwright.profile.opaque import (
    attention,
    conversions,
    images,
    lookups,
    normalization,
    products,
    transforms,
)
from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.convolution import backward_scratch, forward_scratch
from shardwright.profile.opaque.scratch import Alternative

__all__ = ["default_threads", "storage_bytes", "transients"]

# Losses whose scalar result keeps the unreduced buffer alive as its storage.
_FULL_SIZE_LOSSES = {
    "mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss",
}  # fmt: skip


def storage_bytes(op: OpOverload, args: Sequence[Any], out: Tensor) -> int:
    """Bytes of the storage of a new result, where fake kernels say less."""
    name = op._schema.name.split("::")[1]
    fake = int(out.untyped_storage().nbytes())
    if name in _FULL_SIZE_LOSSES:
        return whole(args[0]).value()
    if name == "col2im":  # made as large as its data, then cut
        return max(fake, whole(args[0]).value())
    return fake


def transients(call: KernelCall) -> list[Alternative]:
    formula = _FORMULAS.get(call.name, conversions.elementwise)
    return formula(call)


def default_threads() -> int:
    """CPU threads of one rank: what torchrun and `shardwright run` give it."""
    return max(1, int(os.environ.get("OMP_NUM_THREADS") or 1))


_UPSAMPLE = {
    **{f"upsample_nearest{rank}d": "nearest" for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d": "nearest_exact" for rank in (1, 2, 3)},
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}

_FORMULAS: dict[str, Callable[[KernelCall], list[Alternative]]] = {
    "convolution": lambda call: forward_scratch(call.args, call.threads),
    "convolution_backward": lambda call: backward_scratch(call.args, call.threads),
    "_scaled_dot_product_flash_attention_for_cpu": attention.attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        attention.attention_backward
    ),
    "_safe_softmax": attention.safe_softmax,
    "native_batch_norm": normalization.batch_norm,
    "_native_batch_norm_legit": normalization.batch_norm,
    "native_batch_norm_backward": normalization.batch_norm_backward,
    "native_layer_norm_backward": normalization.layer_norm_backward,
    "native_group_norm_backward": normalization.group_norm_backward,
    "_embedding_bag_backward": lookups.embedding_bag_backward,
    "_embedding_bag_dense_backward": lookups.embedding_bag_backward,
    "isnan": lookups.gradient_of_extreme,
    "kthvalue": lookups.kth_value,
    "sort": lookups.sort,
    "unfold_backward": lookups.unfold_backward,
    "_trilinear": products.trilinear,
    "_fft_c2c": transforms.fourier,
    "_fft_r2c": transforms.fourier,
    "_fft_c2r": transforms.fourier_to_real,
    "im2col": images.patches,
    "pixel_shuffle": images.pixel_shuffle,
    "pixel_unshuffle": images.pixel_shuffle,
    **dict.fromkeys(
        ("cumprod", "cumsum", "mean", "nansum", "prod", "sum"), conversions.reduction
    ),
    **{name: partial(images.upsample, kind=kind) for name, kind in _UPSAMPLE.items()},
}
