"""A graph under construction whose every value is a live fake tensor.

Each emitted op runs at once on fake tensors (no memory, autograd on), so shape,
strides, dtype, requires_grad and sharing of memory are those of a real run, not
guesses. All fakes live on the CPU, whatever device was captured: a fake CUDA
tensor with gradients aborts a process of a CPU build of torch.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from shardwright.capture.schema import SHAPE_ARGS, bind_arguments, unbind_arguments
from shardwright.capture.source import node_source
from shardwright.errors import CaptureError

__all__ = ["TensorMeta", "TrackedGraph", "nodes_in"]

Result = fx.Node | list[fx.Node]


@dataclass(frozen=True)
class TensorMeta:
    """What a tensor is, apart from its numbers. Strides in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    requires_grad: bool

    @staticmethod
    def of(tensor: Tensor) -> "TensorMeta":
        return TensorMeta(
            tuple(tensor.shape),
            tuple(tensor.stride()),
            int(tensor.storage_offset()),
            tensor.dtype,
            tensor.requires_grad,
        )


class TrackedGraph:
    """An fx.Graph with the fake tensor of every node.

    Invariants: every node in `graph` with a tensor value has an entry in
    `fakes` and a TensorMeta in meta["tensor"]; `parents[n]` is the operand
    whose memory n shares (n is a view of it); roots have no parent.
    """

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.fakes: dict[fx.Node, Tensor] = {}
        self.parents: dict[fx.Node, fx.Node] = {}
        self.kinds: dict[fx.Node, str] = {}  # of sources: parameter, buffer, ...
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)

    def add_source(self, kind: str, target: str, tensor: Tensor) -> fx.Node:
        """An input (placeholder) or a parameter, buffer, constant (get_attr)."""
        if kind == "input":
            node = self.graph.placeholder(_identifier(target))
        else:
            node = self.graph.create_node("get_attr", target, name=_identifier(target))
        with self._mode:
            fake = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu"
            )
            fake.requires_grad_(tensor.requires_grad and kind == "parameter")
        self._register(node, fake)
        self.kinds[node] = kind
        return node

    def emit(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: Any,
        origin: fx.Node,
        value: Any = None,
    ) -> Result:
        """Appends `op` in normal form: all arguments explicit, no -1 sizes.

        Returns one node, or for an op with several results the list of their
        getitem nodes. `origin` gives module path and source line. `value`: the
        fake result, when `run` has made it already.
        """
        bound = bind_arguments(op, args, kwargs)
        value = self.run(op, bound, origin) if value is None else value
        shape_arg = SHAPE_ARGS.get(str(op))
        if shape_arg is not None:
            bound[shape_arg] = list(value.shape)
        full_args, full_kwargs = unbind_arguments(op, bound)
        node = self.graph.call_function(op, full_args, full_kwargs)
        node.meta["nn_module_stack"] = origin.meta.get("nn_module_stack")
        node.meta["source"] = node_source(origin)
        if isinstance(value, Tensor):
            self._register(node, value, bound)
            return node
        return self._emit_results(node, value, bound, op)

    def run(self, op: OpOverload, bound: dict[str, Any], origin: fx.Node) -> Any:
        """The fake result of `op`, nothing appended."""
        on_cpu = {
            name: torch.device("cpu") if isinstance(value, torch.device) else value
            for name, value in bound.items()
        }
        args, kwargs = unbind_arguments(op, on_cpu)
        args, kwargs = map_arg((args, kwargs), lambda node: self.fakes[node])
        try:
            with self._mode, torch.enable_grad():
                return op(*args, **kwargs)
        except Exception as error:
            raise CaptureError(
                f"[capture] {op} cannot run without values ({node_source(origin)}): "
                f"{type(error).__name__}: {str(error).splitlines()[0]}. Try: avoid "
                "shapes and branches that depend on tensor values at this line."
            ) from error

    def root_of(self, node: fx.Node) -> fx.Node:
        while node in self.parents:
            node = self.parents[node]
        return node

    def shares_memory(self, left: fx.Node, right: fx.Node) -> bool:
        return self._storage(left) == self._storage(right)

    def is_identity_of(self, value: Any, node: fx.Node) -> bool:
        """True when `value` is the same tensor as node's, gradient included."""
        fake = self.fakes[node]
        return (
            isinstance(value, Tensor)
            and value.untyped_storage()._cdata == self._storage(node)
            and TensorMeta.of(value) == TensorMeta.of(fake)
        )

    def _emit_results(
        self, node: fx.Node, value: Any, bound: dict[str, Any], op: OpOverload
    ) -> list[fx.Node]:
        if not isinstance(value, list | tuple):
            raise CaptureError(
                f"[capture] {op} returns {type(value).__name__}, no tensor "
                f"({node.meta['source']}). Try: keep numbers in tensors."
            )
        results = []
        for index, item in enumerate(value):
            if isinstance(item, Tensor):
                result = self.graph.call_function(operator.getitem, (node, index))
                self._register(result, item, bound)
                results.append(result)
        return results

    def _register(
        self, node: fx.Node, fake: Tensor, bound: dict[str, Any] | None = None
    ) -> None:
        self.fakes[node] = fake
        node.meta["tensor"] = TensorMeta.of(fake)
        for operand in nodes_in(bound):
            if self._storage(operand) == self._storage(node):
                self.parents[node] = operand
                return

    def _storage(self, node: fx.Node) -> int:
        return int(self.fakes[node].untyped_storage()._cdata)


def nodes_in(value: Any) -> list[fx.Node]:
    """The nodes in nested lists, tuples and dicts, in order."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, fx.Node)]


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
