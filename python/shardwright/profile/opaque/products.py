"""Products: operands that BLAS does not read as they lie, and `bilinear`."""

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["batched", "product", "trilinear"]


def product(call: KernelCall, first: int = 0) -> list[Alternative]:
    """Of matrices, from argument `first` on: each copied unless rows or columns
    are together."""
    pair = call.args[first : first + 2]
    copies = [whole(t) for t in pair if t.dim() > 1 and (_torn(t) or _conjugate(t))]
    return [Alternative((whole(call.results[0]), *copies))] if copies else []


def batched(call: KernelCall, first: int = 0) -> list[Alternative]:
    """Of batches, matrix by matrix; conjugates are copied at once."""
    copies = []
    for batch in call.args[first : first + 2]:
        if batch.is_conj():
            copies.append(whole(batch))
        if _torn(batch):
            copies.append(Part(batch.element_size(), tuple(batch.shape[1:])))
    return [Alternative((whole(call.results[0]), *copies))] if copies else []


def _torn(matrix: Tensor) -> bool:
    """Whether neither rows nor columns are together, in distinct memory."""
    (rows, columns), (down, along) = matrix.shape[-2:], matrix.stride()[-2:]
    by_rows = (along == 1 or columns == 1) and (down >= columns or rows == 1)
    by_columns = (down == 1 or rows == 1) and (along >= rows or columns == 1)
    return not (by_rows or by_columns)


def _conjugate(matrix: Tensor) -> bool:
    """BLAS reads conjugates of columns only."""
    return matrix.is_conj() and matrix.stride(-2) != 1


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
