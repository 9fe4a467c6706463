"""The captured program as plain data: the graph of values and ops."""

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from shardwright.capture.batch import dtype_name
from shardwright.capture.schema import (
    SHAPE_ARGS,
    base_name,
    bind_arguments,
    has_effect,
    is_random,
    is_written,
    json_attrs,
    tensor_operands,
)
from shardwright.capture.tracked import TensorMeta

__all__ = ["GraphWriter"]


class GraphWriter:
    """Collects values and ops; `op_nodes` and `value_nodes` point back."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.op_nodes: dict[str, fx.Node] = {}
        self.value_nodes: dict[str, fx.Node] = {}
        self._ids: dict[fx.Node, int] = {}
        self._ordinals: Counter[tuple[str, str]] = Counter()

    def add_unread_state(self, kind: str, names: Sequence[str], tensor: Tensor) -> None:
        """A parameter or buffer that no op reads: it still takes memory."""
        meta = TensorMeta.of(tensor)
        self.values.append(_value(names[0], kind, meta, names))

    def add_source(
        self, node: fx.Node, kind: str, name: str, names: Sequence[str]
    ) -> None:
        self._ids[node] = len(self.values)
        self.value_nodes[name] = node
        self.values.append(_value(name, kind, node.meta["tensor"], names))

    def add_op(self, node: fx.Node) -> None:
        """`node` calls an op; its getitem users are the results of an op with
        several, in order."""
        module = module_path(node)
        op: Any = node.target
        base = base_name(op)
        key = f"{module}:{base}:{self._ordinals[module, base]}"
        self._ordinals[module, base] += 1
        bound = bind_arguments(op, node.args, node.kwargs)
        operands = tensor_operands(bound, lambda value: isinstance(value, fx.Node))
        shape_arg = SHAPE_ARGS.get(str(op))
        self.op_nodes[key] = node
        self.ops.append(
            {
                "key": key,
                "name": str(op),
                "operands": [self._ids[value] for _, value in operands],
                "operand_args": [name for name, _ in operands],
                "results": [
                    self._add_result(result, f"{key}#{index}")
                    for index, result in enumerate(result_nodes(node))
                ],
                "attrs": json_attrs(op, bound),
                "module": module,
                "source": node.meta["source"],
                "shape_args": [shape_arg] if shape_arg else [],
                "random": is_random(op, bound),
                "effect": bool(is_written(op)) or has_effect(op, bound),
            }
        )

    def id_of(self, node: fx.Node) -> int:
        return self._ids[node]

    def to_json(self, **header: Any) -> dict[str, Any]:
        return {
            "schema": "shardwright.graph",
            "version": 1,
            "torch": torch.__version__,
            **header,
            "values": self.values,
            "ops": self.ops,
        }

    def _add_result(self, node: fx.Node, name: str) -> int:
        self.add_source(node, "activation", name, ())
        return self._ids[node]


def result_nodes(node: fx.Node) -> list[fx.Node]:
    """The nodes that stand for the results of the op called by `node`."""
    if "tensor" in node.meta:
        return [node]
    items = [user for user in node.users if user.target is operator.getitem]
    return sorted(items, key=lambda item: item.args[1])  # type: ignore[arg-type, return-value]


def module_path(node: fx.Node) -> str:
    """Path of the user's module that ran the op ("" for the model itself)."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    path = paths[-1] if paths else ""
    return path.removeprefix("model").removeprefix(".")


def _value(
    name: str, kind: str, meta: TensorMeta, names: Sequence[str]
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "shape": list(meta.shape),
        "dtype": dtype_name(meta.dtype),
        "requires_grad": meta.requires_grad,
    }
    if kind in ("parameter", "buffer"):
        value["names"] = list(names)
    return value
