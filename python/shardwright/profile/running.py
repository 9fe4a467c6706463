"""Runs one op alone on fake tensors and writes down what memory does.

Forward and backward run with autograd's own hooks: which storages are made and
die, in which order, what autograd saves and when it lets go, which gradients
alias the incoming ones, which kernels are dispatched. Nothing is computed.

Operands come out of a `_Source`, an autograd function, so that they are fresh
and not leaves (a leaf's gradient would be stored, not handed on); results go
into a `_Sink` whose backward makes the incoming gradients, owned by the
engine alone as in a real step.
"""

import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from shardwright.profile.kernels import Kernel, kernel_of
from shardwright.profile.layout import (
    Layout,
    contiguous_strides,
    is_dense,
    kept_as,
)
from shardwright.profile.opaque import storage_bytes, transients
from shardwright.profile.opaque.call import KernelCall
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["Run", "Runner", "Stored"]

# ("alloc", new) ("free", new) ("release", saved) ("drop_grad", result)
# ("transient", alternative)
Event = tuple[str, Any]


@dataclass
class Run:
    """Everything seen in one run. Handles: i0 operand, n0 new, g0 gradient."""

    sizes: list[int] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    result_layouts: list[Layout] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    forward: list[Event] = field(default_factory=list)
    backward: list[Event] = field(default_factory=list)
    gradients: list[str | None] = field(default_factory=list)
    gradient_layouts: list[Layout | None] = field(default_factory=list)
    # Whether the engine may add a later gradient into this one: dense, and no
    # view (a view's storage has a second owner, its base).
    gradients_in_place: list[bool] = field(default_factory=list)
    kernels_forward: list[Kernel] = field(default_factory=list)
    kernels_backward: list[Kernel] = field(default_factory=list)


@dataclass(frozen=True)
class Stored:
    """A leaf's gradient is stored when all of it is there: `before` is what others
    of its readers gave, and `may_add` whether the engine adds into that."""

    before: Layout | None = None
    may_add: bool = False


class Runner:
    """Runs ops; `threads` is the number of CPU threads kernels will have."""

    def __init__(
        self, *, threads: int, autocast: tuple[str, torch.dtype] | None = None
    ) -> None:
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._threads = threads
        self._autocast = autocast
        with self._mode:
            self._anchor = torch.empty((), requires_grad=True)

    def run(
        self,
        call: Callable[[Sequence[Tensor]], Any],
        operands: Sequence[Layout],
        gradients: Sequence[Layout | None],
        *,
        name: str = "",
        stored: Sequence[Stored | None] = (),
    ) -> Run:
        """`call` runs the op `name` with the operands; `gradients` are what its
        results will be given in backward (None: not given); `stored` tells which
        operands are leaves whose gradients this run completes."""
        recorder = _Recorder(self._threads, operands, name, stored)
        with contextlib.ExitStack() as stack:
            if self._autocast is not None:
                device, dtype = self._autocast
                # Without the cache: a cast belongs to the op that needs it.
                stack.enter_context(
                    torch.autocast(device, dtype=dtype, cache_enabled=False)
                )
            stack.enter_context(torch.enable_grad())
            stack.enter_context(self._mode)
            stack.enter_context(recorder)
            sink = self._forward(recorder, call, operands, gradients)
            if sink is not None:
                # _Sink.backward begins the record
                sink.backward()
                recorder.copy_what_others_hold()
                recorder.finish_backward()
        return recorder.run

    def _forward(
        self,
        recorder: "_Recorder",
        call: Callable[[Sequence[Tensor]], Any],
        operands: Sequence[Layout],
        gradients: Sequence[Layout | None],
    ) -> Tensor | None:
        """Runs forward; returns the tensor whose backward runs the rest.

        No reference to a result survives this function, so that storages die
        in backward when autograd lets them go.
        """
        inputs = [
            _Source.apply(  # type: ignore[no-untyped-call]
                self._anchor, recorder, number, layout
            )
            if layout.requires_grad
            else recorder.labelled(layout.empty(), f"i{number}")
            for number, layout in enumerate(operands)
        ]
        recorder.begin()
        with torch.autograd.graph.saved_tensors_hooks(recorder.pack, _unpack):
            out = call(inputs)
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        recorder.finish_forward(results)
        for layout, result in zip(gradients, results, strict=True):
            if layout is not None and layout.shape != tuple(result.shape):
                raise ValueError(
                    f"a result is {list(result.shape)} where the rule says "
                    f"{list(layout.shape)}"
                )
        wanted = [
            layout if result.requires_grad else None
            for layout, result in zip(gradients, results, strict=True)
        ]
        if not any(layout is not None for layout in wanted):
            return None
        passed = [
            result if layout is not None else None
            for layout, result in zip(wanted, results, strict=True)
        ]
        return _Sink.apply(recorder, wanted, *passed)  # type: ignore[no-any-return, no-untyped-call]


