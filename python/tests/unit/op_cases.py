"""Small op calls that together use every sharding rule.

A case is one ATen call at small sizes, even and uneven. Floating operands get
gradients unless they are named in `frozen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

__all__ = ["CASES", "Case", "Ints"]

aten = torch.ops.aten


@dataclass(frozen=True)
class Ints:
    """An int64 operand with values below `high`."""

    shape: tuple[int, ...]
    high: int


@dataclass(frozen=True)
class Bools:
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Positive:
    """Floats between 0.5 and 1.5: for logarithms, roots and divisors."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`args`: a tuple stands for a float64 operand of this shape, a list of
    them for a list of operands, everything else is itself."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    frozen: tuple[int, ...] = ()  # positions of operands without gradient
    same: bool = False  # the second operand is the first
    name: str = ""
    rule: bool = True  # the op has a rule for this call

    @property
    def title(self) -> str:
        return f"{self.op}{self.name and ':' + self.name}"


def made(spec: Any, generator: torch.Generator) -> Any:
    """The value of one argument of a case."""
    if isinstance(spec, tuple):
        return torch.randn(spec, dtype=torch.float64, generator=generator)
    if isinstance(spec, Positive):
        return torch.rand(spec.shape, dtype=torch.float64, generator=generator) + 0.5
    if isinstance(spec, Ints):
        return torch.randint(0, spec.high, spec.shape, generator=generator)
    if isinstance(spec, Bools):
        return torch.randint(0, 2, spec.shape, generator=generator) > 0
    if isinstance(spec, list) and spec and not isinstance(spec[0], int):
        return [made(item, generator) for item in spec]
    return spec


def operands_of(values: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list):
            found += [item for item in value if isinstance(item, Tensor)]
    return found


def _pointwise() -> list[Case]:
    x = (4, 5, 6)
    smooth = "abs cos sin exp expm1 erf sigmoid tanh gelu silu mish relu elu selu"
    smooth += " softplus leaky_relu hardtanh hardswish hardsigmoid square neg"
    cases = [Case(getattr(aten, name).default, (x,)) for name in smooth.split()]
    rooted = "log log2 log1p sqrt rsqrt reciprocal"
    cases += [
        Case(getattr(aten, name).default, (Positive(x),)) for name in rooted.split()
    ]
    row = (6,)
    for name in ["add", "sub", "mul", "div", "rsub"]:
        op = getattr(aten, name).Tensor
        second = Positive(x) if name == "div" else x
        cases += [
            Case(op, (x, second)),
            Case(op, (x, row), name="broadcast"),
            Case(op, ((1, 6), (4, 5, 1)), name="outer"),
            Case(op, (x, row), frozen=(1,), name="frozen"),
            Case(op, (row, x), frozen=(0,), name="frozen_first"),
            Case(op, (x, ()), name="scalar"),
        ]
    for name in ["add", "sub", "mul"]:
        cases.append(Case(getattr(aten, name).Tensor, (x, x), same=True, name="same"))
    return [
        *cases,
        Case(aten.add.Tensor, (x, x), {"alpha": 2}, name="alpha"),
        Case(aten.add.Scalar, (x, 2.0)),
        Case(aten.mul.Scalar, (x, 2.0)),
        Case(aten.div.Scalar, (x, 2.0)),
        Case(aten.rsub.Scalar, (x, 2.0)),
        Case(aten.div.Tensor_mode, (x, Positive(x)), {"rounding_mode": "floor"}),
        Case(aten.pow.Tensor_Scalar, (x, 2)),
        Case(aten.pow.Tensor_Tensor, (Positive(x), row)),
        Case(aten.pow.Scalar, (2.0, x)),
        Case(aten.clamp.default, (x, -0.5, 0.5)),
        Case(aten.clamp.Tensor, (x, (6,), None)),
        Case(aten.clamp_min.default, (x, 0.1)),
        Case(aten.maximum.default, (x, row)),
        Case(aten.minimum.default, (x, row)),
        Case(aten.max.other, (x, row)),
        Case(aten.min.other, (x, row)),
        Case(aten.where.self, (Bools((5, 6)), x, row)),
        Case(aten.where.ScalarOther, (Bools(x), x, 0.0)),
        Case(aten.masked_fill.Scalar, (x, Bools((5, 1)), -1.0)),
        Case(aten.masked_fill.Tensor, (x, Bools((5, 6)), ())),
        Case(aten.addcmul.default, (x, row, (5, 1))),
        Case(aten.lerp.Scalar, (x, x, 0.3)),
        Case(aten.eq.Tensor, (Ints(x, 3), Ints((6,), 3))),
        Case(aten.ne.Scalar, (Ints(x, 3), 1)),
        Case(aten.le.Tensor, (x, x)),
        Case(aten.gt.Scalar, (x, 0.0)),
        Case(aten.logical_and.default, (Bools(x), Bools((6,)))),
        Case(aten.logical_not.default, (Bools(x),)),
        Case(aten.bitwise_not.default, (Bools(x),)),
        Case(aten.__and__.Tensor, (Bools(x), Bools((5, 6)))),
        Case(aten.floor_divide.default, (Ints(x, 9), 2)),
        Case(aten.to.dtype, (x, torch.float32), name="narrow"),
        Case(aten.to.dtype, (Ints(x, 5), torch.float64), name="integers"),
        Case(aten._to_copy.default, (x,), {"dtype": torch.float64}),
        Case(aten.type_as.default, (x, (3,)), name="other_shape"),
        Case(aten.clone.default, (x,)),
        Case(aten.detach.default, (x,)),
        Case(aten.zeros_like.default, (x,)),
        Case(aten.full_like.default, (x, 3.0)),
        Case(aten.copy.default, (x, (6,)), frozen=(0, 1)),
        Case(aten.fill.Tensor, (x, ())),
        Case(aten.dropout.default, (x, 0.5, False), name="eval"),
        Case(aten.prelu.default, (x, (5,))),
        Case(aten.prelu.default, (x, (1,)), name="one"),
    ]


