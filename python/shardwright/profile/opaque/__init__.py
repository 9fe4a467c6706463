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
    copies,
    images,
    lookups,
    losses,
    masks,
    matrices,
    normalization,
    products,
    recurrent,
    reductions,
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
    if name == "mkldnn_rnn_layer" and out.dim() == 1:
        return recurrent.workspace_bytes(args) if args[-1] else fake
    if name == "_efficientzerotensor":
        return 0
    if name == "native_layer_norm" and out.shape != args[0].shape:
        weight = args[2]  # statistics are as exact as the weight
        return fake if weight is None else out.numel() * weight.element_size()
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

# Kernels that take images with channels first or last.
_IMAGE_KERNELS = (
    "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "fractional_max_pool2d", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d",
)  # fmt: skip

# Kernels whose first operand is to be contiguous.
_CONTIGUOUS = (
    "_softmax", "_log_softmax", "tril", "triu", "embedding_dense_backward",
    "grid_sampler_2d_backward", "grid_sampler_3d_backward",
    "upsample_linear1d_backward", "upsample_bicubic2d_backward",
    "upsample_trilinear3d_backward", "upsample_nearest1d_backward",
    "upsample_nearest3d_backward", "_upsample_nearest_exact1d_backward",
    "_upsample_nearest_exact3d_backward",
)  # fmt: skip
_RESIZED_BACKWARD = (
    "upsample_nearest2d_backward", "_upsample_nearest_exact2d_backward",
    "upsample_bilinear2d_backward",
)  # fmt: skip

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
    "_embedding_bag": lookups.embedding_bag,
    "_embedding_bag_forward_only": lookups.embedding_bag,
    "count_nonzero": conversions.count,
    "_embedding_bag_backward": lookups.embedding_bag_backward,
    "_embedding_bag_dense_backward": lookups.embedding_bag_backward,
    "isnan": lookups.gradient_of_extreme,
    "kthvalue": lookups.kth_value,
    "sort": lookups.sort,
    "unfold_backward": lookups.unfold_backward,
    "_trilinear": products.trilinear,
    **dict.fromkeys(("mm", "mv"), products.product),
    **dict.fromkeys(("addmm", "addmv"), partial(products.product, first=1)),
    "bmm": products.batched,
    "baddbmm": partial(products.batched, first=1),
    "_fft_c2c": transforms.fourier,
    "_fft_r2c": transforms.fourier,
    "_fft_c2r": transforms.fourier_to_real,
    **dict.fromkeys(("clone", "copy_", "_to_copy"), copies.copy),
    "roll": copies.roll,
    "repeat": copies.repeat,
    "native_channel_shuffle": copies.of_image,
    "channel_shuffle": copies.of_image,
    **dict.fromkeys(_IMAGE_KERNELS, copies.of_image),
    **{f"{name}_backward": copies.of_gradient_and_result for name in _IMAGE_KERNELS},
    "adaptive_max_pool2d_backward": copies.extreme_pool_backward,
    "adaptive_max_pool3d_backward": copies.extreme_pool_backward,
    **dict.fromkeys(_CONTIGUOUS, copies.in_order),
    **dict.fromkeys(_RESIZED_BACKWARD, copies.of_image),
    "_upsample_bilinear2d_aa_backward": copies.of_smoothed_gradient,
    "_upsample_bicubic2d_aa_backward": copies.of_smoothed_gradient,
    "gelu_backward": copies.gelu_backward,
    "_softmax_backward_data": reductions.softmax_backward,
    "_log_softmax_backward_data": reductions.softmax_backward,
    "logsumexp": reductions.log_sum_exp,
    "median": reductions.median,
    "nanmedian": reductions.median,
    **dict.fromkeys(("scatter_reduce", "scatter_reduce_"), reductions.scatter_mean),
    **dict.fromkeys(("index_reduce", "index_reduce_"), reductions.index_mean),
    "mkldnn_rnn_layer": recurrent.layer,
    "mkldnn_rnn_layer_backward": recurrent.layer_backward,
    "_euclidean_dist": reductions.euclidean,
    "_cdist_forward": reductions.distances,
    "huber_loss": losses.one_by_one,
    "mse_loss": losses.kept_whole,
    "smooth_l1_loss": losses.kept_whole,
    "binary_cross_entropy_with_logits": losses.logistic,
    "soft_margin_loss_backward": losses.soft_margin_backward,
    "native_layer_norm": normalization.layer_norm,
    "native_group_norm": normalization.group_norm,
    "affine_grid_generator": images.affine_grid,
    "_upsample_bilinear2d_aa": partial(images.smoothed, reach=1),
    "_upsample_bicubic2d_aa": partial(images.smoothed, reach=2),
    "_linalg_svd": matrices.singular_values,
    "_linalg_eigh": matrices.symmetric_eigenvalues,
    "linalg_eig": matrices.eigenvalues,
    "_linalg_eigvals": matrices.eigenvalues,
    "linalg_eigvals": matrices.eigenvalues,
    "linalg_qr": matrices.orthogonal,
    "geqrf": matrices.orthogonal,
    "linalg_householder_product": matrices.orthogonal,
    "linalg_inv_ex": matrices.inverse,
    "linalg_cholesky_ex": matrices.cholesky,
    "cholesky_inverse": matrices.cholesky,
    "cholesky_solve": matrices.cholesky_solve,
    "_linalg_solve_ex": matrices.solve,
    "linalg_lu_solve": matrices.solve_factored,
    "linalg_solve_triangular": matrices.triangular_solve,
    "triangular_solve": matrices.triangular_solve,
    "_linalg_det": matrices.determinant,
    "_linalg_slogdet": matrices.determinant,
    "linalg_lu": matrices.factors,
    "lu_unpack": matrices.factors_unpacked,
    "linalg_pinv": matrices.pseudo_inverse,
    "linalg_matrix_exp": matrices.exponential,
    "where": masks.where,
    "col2im": images.fold,
    "im2col": images.patches,
    "pixel_shuffle": images.pixel_shuffle,
    "pixel_unshuffle": images.pixel_shuffle,
    **dict.fromkeys(
        ("cumprod", "cumsum", "mean", "nansum", "prod", "sum"), conversions.reduction
    ),
    **{name: partial(images.upsample, kind=kind) for name, kind in _UPSAMPLE.items()},
}
