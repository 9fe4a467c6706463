"""Matrices and batches of them: LAPACK (MKL) and the matrix exponential.

LAPACK works in place, so ATen hands it column-major copies. The workspaces that
it asks for by query are torch tensors only for symmetric and general eigenvalues
and for QR; their sizes are those that MKL answered for matrices of 5 to 900 rows,
where they go in steps the largest. Those of SVD and of triangular factors are not
taken from torch's allocator. `linalg` has no sharding rules, so amounts are numbers.
"""

from math import prod

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, transposing, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "cholesky",
    "cholesky_solve",
    "determinant",
    "eigenvalues",
    "exponential",
    "factors",
    "factors_unpacked",
    "inverse",
    "orthogonal",
    "pseudo_inverse",
    "singular_values",
    "solve",
    "solve_factored",
    "symmetric_eigenvalues",
    "triangular_solve",
]

_INFO = 4  # bytes: a pivot, or how the work on one matrix ended
_INDEX = 8  # bytes
_CHECKS = 64  # bytes: questions about the whole batch
# Copies of the batch that the polynomials of the exponential hold, the scaling of
# large matrices included; one matrix alone is scaled as a batch of its own.
_POWERS, _POWERS_OF_ONE = 11, 13
_SMALL_QR, _LARGE_QR = 32, 200  # rows or columns from which MKL takes more blocks


def _batch(matrix: Tensor) -> int:
    return prod(matrix.shape[:-2])


def _results(call: KernelCall) -> tuple[Part, ...]:
    return tuple(whole(result) for result in call.results)


def _info(matrix: Tensor) -> Part:
    return Part(_INFO * _batch(matrix) + _CHECKS)


def _pivot_checks(matrix: Tensor) -> Part:
    """Whether each pivot is in range, before a factored system is solved."""
    return Part(_batch(matrix) * matrix.shape[-1] + _CHECKS)


def singular_values(call: KernelCall) -> list[Alternative]:
    """Values and vectors, and the data copied."""
    data = call.args[0]
    parts = (*_results(call), _info(data), whole(data), *transposing(data))
    return [Alternative(parts)]


def symmetric_eigenvalues(call: KernelCall) -> list[Alternative]:
    """Values, vectors (in the place of the data, whether wanted or not), and the
    workspaces of xSYEVD or xHEEVD."""
    data, vectors = call.args[0], call.args[2] if len(call.args) > 2 else True
    values = Part(call.results[0].element_size(), tuple(call.results[0].shape))
    held = (values, whole(data), _info(data))
    work = Part(_symmetric_workspace(data, vectors))
    found = [Alternative((*held, work))]
    return [*found, *(Alternative((*held, part)) for part in transposing(data))]


def _symmetric_workspace(data: Tensor, vectors: bool) -> int:
    n, item = data.shape[-1], data.element_size()
    integers = _INFO * (5 * n + 3)
    if data.is_complex():
        real = item // 2 * (2 * n * n + 5 * n + 2) if vectors else item // 2 * (n + 1)
        return item * ((n * n if vectors else 0) + 33 * n + 1) + real + integers
    if vectors:
        return item * (2 * n * n + 6 * n + 2) + integers
    return item * (26 * n + 1) + _INFO


def eigenvalues(call: KernelCall) -> list[Alternative]:
    """Of a general matrix: first three masks for whether it is finite, beside
    its modulus; then values, vectors, real forms of both, a copy, and the
    workspace of xGEEV."""
    data = call.args[0]
    n, item = data.shape[-1], data.element_size()
    vectors = call.name == "linalg_eig"
    finite = Alternative((whole(data), Part(3, tuple(data.shape)), Part(_CHECKS)))
    columns = 386 if vectors else 34
    pairs = (Part(2 * item, tuple(data.shape[:-1])),)
    copies = (whole(data),) * (2 if vectors else 1)
    work = Part(item * (max(columns, 34) * n + 1) + _batch(data) * n)
    held = (*_results(call), *pairs, *copies, _info(data), work)
    return [finite, Alternative(held)]


def orthogonal(call: KernelCall) -> list[Alternative]:
    """Q and R (or either, or the reflectors of both), the reflectors' scales, and
    the workspace of xGEQRF or xORGQR, or of a batch the triangle copied."""
    data = call.args[0]
    rows, columns = data.shape[-2:]
    scales = Part(data.element_size(), (*data.shape[:-2], min(rows, columns)))
    held = [*_results(call), scales]
    if call.name == "linalg_qr":
        mode = call.args[1] if len(call.args) > 1 else call.kwargs.get("mode")
        if mode == "r":
            held += [whole(data), *transposing(data)]
    work = Part(data.element_size() * _qr_workspace(rows, call.results[0].shape[-1]))
    found = [Alternative((*held, work))]
    if call.name == "linalg_qr" and _batch(data) > 1:
        found.append(Alternative((*held, whole(call.results[-1]))))
    return found


def _qr_workspace(rows: int, columns: int) -> int:
    longest = max(rows, columns)
    if longest <= _SMALL_QR:
        return longest + 1
    blocks = 32 if longest <= _LARGE_QR else 65
    return blocks * (longest + 1)