def _matmul() -> list[Case]:
    return [
        Case(aten.linear.default, ((4, 5, 8), (12, 8), (12,)), name="bias"),
        Case(aten.linear.default, ((8, 6), (4, 6)), name="plain"),
        Case(aten.linear.default, ((7, 9), (5, 9), (5,)), name="uneven"),
        Case(aten.linear.default, ((8,), (4, 8), (4,)), name="vector"),
        Case(
            aten.linear.default, ((4, 8), (6, 8), (6,)), frozen=(2,), name="frozen_bias"
        ),
        Case(aten.linear.default, ((4, 8), (6, 8), (6,)), frozen=(0, 1), name="frozen"),
        Case(aten.bilinear.default, ((4, 5, 6), (4, 5, 8), (7, 6, 8), (7,))),
        Case(aten.bilinear.default, ((5, 6), (5, 4), (8, 6, 4)), name="no_bias"),
        Case(aten.bilinear.default, ((6,), (4,), (8, 6, 4), (8,)), name="vectors"),
        Case(aten.mm.default, ((4, 6), (6, 8))),
        Case(aten.mm.default, ((6, 6), (6, 6)), same=True, name="same"),
        Case(aten.addmm.default, ((8,), (4, 6), (6, 8)), {"beta": 2, "alpha": 3}),
        Case(aten.addmm.default, ((4, 1), (4, 6), (6, 8)), name="column"),
        Case(aten.bmm.default, ((4, 5, 6), (4, 6, 8))),
        Case(aten.baddbmm.default, ((4, 1, 8), (4, 5, 6), (4, 6, 8)), {"alpha": 0.5}),
        Case(aten.matmul.default, ((2, 4, 5, 6), (2, 4, 6, 8)), name="4d"),
        Case(aten.matmul.default, ((2, 1, 5, 6), (4, 6, 8)), name="broadcast"),
        Case(aten.matmul.default, ((4, 5, 6), (6, 8)), name="3d_2d"),
        Case(aten.matmul.default, ((4, 5, 6), (6,)), name="3d_1d"),
        Case(aten.matmul.default, ((6,), (4, 6, 8)), name="1d_3d"),
        Case(aten.matmul.default, ((6,), (6,)), name="dot"),
        Case(aten.mv.default, ((4, 6), (6,))),
        Case(aten.outer.default, ((4,), (6,))),
        Case(aten.einsum.default, ("bhid,bhjd->bhij", [(2, 4, 5, 6), (2, 4, 7, 6)])),
        Case(
            aten.einsum.default,
            ("bij,bjk,k->bi", [(4, 5, 6), (4, 6, 8), (8,)]),
            name="three",
        ),
        Case(aten.einsum.default, ("ij,jk", [(4, 6), (6, 8)]), name="implicit"),
        Case(aten.einsum.default, ("ij,k->i", [(4, 6), (8,)]), name="sums"),
        Case(
            aten.einsum.default,
            ("...i,ij->...j", [(4, 6), (6, 8)]),
            name="dots",
            rule=False,
        ),
    ]


