"""Export's graph -> the normal form of contract and code generation.

One walk over the exported nodes builds the new graph: guards and identities
vanish, in-place ops become functional, no-grad regions are inlined behind
detach, sizes are explicit. See `TrackedGraph` for what is known of each value.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.node import map_arg

from shardwright.capture.functional import Mutation, functional_form
from shardwright.capture.schema import (
    base_name,
    bind_arguments,
    has_effect,
    is_written,
    tensor_operands,
)
from shardwright.capture.source import node_source
from shardwright.capture.tracked import Result, TensorMeta, TrackedGraph, nodes_in
from shardwright.errors import CaptureError

__all__ = ["Lowering"]

aten = torch.ops.aten
_GUARDS = {
    "_assert_tensor_metadata",
    "_assert_scalar",
    "_assert_async",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
}
_SHAPE_OF_OTHER = {"expand_as": aten.expand.default, "view_as": aten.view.default}


class Lowering:
    """State of the walk: what each exported node became."""

    def __init__(self, tracked: TrackedGraph) -> None:
        self.tracked = tracked
        self._env: dict[fx.Node, Any] = {}
        self._last_use: dict[fx.Node, int] = {}
        self._position = 0
        self._fresh: set[fx.Node] = set()  # constants copied at every step
        self._outside: set[fx.Node] = set()  # roots of a region's operands

    def bind(self, exported: fx.Node, value: Any) -> None:
        """Says what an exported placeholder is: a source node or a constant."""
        self._env[exported] = value

    def walk(self, root: fx.GraphModule) -> list[Any]:
        """Lowers all ops of `root`; returns what its outputs became."""
        nodes = list(root.graph.nodes)
        self._last_use |= {
            used: index
            for index, node in enumerate(nodes)
            for used in node.all_input_nodes
        }
        outputs: list[Any] = []
        for index, node in enumerate(nodes):
            self._position = index
            if node.op == "call_function":
                self._env[node] = self._lower(node, root)
            elif node.op == "get_attr":
                self._env[node] = getattr(root, str(node.target), None)
            elif node.op == "output":
                outputs = list(self._mapped(node.args[0]))
        return outputs

    def _lower(self, node: fx.Node, root: fx.GraphModule) -> Any:
        target = node.target
        if target is operator.getitem:
            source, index = node.args
            return self._env[source][index]  # type: ignore[index]
        if isinstance(target, HigherOrderOperator):
            return self._lower_region(node, target)
        if not isinstance(target, OpOverload):
            raise _refused(node, f"{target} is no tensor operation")
        if base_name(target) in _GUARDS:
            return None
        bound = bind_arguments(
            target, self._mapped(node.args), self._mapped(node.kwargs)
        )
        if bound.get("sparse") is True or bound.get("sparse_grad") is True:
            raise _refused(
                node,
                f"{target} gives a sparse gradient, which cannot be planned",
                "leave out sparse=True",
            )
        written = is_written(target)
        if written:
            return self._lower_mutation(node, target, bound, written)
        return self._lower_op(node, target, bound)

    def _lower_op(self, node: fx.Node, op: OpOverload, bound: dict[str, Any]) -> Result:
        if op is aten.broadcast_tensors.default:
            return self._broadcast(node, bound["tensors"])
        op, bound = self._simplified(op, bound)
        if op is aten.lift_fresh_copy.default or op is aten.lift_fresh.default:
            self._fresh.add(bound["self"])
            return bound["self"]  # type: ignore[no-any-return]
        first = next(iter(bound.values()), None)
        may_be_identity = self._may_be_identity(op) and not has_effect(op, bound)
        value = None
        if isinstance(first, fx.Node) and may_be_identity:
            value = self.tracked.run(op, bound, node)
            if self.tracked.is_identity_of(value, first):
                return first
        if op is aten.slice.Tensor:
            bound = _explicit_slice(bound, first.meta["tensor"])  # type: ignore[union-attr]
        if has_effect(op, bound):
            self._check_statistics(node, bound)
        return self.tracked.emit(op, (), bound, node, value)

    def _broadcast(self, node: fx.Node, tensors: Sequence[fx.Node]) -> list[fx.Node]:
        """One expand per tensor that needs it."""
        shapes = [tensor.meta["tensor"].shape for tensor in tensors]
        common = torch.broadcast_shapes(*shapes)
        return [
            tensor
            if shape == common
            else self._one(node, aten.expand.default, tensor, list(common))
            for tensor, shape in zip(tensors, shapes, strict=True)
        ]

    def _may_be_identity(self, op: OpOverload) -> bool:
        """Ops whose one result may be their operand: views, casts, dropout."""
        if len(op._schema.returns) != 1 or "[]" in str(op._schema.returns[0].type):
            return False
        return op._schema.returns[0].alias_info is not None or "dropout" in str(op)

    def _simplified(
        self, op: OpOverload, bound: dict[str, Any]
    ) -> tuple[OpOverload, dict[str, Any]]:
        """Forms that say the same with fewer operands; one form of cast."""
        name = base_name(op)
        if name in _SHAPE_OF_OTHER:
            size = list(bound["other"].meta["tensor"].shape)
            simple = _SHAPE_OF_OTHER[name]
            return simple, bind_arguments(simple, (bound["self"], size), {})
        if name in ("to", "type_as"):
            other = bound.get("other")
            dtype = (
                other.meta["tensor"].dtype if other is not None else bound.get("dtype")
            )
            dtype = dtype or bound["self"].meta["tensor"].dtype
            copy = bound.get("copy", False)
            layout = bound.get("memory_format")
            args = (bound["self"], dtype, False, copy, layout)
            return aten.to.dtype, bind_arguments(aten.to.dtype, args, {})
        return op, bound

    def _check_statistics(self, node: fx.Node, bound: Mapping[str, Any]) -> None:
        for name in ("running_mean", "running_var"):
            if self.tracked.kinds.get(bound[name]) != "buffer":
                raise _refused(node, f"{name} is not a buffer of the model")

    # -- mutation ---------------------------------------------------------

    def _lower_mutation(
        self, node: fx.Node, op: OpOverload, bound: dict[str, Any], written: list[str]
    ) -> Any:
        name = base_name(op)
        target = bound.get("self")
        if written != ["self"] or not isinstance(target, fx.Node):
            raise _refused(node, f"{op} writes into {', '.join(written)}")
        if torch.Tag.inplace_view in op.tags:  # detach_, unsqueeze_: no data changes
            result = self._lower_op(node, functional_form(op, node), bound)
            self._rename(target, result)
            return result
        root = self.tracked.root_of(target)
        kind = self.tracked.kinds.get(root, "activation")
        if kind == "buffer":
            return self._buffer_effect(node, op, bound, root)
        if kind in ("parameter", "input") or (
            kind == "constant" and root not in self._fresh
        ):
            raise _refused(
                node, f"{op} changes the {kind} '{root.target}' in place", "clone() it"
            )
        if root in self._outside:
            raise _refused(
                node,
                f"{op} under no_grad changes a tensor made before it",
                "clone() it",
            )
        live = self._live_nodes()
        mutation = Mutation(self.tracked, node)
        if name == "copy_":
            own = not mutation.is_carried(target, live)
            value = self._copied(node, bound["src"], target.meta["tensor"], own)
        else:
            value = self._new_value(node, op, bound)
        replaced = mutation.apply(target, value, live)
        for old, new in replaced.items():
            self._rename(old, new)
        carried: fx.Node = replaced[target]
        return carried

    def _buffer_effect(
        self, node: fx.Node, op: OpOverload, bound: dict[str, Any], root: fx.Node
    ) -> fx.Node:
        """A buffer keeps its in-place op; its later readers follow in order."""
        target: fx.Node = bound["self"]
        if target is not root:
            raise _refused(node, f"{op} changes a part of the buffer '{root.target}'")
        operands = tensor_operands(bound, lambda value: isinstance(value, fx.Node))
        if any(value.meta["tensor"].requires_grad for _, value in operands):
            raise _refused(
                node, f"{op} writes a gradient-carrying value into '{root.target}'",
                "detach() it",
            )  # fmt: skip
        self.tracked.emit(op, (), bound, node)
        return root

    def _copied(
        self, node: fx.Node, source: fx.Node, meta: TensorMeta, own: bool
    ) -> fx.Node:
        """`source` as copy_ leaves it in a target like `meta`; a value that is
        kept gets memory of its `own`, since `source` may change later."""
        value = self._cast(node, source, meta.dtype)
        if value.meta["tensor"].shape != meta.shape:
            value = self._one(node, aten.expand.default, value, list(meta.shape))
        if not own:
            return value
        layout = torch.contiguous_format
        return self._one(node, aten.clone.default, value, memory_format=layout)

    def _new_value(
        self, node: fx.Node, op: OpOverload, bound: dict[str, Any]
    ) -> fx.Node:
        """What the in-place op leaves in its target: same shape and dtype."""
        meta: TensorMeta = bound["self"].meta["tensor"]
        functional = functional_form(op, node)
        arguments = {
            argument.name: bound[argument.name]
            for argument in functional._schema.arguments
            if argument.name in bound
        }
        value = self.tracked.emit(functional, (), arguments, node)
        assert isinstance(value, fx.Node)
        return self._cast(node, value, meta.dtype)

    def _cast(self, node: fx.Node, value: fx.Node, dtype: torch.dtype) -> fx.Node:
        if value.meta["tensor"].dtype == dtype:
            return value
        return self._one(node, aten.to.dtype, value, dtype)

    def _one(self, node: fx.Node, op: OpOverload, *args: Any, **kwargs: Any) -> fx.Node:
        result = self.tracked.emit(op, args, kwargs, node)
        assert isinstance(result, fx.Node)
        return result

    def _live_nodes(self) -> list[fx.Node]:
        """New nodes that exported nodes after this one still read."""
        found: list[fx.Node] = []
        for exported, value in self._env.items():
            if self._last_use.get(exported, -1) > self._position:
                found += nodes_in(value)
        return found

    def _rename(self, old: fx.Node, new: Any) -> None:
        for exported, value in self._env.items():
            self._env[exported] = map_arg(
                value, lambda node: new if node is old else node
            )

    # -- regions ----------------------------------------------------------

    def _lower_region(self, node: fx.Node, op: HigherOrderOperator) -> list[Any]:
        name = str(op.name())
        if name == "wrap_with_set_grad_enabled":
            enabled, body, *operands = node.args
            return self._inline(node, body, operands, detached=not enabled)
        if name == "wrap_with_autocast":
            device, _, enabled, _, body, *operands = node.args
            if enabled or torch.is_autocast_enabled(str(device)):
                raise _refused(
                    node, "the model switches autocast inside its forward",
                    "put autocast around the whole step",
                )  # fmt: skip
            return self._inline(node, body, operands, detached=False)
        raise _refused(node, f"control flow operator {name} is not supported")

    def _inline(
        self, node: fx.Node, body: Any, operands: Sequence[Any], *, detached: bool
    ) -> list[Any]:
        """The region's ops in place. Without gradients: behind detached operands,
        so that autograd keeps nothing for them, as under torch.no_grad."""
        module = self._env[body]
        inner = Lowering(self.tracked)
        inner._fresh = self._fresh
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        for placeholder, operand in zip(placeholders, operands, strict=True):
            value = self._mapped(operand)
            if isinstance(value, fx.Node):
                if detached and value.meta["tensor"].requires_grad:
                    value = self._one(node, aten.detach.default, value)
                inner._outside.add(self.tracked.root_of(value))
            inner.bind(placeholder, value)
        outputs = inner.walk(module)
        if detached and any(
            isinstance(n, fx.Node) and n.meta["tensor"].requires_grad for n in outputs
        ):
            raise _refused(node, "torch.enable_grad inside torch.no_grad")
        return outputs

    def _mapped(self, value: Any) -> Any:
        return map_arg(value, lambda node: self._env[node])


def _explicit_slice(bound: dict[str, Any], meta: TensorMeta) -> dict[str, Any]:
    """start and end as positions inside the dim: no None, negative, 2^63-1."""
    size = meta.shape[bound["dim"]]
    start, end, _ = slice(bound["start"], bound["end"], 1).indices(size)
    return bound | {"start": start, "end": max(start, end)}


def _refused(node: fx.Node, what: str, hint: str = "") -> CaptureError:
    where = node_source(node)
    hint = hint or "write the line in another way"
    return CaptureError(f"[capture] {what} ({where}). Try: {hint}.")
