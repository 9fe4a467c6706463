"""Peaks of one op's forward and backward, apart from the step around them.

A step's peak shows the scratch of one kernel only; here each op is run with
real operands, its results dropped, and gradients as its record says they lie.
"""

from dataclasses import dataclass

import torch
from replay import Replay
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves, tree_map

from shardwright.execute.memory import watch

# Of the step around an op, checked elsewhere.
AROUND = {"mul", "sum", "add", "view", "_unsafe_view", "expand", "transpose", "clone"}


@dataclass(frozen=True)
class Peaks:
    """Bytes above the start of forward, and above the start of backward."""

    key: str
    predicted: tuple[int, int]
    measured: tuple[int, int]


def peaks(captured, inputs):
    """Peaks of every op of `captured` but those around it, on `inputs`."""
    runner = _Runner(captured)
    runner.run(*inputs)
    return runner.found


class _Runner(fx.Interpreter):
    def __init__(self, captured):
        super().__init__(captured.module)
        self._described, self.found = captured.graph, []
        keys = {node.name: key for key, node in captured.op_nodes.items()}
        indices = {op["key"]: i for i, op in enumerate(captured.graph["ops"])}
        self._index = {name: indices[key] for name, key in keys.items()}

    def run_node(self, node):
        out = super().run_node(node)
        index = self._index.get(node.name)
        if index is not None and _name(node) not in AROUND:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            self.found.append(self._peaks(index, node, args, kwargs))
        return out

    def _peaks(self, index, node, args, kwargs):
        op = self._described["ops"][index]
        layouts = self._described["records"][op["record"]]["layouts"]["gradients"]
        args, kwargs, leaves = _fresh(node, args, kwargs)
        held = []
        forward = watch(lambda: held.append(node.target(*args, **kwargs)))
        results = [r for r in tree_leaves(held.pop()) if isinstance(r, Tensor)]
        wanted = self._gradients(op, results, layouts)
        backward = 0
        if leaves and any(wanted):
            passed = [r if w else None for r, w in zip(results, wanted, strict=True)]
            sink = _Sink.apply(wanted, *passed)
            results.clear()
            passed.clear()
            backward = watch(
                lambda: torch.autograd.grad(sink, leaves, allow_unused=True)
            ).peak_bytes
        expected = _predicted(self._described, index, [w is not None for w in wanted])
        if not backward:
            expected = (expected[0], 0)
        return Peaks(op["key"], expected, (forward.peak_bytes, backward))

    def _gradients(self, op, results, layouts):
        """How to make the gradient of each result; None for none."""
        made = []
        for result, layout in zip(results, layouts, strict=True):
            order = layout["order"] if layout else list(range(result.dim()))
            reached = result.requires_grad and self._reached(op)
            made.append(_like(result, order) if reached else None)
        return made

    def _reached(self, op):
        record = self._described["records"][op["record"]]
        return any(handle is not None for handle in record["gradients"])


def _name(node):
    return node.target._schema.name.split("::")[1]


def _fresh(node, args, kwargs):
    """Operands as new leaves where the graph tracks them."""
    tracked = []
    fx.node.map_arg(
        (node.args, node.kwargs),
        lambda n: tracked.append(n.meta["tensor"].requires_grad) or n,
    )
    flags, leaves = iter(tracked), []

    def fresh(value):
        if not isinstance(value, Tensor):
            return value
        value = value.detach()
        if next(flags):
            leaves.append(value.requires_grad_())
        return value

    args, kwargs = tree_map(fresh, (tuple(args), dict(kwargs)))
    return args, kwargs, leaves


def _like(result, order):
    shape, dtype = [result.shape[dim] for dim in order], result.dtype
    back = [order.index(dim) for dim in range(len(order))]
    return lambda: torch.ones(shape, dtype=dtype).permute(back)


class _Sink(torch.autograd.Function):
    """Makes the gradients of results, owned by the engine alone."""

    @staticmethod
    def forward(ctx, wanted, *results):
        ctx.wanted = wanted
        ctx.set_materialize_grads(False)
        return torch.zeros(())

    @staticmethod
    def backward(ctx, gradient):
        return (None, *(make() if make else None for make in ctx.wanted))


def _predicted(graph, index, wanted):
    op = graph["ops"][index]
    one = Replay(graph, [{}] * len(graph["ops"]), [v["shape"] for v in graph["values"]])
    one.storage = dict.fromkeys(range(len(graph["values"])))
    one._forward(index, op)
    memory, forward = one.memory, one.memory.peak
    for value in op["results"]:
        memory.unref(one.storage[value])
    start = memory.peak = memory.now
    got = [
        memory.alloc(one._bytes(value)) if flag else None
        for value, flag in zip(op["results"], wanted, strict=True)
    ]
    one._backward_op(index, op, got, {}, [True] * len(got))
    return forward, memory.peak - start