def _views() -> list[Case]:
    x = (4, 6, 8)
    return [
        Case(aten.view.default, (x, [24, 8]), name="merge"),
        Case(aten.view.default, ((4, 24), [4, 8, 3]), name="split"),
        Case(aten.view.default, ((6, 4), [8, 3]), name="crossing"),
        Case(aten.view.default, (x, [4, 1, 6, 8]), name="one"),
        Case(aten.view.default, ((4, 1, 1, 6), [24]), name="drop_one"),
        Case(aten.view.default, ((4, 5), [20]), name="uneven"),
        Case(aten.view.default, ((5, 7), [5, 1, 7]), name="uneven_alone"),
        Case(aten.reshape.default, ((2, 4, 6), [8, 6])),
        Case(aten.reshape.default, (Ints(x, 9), [4, 48]), name="integers"),
        Case(aten.reshape.default, (x, [4, 2, 3, 8])),
        Case(aten._unsafe_view.default, (x, [24, 8])),
        Case(aten.flatten.using_ints, (x, 1, 2)),
        Case(aten.flatten.using_ints, (x, 0, -1), name="all"),
        Case(aten.unflatten.int, ((4, 24), 1, [8, 3])),
        Case(aten.unflatten.int, ((8, 6), 0, [4, 2]), name="first"),
        Case(aten.squeeze.dim, ((4, 1, 6), 1)),
        Case(aten.squeeze.dim, ((4, 2, 6), 1), name="kept"),
        Case(aten.squeeze.dims, ((1, 4, 1, 6), [0, 2])),
        Case(aten.squeeze.default, ((4, 1, 2),)),
        Case(aten.unsqueeze.default, ((4, 6), -1)),
        Case(aten.transpose.int, (x, 0, -1)),
        Case(aten.swapaxes.default, (x, 0, 1)),
        Case(aten.permute.default, (x, [2, 0, 1])),
        Case(aten.t.default, ((4, 6),)),
        Case(aten.numpy_T.default, ((4, 6),)),
        Case(aten.movedim.int, (x, 0, 2)),
        Case(aten.expand.default, ((4, 1, 6), [4, 5, 6])),
        Case(aten.expand.default, ((1, 6), [8, 4, 6]), name="new"),
        Case(aten.expand_as.default, ((1, 6), (4, 6))),
        Case(aten.meshgrid.indexing, ([(4,), (6,), (3,)],), {"indexing": "ij"}),
        Case(aten.reshape_as.default, ((4, 6), (24,))),
    ]


