"""Gradients that lead nowhere.

An op on gradient-carrying tensors whose results reach neither the loss nor an
output through ops that can be differentiated (`torch.cdist(x, c).argmin(-1)`)
is recorded by autograd for nothing: it keeps tensors for a backward that never
comes. Such ops are put behind detached operands, as under torch.no_grad: the
loss and all gradients are the same, and nothing is kept.
"""

import dataclasses

import torch
from torch import fx
from torch._ops import OpOverload

from shardwright.capture.graph_json import result_nodes
from shardwright.capture.tracked import TrackedGraph

__all__ = ["cut_unfollowed"]

aten = torch.ops.aten


def cut_unfollowed(tracked: TrackedGraph) -> None:
    """Detaches every op whose gradients nobody asks for, in place.

    `tracked.graph` has its output and no dead ops. Complexity: O(nodes).
    """
    followed = _followed(tracked.graph)
    detached: dict[fx.Node, fx.Node] = {}
    for node in list(tracked.graph.nodes):
        if not isinstance(node.target, OpOverload):
            continue
        carried = [r for r in result_nodes(node) if _carries(r)]
        if carried and not followed.intersection(carried):
            for operand in node.all_input_nodes:
                if not _carries(operand):
                    continue
                if operand not in detached:
                    detached[operand] = _detach(tracked, operand, node)
                node.replace_input_with(operand, detached[operand])
            for result in carried:
                meta = result.meta["tensor"]
                result.meta["tensor"] = dataclasses.replace(meta, requires_grad=False)
        elif node.target is aten.detach.default and not _carries(node.args[0]):
            node.replace_all_uses_with(node.args[0])
            tracked.graph.erase_node(node)


def _followed(graph: fx.Graph) -> set[fx.Node]:
    """Results that backward, from the loss or an output, may come through: an op
    passes it on to every operand that carries a gradient."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        is_op = isinstance(node.target, OpOverload)
        reached = is_op and found.intersection(result_nodes(node))
        if node.op == "output" or reached:
            found.update(n for n in node.all_input_nodes if _carries(n))
    return found


def _detach(tracked: TrackedGraph, operand: fx.Node, reader: fx.Node) -> fx.Node:
    with tracked.graph.inserting_before(reader):
        node = tracked.emit(aten.detach.default, (operand,), {}, reader)
    assert isinstance(node, fx.Node)
    node.meta["source"] = reader.meta["source"]
    return node


def _carries(node: fx.Node) -> bool:
    return "tensor" in node.meta and bool(node.meta["tensor"].requires_grad)
