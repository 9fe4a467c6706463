"""Mutation made functional.

An in-place op on x becomes its out-of-place form, and every later reader of
memory shared with x reads a rebuilt value: the change is carried from the view
x up to the root of its memory (slice -> slice_scatter, ...), and the other
views of that root are taken anew. What cannot be carried is refused by name.
Buffers keep their in-place ops, as effects; parameters and inputs may not be
changed.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from shardwright.capture.schema import base_name, is_written
from shardwright.capture.source import node_source
from shardwright.capture.tracked import TrackedGraph
from shardwright.errors import CaptureError

__all__ = ["Mutation", "functional_form"]

aten = torch.ops.aten
# In-place ops whose out-of-place form has another name.
_OTHER_NAME: dict[str, OpOverload] = {
    "aten.zero_.default": aten.zeros_like.default,
    "aten.normal_.default": aten.normal_functional.default,
    "aten.bernoulli_.float": aten.bernoulli.p,
    "aten.__iand__.Tensor": aten.bitwise_and.Tensor,
    "aten.__ior__.Tensor": aten.bitwise_or.Tensor,
    "aten.__ixor__.Tensor": aten.bitwise_xor.Tensor,
}
# Views that keep all elements in order of memory: undone by a reshape.
_RESHAPING = {
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "alias",
    "view_as", "_unsafe_view",
}  # fmt: skip


def functional_form(op: OpOverload, origin: fx.Node) -> OpOverload:
    """relu of relu_, add.Tensor of add_.Tensor; CaptureError when none exists."""
    known = _OTHER_NAME.get(str(op))
    if known is not None:
        return known
    namespace = getattr(torch.ops, op.namespace)
    packet = getattr(namespace, base_name(op).removesuffix("_"), None)
    found = getattr(packet, op._overloadname, None)
    if found is None or is_written(found):
        raise CaptureError(
            f"[capture] in-place op {op} has no out-of-place form "
            f"({node_source(origin)}). Try: write the line without it."
        )
    return found  # type: ignore[no-any-return]


class Mutation:
    """One in-place change of `target`'s memory to `value`, during construction."""

    def __init__(self, tracked: TrackedGraph, origin: fx.Node) -> None:
        self._tracked = tracked
        self._origin = origin
        self._replaced: dict[fx.Node, fx.Node] = {}

    def apply(
        self, target: fx.Node, value: fx.Node, live: Iterable[fx.Node]
    ) -> dict[fx.Node, fx.Node]:
        """New values of the nodes in `live` (those read later, target included).

        When only `target` itself is read later nothing is carried to its root.
        """
        affected = self._affected(target, live)
        if affected == [target]:
            return {target: value}
        path = [target]
        while path[-1] in self._tracked.parents:
            path.append(self._tracked.parents[path[-1]])
        for view, parent in pairwise(path):
            value = self._carry(view, parent, value)
        self._replaced[path[-1]] = value
        return {node: self._retake(node) for node in affected}

    def is_carried(self, target: fx.Node, live: Iterable[fx.Node]) -> bool:
        """True when the value is written into a larger tensor, not kept itself."""
        is_view = target in self._tracked.parents
        return is_view and self._affected(target, live) != [target]

    def _affected(self, target: fx.Node, live: Iterable[fx.Node]) -> list[fx.Node]:
        return [
            node
            for node in dict.fromkeys([*live, target])
            if self._tracked.shares_memory(node, target)
        ]

    def _carry(self, view: fx.Node, parent: fx.Node, value: fx.Node) -> fx.Node:
        """The parent's new value when `view` of it became `value`."""
        name = base_name(view.target) if isinstance(view.target, OpOverload) else ""
        shape = list(parent.meta["tensor"].shape)
        rest = view.args[1:]
        if name == "slice":
            return self._emit(aten.slice_scatter.default, parent, value, *rest)
        if name == "select":
            return self._emit(aten.select_scatter.default, parent, value, *rest)
        if name == "transpose":
            return self._emit(aten.transpose.int, value, *rest)
        if name == "permute":
            order = [dim % len(shape) for dim in rest[0]]  # type: ignore[union-attr, operator]
            inverse = [order.index(dim) for dim in range(len(shape))]
            return self._emit(aten.permute.default, value, inverse)
        if name in _RESHAPING:
            return self._emit(aten.reshape.default, value, shape)
        raise CaptureError(
            f"[capture] in-place op {self._origin.target} on a view made by "
            f"{view.target}, whose memory is read elsewhere "
            f"({node_source(self._origin)}). Try: clone() before changing it, or an "
            "out-of-place operation."
        )

    def _retake(self, node: fx.Node) -> fx.Node:
        """`node`'s view, taken from the replaced root."""
        if node not in self._replaced:
            parent = self._tracked.parents[node]
            if not isinstance(node.target, OpOverload):  # a getitem of split, ...
                raise CaptureError(
                    f"[capture] in-place op {self._origin.target} changes memory that "
                    f"{parent} shares ({node_source(self._origin)}). Try: clone() it."
                )
            new_parent = self._retake(parent)
            args = tuple(new_parent if arg is parent else arg for arg in node.args)
            taken = self._tracked.emit(node.target, args, node.kwargs, self._origin)
            assert isinstance(taken, fx.Node)
            self._replaced[node] = taken
        return self._replaced[node]

    def _emit(self, op: OpOverload, *args: Any) -> fx.Node:
        node = self._tracked.emit(op, args, {}, self._origin)
        assert isinstance(node, fx.Node)
        return node