def _shapes() -> list[Case]:
    x = (4, 6, 8)
    return [
        Case(aten.split.Tensor, (x, 4, 2)),
        Case(aten.split_with_sizes.default, (x, [2, 6], -1)),
        Case(aten.chunk.default, (x, 2, 1)),
        Case(aten.unbind.int, (x, 1)),
        Case(aten.select.int, (x, 1, -1)),
        Case(aten.slice.Tensor, (x, 1, 1, 4)),
        Case(aten.slice.Tensor, (x, 1, 0, 9223372036854775807), name="all"),
        Case(aten.slice.Tensor, (x, 2, None, None, 2), name="step"),
        Case(aten.narrow.default, (x, 0, 1, 2)),
        Case(aten.pad.default, (x, [1, 2])),
        Case(aten.pad.default, (x, [0, 0, 1, 1], "constant", 2.0), name="middle"),
        Case(aten.constant_pad_nd.default, (x, [0, 0, 1, 0])),
        Case(aten.repeat.default, ((4, 6), [3, 1, 2])),
        Case(aten.tile.default, ((4, 6), [2])),
        Case(aten.repeat_interleave.self_int, (x, 3, 1)),
        Case(aten.roll.default, (x, [2], [1])),
        Case(aten.roll.default, (x, [2]), name="flat"),
        Case(aten.flip.default, (x, [0])),
        Case(aten.unfold.default, (x, 2, 3, 2)),
        Case(aten.view_as_complex.default, ((4, 6, 2),)),
        Case(aten.cat.default, ([(4, 6), (4, 2)], 1)),
        Case(aten.cat.default, ([(4, 6), (3, 6)], 0), name="first"),
        Case(aten.cat.default, ([(4, 6), (4, 6)], -1), frozen=(1,), name="frozen"),
        Case(aten.stack.default, ([(4, 6), (4, 6)], 1)),
        Case(aten.slice_scatter.default, (x, (4, 2, 8), 1, 1, 3)),
        Case(aten.select_scatter.default, (x, (4, 8), 1, 2)),
    ]


def _reductions() -> list[Case]:
    x = (4, 5, 6)
    return [
        Case(aten.sum.default, (x,)),
        Case(aten.sum.dim_IntList, (x, [1])),
        Case(aten.sum.dim_IntList, (x, [0, 2], True), name="keep"),
        Case(aten.sum.default, (Bools(x),), name="count"),
        Case(aten.mean.default, (x,)),
        Case(aten.mean.dim, (x, [-1])),
        Case(aten.mean.dim, (x, [0, 1], True), name="keep"),
        Case(aten.mean.dim, ((4, 1, 6), [1, 2]), name="one"),
        Case(aten.amax.default, (x, [1])),
        Case(aten.max.dim, (x, 1, True)),
        Case(aten.max.default, (x,)),
        Case(aten.argmax.default, (x, 1)),
        Case(aten.any.dim, (Bools(x), 1)),
        Case(aten.linalg_vector_norm.default, (x, 2, [2], True)),
        Case(aten.var.correction, (x, [1]), {"correction": 0}),
        Case(aten.std.correction, (x, [1])),
        Case(aten.var_mean.correction, (x, [2]), {"keepdim": True}),
        Case(aten.logsumexp.default, (x, [1])),
        Case(aten.prod.dim_int, (x, 0)),
        Case(aten.softmax.int, (x, -1)),
        Case(aten.log_softmax.int, (x, 1)),
        Case(aten.cumsum.default, (x, 1)),
        Case(aten.cumprod.default, (x, 0)),
        Case(aten.sort.default, (x, 1)),
        Case(aten.topk.default, (x, 2, -1)),
        Case(aten.glu.default, (x, -1)),
        Case(aten.diff.default, (x, 1, 0)),
        Case(aten.diff.default, (x, 1, 1, (4, 2, 6), (4, 1, 6)), name="longer"),
        Case(aten.bucketize.Tensor, (x, (5,)), frozen=(0, 1)),
        Case(aten.tril.default, (x,)),
        Case(aten.one_hot.default, (Ints((4, 6), 5), 5)),
    ]


def _norms() -> list[Case]:
    x = (4, 6, 3, 5)
    c = (6,)
    zeros = Positive(c)
    tail = (0.1, 1e-5, False)
    return [
        Case(aten.layer_norm.default, ((4, 5, 6), [6], (6,), (6,))),
        Case(aten.layer_norm.default, ((4, 5, 6), [5, 6], None, None), name="two"),
        Case(aten.rms_norm.default, ((4, 5, 6), [6], (6,))),
        Case(aten.group_norm.default, ((4, 8, 5), 4, (8,), (8,))),
        Case(aten.batch_norm.default, (x, c, c, None, None, True, *tail), name="sync"),
        Case(
            aten.batch_norm.default,
            (x, c, c, (6,), zeros, False, *tail),
            frozen=(3, 4),
            name="eval",
        ),
        Case(aten.instance_norm.default, (x, c, c, None, None, True, *tail)),
    ]


