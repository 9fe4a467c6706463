"""The product of three tensors behind `bilinear`."""

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["trilinear"]


def trilinear(call: KernelCall) -> list[Alternative]:
    """Of (one, two, three, dims each lacks, dims summed, dim unrolled): slice by
    slice along the unrolled dim, the product of two, then that with the third."""
    lacking, summed = call.args[3:6], set(call.args[6])
    unrolled = call.args[7] if len(call.args) > 7 else 1
    one, two, three = (
        _expanded(tensor, dims)
        for tensor, dims in zip(call.args[:3], lacking, strict=True)
    )
    early = {dim for dim in summed if dim in lacking[2] and dim != unrolled}
    item = call.args[0].element_size()
    first = [
        1 if dim == unrolled or dim in early else max(sizes)
        for dim, sizes in enumerate(zip(one, two, strict=True))
    ]
    second = [
        1 if dim == unrolled or dim in summed else max(sizes)
        for dim, sizes in enumerate(zip(first, three, strict=True))
    ]
    return [
        Alternative(
            (
                whole(call.results[0]),
                Part(item, tuple(first)),
                Part(item, tuple(second)),
            )
        )
    ]


def _expanded(tensor: Tensor, lacking: list[int]) -> list[int]:
    """Its sizes with a 1 where it lacks a dim."""
    sizes = list(tensor.shape)
    for dim in sorted(lacking):
        sizes.insert(dim, 1)
    return sizes
