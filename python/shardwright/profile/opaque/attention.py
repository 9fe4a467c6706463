"""Attention of the CPU: "flash", ATen's own, and the parts of the plain form."""

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["attention", "attention_backward", "safe_softmax"]


def _accumulate(tensor: Tensor) -> int:
    """Bytes of a number in which scores are computed: float32 at least."""
    return max(4, tensor.element_size())


def attention(call: KernelCall) -> list[Alternative]:
    """Result, log-sum-exp, and per thread a block of scores and of output."""
    query, key = call.args[0], call.args[1]
    batch, heads, length, head_dim = query.shape
    rows, columns = _block(length, key.shape[2])
    scratch = rows * columns + 2 * rows + rows * head_dim
    return [
        Alternative(
            (
                whole(query),
                Part(_accumulate(query), (batch, heads, length)),
                Part(scratch * call.threads * _accumulate(query)),
            )
        )
    ]


def attention_backward(call: KernelCall) -> list[Alternative]:
    """Three gradients, a copy of the incoming one unless it lies [batch, length,
    heads, size], and per thread a block of scores and one of their gradients."""
    gradient, query, key, value = call.args[:4]
    rows, columns = _block(query.shape[2], key.shape[2])
    always = (
        *(whole(tensor) for tensor in (query, key, value)),
        Part((2 * rows * columns * call.threads + rows) * _accumulate(query)),
    )
    if gradient.transpose(1, 2).is_contiguous():
        return [Alternative(always)]
    # One head, or one row, that is left of a contiguous gradient lies both ways.
    _, heads, length, _ = gradient.shape
    both = gradient.is_contiguous()
    when = (Condition(heads, low=2), Condition(length, low=2)) if both else ()
    return [Alternative(always), Alternative((*always, whole(gradient)), when)]


def safe_softmax(call: KernelCall) -> list[Alternative]:
    """The result, which scores are masked out, and in which rows all are (such
    rows, if there are any, take another result)."""
    scores = call.args[0]
    shape = tuple(scores.shape)
    masks = (Part(1, shape), Part(1, shape[:-1]))
    return [Alternative((whole(call.results[0]), *masks))]


def _block(length: int, keys: int) -> tuple[int, int]:
    """Rows and columns of scores that the CPU kernels hold at a time."""
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    return min(rows, length), min(512, keys)