def _attention() -> list[Case]:
    sdpa = aten.scaled_dot_product_attention.default
    q = (2, 4, 6, 8)
    kv = (2, 4, 5, 8)
    return [
        Case(sdpa, (q, kv, kv)),
        Case(sdpa, (q, q, q), {"is_causal": True}, name="causal"),
        Case(sdpa, (q, kv, kv, Bools((2, 1, 6, 5))), name="mask"),
        Case(sdpa, (q, kv, kv, (1, 4, 6, 5)), {"scale": 1.0}, name="bias"),
        Case(sdpa, (q, kv, kv, (5,)), name="row_bias"),
        Case(
            sdpa,
            ((2, 8, 6, 4), (2, 2, 5, 4), (2, 2, 5, 4)),
            {"enable_gqa": True},
            name="grouped",
        ),
        Case(
            sdpa,
            ((2, 8, 6, 4), (2, 4, 5, 4), (2, 4, 5, 4), Bools((1, 8, 6, 5))),
            {"enable_gqa": True},
            name="grouped_mask",
        ),
        Case(sdpa, ((4, 6, 8), (4, 5, 8), (4, 5, 8)), name="3d"),
    ]


def _embedding() -> list[Case]:
    ids, bags, starts = Ints((4, 5), 12), Ints((10,), 12), torch.tensor([0, 3, 3, 8])
    return [
        Case(aten.embedding.default, ((12, 6), ids)),
        Case(aten.embedding.default, ((12, 6), ids, 3), name="padding"),
        Case(aten.embedding.default, ((13, 6), ids), name="uneven"),
        Case(aten.embedding.default, ((12, 6), ids, -1, True), name="frequency"),
        Case(aten.embedding_bag.default, ((12, 6), bags, starts), name="sum"),
        Case(
            aten.embedding_bag.padding_idx,
            ((12, 7), bags, starts, False, 1, False, None, False, 3),
            name="mean",
        ),
        Case(aten.embedding_bag.default, ((12, 6), bags, starts, False, 2), name="max"),
        Case(
            aten.embedding_bag.default,
            ((12, 6), bags, starts, True, 0, False, Positive((10,))),
            name="weighted",
        ),
        Case(aten.index.Tensor, ((4, 7, 6), [None, Ints((3, 5), 7)])),
        Case(
            aten.index.Tensor, ((7, 9, 6), [Ints((4, 1), 7), Ints((5,), 9)]), name="two"
        ),
        Case(
            aten.index.Tensor,
            ((7, 4, 9), [Ints((6,), 7), None, Ints((6,), 9)]),
            name="apart",
        ),
        Case(aten.index_select.default, ((4, 7, 6), 1, Ints((8,), 7))),
        Case(aten.gather.default, ((4, 7, 6), 1, Ints((4, 3, 6), 7))),
        Case(aten.gather.default, ((4, 7, 6), 1, Ints((2, 3, 6), 7)), name="shorter"),
        Case(aten.scatter.value, ((4, 7), 1, Ints((4, 3), 7), 2.0)),
        Case(aten.scatter_add.default, ((4, 7), 1, Ints((4, 3), 7), (4, 3))),
    ]


def _cells() -> list[Case]:
    """input, state(s), weights and biases of input and state."""
    x, h = (4, 6), (4, 5)
    gates4, gates3 = ((20, 6), (20, 5), (20,), (20,)), ((15, 6), (15, 5), (15,), (15,))
    one = ((5, 6), (5, 5))
    return [
        Case(aten.lstm_cell.default, (x, [h, h], *gates4)),
        Case(aten.lstm_cell.default, (x, [h, h], *gates4[:2]), name="no_bias"),
        Case(aten.lstm_cell.default, ((7, 6), [(7, 5)] * 2, *gates4), name="uneven"),
        Case(aten.gru_cell.default, (x, h, *gates3)),
        Case(aten.rnn_tanh_cell.default, (x, h, *one, (5,), (5,))),
        Case(aten.rnn_relu_cell.default, (x, h, *one), name="no_bias"),
    ]