def inverse(call: KernelCall) -> list[Alternative]:
    """The result, factors and pivots."""
    data = call.args[0]
    pivots = Part(_INFO, tuple(data.shape[:-1]))
    parts = (*_results(call), whole(data), pivots, _info(data), _pivot_checks(data))
    return [Alternative(parts)]


def cholesky(call: KernelCall) -> list[Alternative]:
    data = call.args[0]
    parts = (whole(data), _info(data), *transposing(data))
    return [Alternative(parts)]


def cholesky_solve(call: KernelCall) -> list[Alternative]:
    """The result, which starts as the right-hand sides, and the factor copied."""
    sides, factor = call.args[0], call.args[1]
    result = call.results[0]
    blocks = transposing(factor) or transposing(sides)
    copy = Part(result.element_size(), (*result.shape[:-2], *factor.shape[-2:]))
    return [Alternative((whole(result), copy, _info(result), *blocks))]


def solve(call: KernelCall) -> list[Alternative]:
    """Solution, factors, pivots; right-hand sides again where they are vectors, or
    stand on the left."""
    data, sides = call.args[0], call.args[1]
    left = call.kwargs.get("left", call.args[2] if len(call.args) > 2 else True)
    vectors = sides.dim() == data.dim() - 1
    again = (whole(call.results[0]),) if vectors or not left else ()
    blocks = transposing(data) or transposing(sides)
    parts = (*_results(call), *again, _info(data), _pivot_checks(data), *blocks)
    return [Alternative(parts)]


def solve_factored(call: KernelCall) -> list[Alternative]:
    """The solution, and right-hand sides again where they stand on the left, or
    the factors are those of the adjoint."""
    data, options = call.args[0], call.kwargs
    plain = options.get("left", True) and not options.get("adjoint", False)
    again = () if plain else (whole(call.results[0]),)
    blocks = transposing(call.args[2])
    parts = (*_results(call), *again, _pivot_checks(data), *blocks)
    return [Alternative(parts)]


def triangular_solve(call: KernelCall) -> list[Alternative]:
    """The solution, and both operands in columns."""
    data, sides = call.args[:2]
    blocks = transposing(data) or transposing(sides)
    return [Alternative((*_results(call), *blocks))] if blocks else []


def determinant(call: KernelCall) -> list[Alternative]:
    """Its results, factors among them, and from the pivots a sign: a row of
    numbers, whether each pivot is in place, their count."""
    data = call.args[0]
    batch, n = _batch(data), data.shape[-1]
    counts = batch * (2 * _INDEX + (1 + _INDEX) * n) + _INFO * n
    return [Alternative((*_results(call), Part(counts), _info(data)))]


def factors(call: KernelCall) -> list[Alternative]:
    """Permutation, lower and upper factor, before them both as one, pivots."""
    data = call.args[0]
    pivots = Part(_INFO, tuple(data.shape[:-1]))
    blocks = transposing(data)
    return [
        Alternative((*_results(call), whole(data), pivots, _info(data), *blocks)),
        _permutation(call, pivots, _info(data)),
    ]


def factors_unpacked(call: KernelCall) -> list[Alternative]:
    return [_permutation(call)]


def _permutation(call: KernelCall, *held: Part) -> Alternative:
    """Made of numbers: a row of them, and one row per matrix."""
    rows = call.args[0].shape[-2]
    number = 1 + _batch(call.args[0])
    return Alternative((*_results(call), *held, Part(_INDEX * rows * number)))


def pseudo_inverse(call: KernelCall) -> list[Alternative]:
    """The decomposition; then, with its vectors alive, values inverted, vectors
    scaled, and the result."""
    data, result = call.args[0], call.results[0]
    item = data.element_size()
    rows, columns = data.shape[-2:]
    batch, rank = _batch(data), min(rows, columns)
    values = Part(item * batch * rank)
    numbers = Part((2 * item + _INDEX) * batch + _CHECKS)
    masks = Part((item + _INDEX + 1) * batch * rank)
    if call.kwargs.get("hermitian", call.args[-1] is True):
        scaled = whole(data)
        held = [scaled, values, numbers]
        first = [Part(_symmetric_workspace(data, True)), _info(data)]
        last = [values, values]
    else:
        scaled = Part(item * batch * columns * rank)
        held = [Part(item * batch * rows * rank), scaled, values, numbers]
        first = [whole(data), _info(data), *transposing(data)]
        last = [values]
    return [
        Alternative((*held, *first)),
        Alternative((*held, *last, masks)),
        Alternative((*held, *last, scaled, whole(result))),
    ]


def exponential(call: KernelCall) -> list[Alternative]:
    """A bound: the norms of the matrices decide on the degree of a polynomial and
    on squarings, in a batch for each matrix apart."""
    data = call.args[0]
    copies = _POWERS if _batch(data) > 1 else _POWERS_OF_ONE
    norms = Part(3 * _INDEX * _batch(data) + _CHECKS)
    return [Alternative((whole(data).times(copies), norms))]