aten = torch.ops.aten
_ZEROS = {"aten::zeros", "aten::new_zeros", "aten::zeros_like"}
_INTO_ZEROS = {
    aten.index_add.default: aten.index_add_.default,
    aten.index_put.default: aten.index_put_.default,
    aten.put.default: aten.put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter_add.default: aten.scatter_add_.default,
}
# (op, in backward) -> kernels that go on in a tensor which they made before.
_INTO_OWN = {
    ("linear", False): {aten.add.Tensor: aten.add_.Tensor},
    ("binary_cross_entropy_with_logits", True): {
        aten.mul.Tensor: aten.mul_.Tensor,
        aten.sub.Tensor: aten.sub_.Tensor,
    },
}


class _Recorder(TorchDispatchMode):
    def __init__(
        self,
        threads: int,
        operands: Sequence[Layout],
        op_name: str,
        stored: Sequence[Stored | None],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        num_operands = len(operands)
        self._operands, self._stored = operands, dict(enumerate(stored))
        self.run = Run(
            gradients=[None] * num_operands,
            gradient_layouts=[None] * num_operands,
            gradients_in_place=[False] * num_operands,
        )
        self._threads = threads
        self._op_name = op_name
        self._handles: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._events: list[Event] = []
        self._kernels: list[Kernel] = []
        self._held: list[Tensor] = []  # gradients, until the run is over
        self._saved_number: dict[int, int] = {}  # as saved -> in run.saved
        self._first_backward = 0
        self._recording = False
        self._in_backward = False
        self._forward_names: frozenset[str] = frozenset()
        self._zeros: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._recording:
            return func(*args, **kwargs)
        func = self._as_engine_calls(func, args)
        out = func(*args, **kwargs)
        call = KernelCall(
            func,
            args,
            kwargs,
            out,
            self._threads,
            self._in_backward,
            self._forward_names,
        )
        for scratch in transients(call):
            self._events.append(("transient", scratch))
        kernel = kernel_of(func, args, kwargs, out)
        if kernel is not None:
            self._kernels.append(kernel)
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.handle(leaf, lambda t: storage_bytes(func, args, t))
        if self._in_backward and func._schema.name in _ZEROS:
            self._zeros.add(out.untyped_storage())
        return out

    def _as_engine_calls(self, func: Any, args: Any) -> Any:
        """Formulas write into tensors of their own, but for subclasses of Tensor,
        fake ones too, they take forms that make other tensors."""
        if func in _INTO_ZEROS and args[0].untyped_storage() in self._zeros:
            return _INTO_ZEROS[func]
        if func in _INTO_OWN.get((self._op_name, self._in_backward), {}):
            if any(kernel.name == "aten.neg" for kernel in self._kernels):
                return func  # the gradient of a target, which is made anew
            own = self._handles.get(args[0].untyped_storage(), "")
            if own.startswith("n") and int(own[1:]) >= self._first_backward:
                return _INTO_OWN[self._op_name, self._in_backward][func]
        return func

    # -- storages ---------------------------------------------------------

    def labelled(self, tensor: Tensor, handle: str) -> Tensor:
        """Gives the tensor's storage its final handle; its death is an event
        only for gradients."""
        storage = tensor.untyped_storage()
        self._handles[storage] = handle
        if handle.startswith("g"):
            self._on_death(storage, ("drop_grad", int(handle[1:])))
        return tensor

    def handle(
        self, tensor: Tensor, size: Callable[[Tensor], int] | None = None
    ) -> str:
        storage = tensor.untyped_storage()
        known = self._handles.get(storage)
        if known is not None:
            return known
        number = len(self.run.sizes)
        self.run.sizes.append(size(tensor) if size else int(storage.nbytes()))
        self._handles[storage] = f"n{number}"
        self._events.append(("alloc", number))
        self._on_death(storage, ("free", number))
        return f"n{number}"

    def _on_death(self, target: Any, event: Event) -> None:
        finalizer = weakref.finalize(target, lambda: self._events.append(event))
        finalizer.atexit = False

    def pack(self, tensor: Tensor) -> "_Saved":
        number = len(self.run.saved)
        self.run.saved.append(self.handle(tensor))
        saved = _Saved(tensor)
        self._on_death(saved, ("release", number))
        return saved

    # -- phases -----------------------------------------------------------

    def begin(self) -> None:
        """From here on what happens is the op's; preparations were not."""
        self._events, self._kernels = [], []
        self._recording = True

    def finish_forward(self, results: list[Tensor]) -> None:
        self.run.results = [self.handle(result) for result in results]
        self.run.result_layouts = [Layout.of(result) for result in results]
        self._forget_released()
        self.run.forward, self._events = self._events, []
        self.run.kernels_forward, self._kernels = self._kernels, []
        self._forward_names = frozenset(
            kernel.name.removeprefix("aten.") for kernel in self.run.kernels_forward
        )
        self._first_backward = len(self.run.sizes)
        self._recording, self._in_backward = False, True

    def _forget_released(self) -> None:
        """Nothing is saved by a node that died in forward: its results are not
        the op's (the values of a sort of which the order is wanted)."""
        released = {number for kind, number in self._events if kind == "release"}
        self._events = [event for event in self._events if event[0] != "release"]
        kept = [n for n in range(len(self.run.saved)) if n not in released]
        self.run.saved = [self.run.saved[number] for number in kept]
        self._saved_number = {number: new for new, number in enumerate(kept)}

    def gradient_of(self, operand: int, gradient: Tensor) -> None:
        stored = self._stored.get(operand)
        if stored is not None:
            gradient = self._store(stored, self._operands[operand], gradient)
        self.run.gradients[operand] = self.handle(gradient)
        layout = Layout.of(gradient)
        self.run.gradient_layouts[operand] = layout
        self.run.gradients_in_place[operand] = (
            is_dense(layout) and not gradient._is_view()
        )
        self._held.append(gradient)

    def _store(self, stored: Stored, leaf: Layout, gradient: Tensor) -> Tensor:
        """What a leaf keeps: a copy if the gradient lies otherwise. One that adds
        to others is copied after that, which is counted here, all being alive."""
        total = Layout.of(gradient)
        if stored.before is not None:
            total = stored.before.resized(leaf.shape)
            if not stored.may_add:
                self._recording = False
                total = Layout.of(total.empty() + gradient)
                self._recording = True
        if kept_as(total, leaf):
            return gradient
        if stored.before is not None:
            copy = Alternative((Part(leaf.dtype.itemsize, leaf.shape),))
            self._events.append(("transient", copy))
            return gradient
        stride = leaf.stride if is_dense(leaf) else contiguous_strides(leaf.shape)
        kept = torch.empty_strided(leaf.shape, stride, dtype=leaf.dtype, device="cpu")
        return kept.copy_(gradient)

    def copy_what_others_hold(self) -> None:
        """A leaf does not keep a gradient that is handed on to others as well."""
        run = self.run
        for operand, stored in self._stored.items():
            layout = run.gradient_layouts[operand]
            if stored is None or stored.before is not None or layout is None:
                continue
            mine = (run.gradients[operand], layout)
            pairs = zip(run.gradients, run.gradient_layouts, strict=True)
            if any(
                pair == mine and number != operand
                for number, pair in enumerate(pairs)
                if number > operand or self._stored.get(number) is None
            ):
                kept = layout.empty()
                run.gradients[operand] = self.handle(kept)
                self._held.append(kept)

    def finish_backward(self) -> None:
        """Keeps frees of storages born in backward: older ones die with their
        last reference (result, saved), which the replay counts."""
        self.run.backward = [
            ("release", self._saved_number[event[1]])
            if event[0] == "release"
            else event
            for event in self._events
            if event[0] != "free" or event[1] >= self._first_backward
        ]
        self.run.kernels_backward = self._kernels
        self._events = []
        self._recording = False


class _Saved:
    """What autograd keeps instead of a tensor; its death is the release."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _unpack(saved: _Saved) -> Tensor:
    return saved.tensor


class _Source(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, recorder: _Recorder, number: int, layout: Layout
    ) -> Tensor:
        ctx.recorder, ctx.number = recorder, number
        return recorder.labelled(layout.empty(), f"i{number}")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Any:
        if gradient is not None:
            ctx.recorder.gradient_of(ctx.number, gradient)
        return None, None, None, None


class _Sink(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, recorder: _Recorder, gradients: list[Layout | None], *results: Any
    ) -> Tensor:
        ctx.recorder, ctx.gradients = recorder, gradients
        ctx.set_materialize_grads(False)
        return torch.empty(())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        made = [
            None
            if layout is None
            else ctx.recorder.labelled(layout.empty(), f"g{number}")
            for number, layout in enumerate(ctx.gradients)
        ]
        ctx.recorder.begin()
        return (None, None, *made)