def _losses() -> list[Case]:
    cross = aten.cross_entropy_loss.default
    rows = Ints((8,), 10)
    return [
        Case(cross, ((8, 10), rows)),
        Case(cross, ((9, 11), Ints((9,), 11)), name="uneven"),
        Case(cross, ((8, 10), rows, None, 2), name="sum"),
        Case(cross, ((8, 10), rows, None, 0), name="none"),
        Case(cross, ((8, 10), rows, None, 1, 3), name="ignored"),
        Case(cross, ((8, 10), rows, None, 1, -100, 0.1), name="smooth"),
        Case(cross, ((8, 10), rows, None, 2, -100, 0.1), name="smooth_sum"),
        Case(cross, ((8, 10), rows, Positive((10,)), 2), frozen=(2,), name="weighted"),
        Case(cross, ((4, 10, 6), Ints((4, 6), 10)), name="space"),
        Case(cross, ((8, 10), Positive((8, 10))), name="probabilities", rule=False),
        Case(aten.nll_loss_nd.default, ((8, 10), rows)),
        Case(aten.nll_loss_nd.default, ((8, 10), rows, None, 2), name="sum"),
        Case(aten.mse_loss.default, ((4, 6), (4, 6))),
        Case(aten.mse_loss.default, ((4, 6), (4, 6), 2), name="sum"),
        Case(aten.mse_loss.default, ((4, 6), (4, 6), 0), name="none"),
        Case(aten.smooth_l1_loss.default, ((4, 6), (4, 6))),
        Case(
            aten.binary_cross_entropy_with_logits.default,
            ((4, 6), Positive((4, 6)), None, (6,)),
            frozen=(2,),
        ),
    ]


def _convolutions() -> list[Case]:
    one, none = [1, 1], [0, 0]
    conv = aten.conv2d.default
    return [
        Case(conv, ((4, 6, 5, 5), (8, 6, 3, 3), (8,))),
        Case(conv, ((4, 6, 5, 5), (8, 6, 1, 1)), name="no_bias"),
        Case(
            conv, ((4, 8, 5, 5), (12, 2, 3, 3), (12,), one, one, one, 4), name="groups"
        ),
        Case(
            conv, ((4, 6, 5, 5), (6, 1, 3, 3), (6,), one, one, one, 6), name="depthwise"
        ),
        Case(aten.conv2d.padding, ((4, 6, 5, 5), (8, 6, 3, 3), (8,), one, "same")),
        Case(aten.conv1d.default, ((4, 6, 7), (8, 6, 3), (8,))),
        Case(aten.conv3d.default, ((2, 4, 3, 3, 3), (4, 4, 2, 2, 2), (4,))),
        Case(aten.conv_transpose2d.input, ((4, 6, 4, 4), (6, 8, 2, 2), (8,))),
        Case(
            aten.conv_transpose2d.input,
            ((4, 8, 4, 4), (8, 2, 2, 2), (8,), one, none, none, 4),
            name="groups",
        ),
        Case(aten.max_pool2d.default, ((4, 6, 8, 8), [2, 2], [2, 2])),
        Case(aten.avg_pool2d.default, ((4, 6, 8, 8), [2, 2])),
        Case(aten.adaptive_avg_pool2d.default, ((4, 6, 8, 8), [1, 1])),
        Case(aten.upsample_nearest2d.vec, ((4, 6, 4, 4), [8, 8], None)),
        Case(aten.upsample_bilinear2d.vec, ((4, 6, 4, 4), None, False, [2.0, 2.0])),
        Case(aten.im2col.default, ((4, 6, 5, 5), [2, 2], one, none, one)),
        Case(aten.pixel_shuffle.default, ((4, 8, 3, 3), 2)),
    ]


CASES: tuple[Case, ...] = tuple(
    case
    for family in (
        _pointwise,
        _matmul,
        _views,
        _shapes,
        _reductions,
        _norms,
        _attention,
        _embedding,
        _cells,
        _losses,
        _convolutions,
    )
    for case in family()
)
