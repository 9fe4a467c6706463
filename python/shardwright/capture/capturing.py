"""capture: from a model and a batch to a Captured step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.export.graph_signature import ConstantArgument, InputKind

from shardwright.capture.batch import BatchLayout, describe_batch
from shardwright.capture.captured import AutocastState, Captured
from shardwright.capture.exporting import export_step, model_device, on_device
from shardwright.capture.graph_json import GraphWriter
from shardwright.capture.lowering import Lowering
from shardwright.capture.schema import bind_arguments, has_effect, is_written
from shardwright.capture.tracked import TrackedGraph
from shardwright.capture.unfollowed import cut_unfollowed
from shardwright.capture.untouched import output_swallowed
from shardwright.errors import CaptureError

__all__ = ["capture"]

_STEP_PREFIX = "model."  # the user's model inside TrainingStep


def capture(
    model: nn.Module, batch: Any, *, loss: Callable[..., Any] | None = None
) -> Captured:
    """One training step of `model` on `batch`, at global shapes.

    `model` may live on meta; no memory is allocated and the model is left as it
    was. `batch`: a tensor, a tuple of arguments or a dict of keyword arguments.
    `loss(output)` or `loss(output, batch)`; without it the output's `.loss` or
    ["loss"], a scalar output, or the first element of a tuple if it alone is a
    scalar. Runs under the ambient autocast.

    Raises CaptureError, naming op and source line, for what cannot be captured
    surely right; nothing is printed.
    """
    with output_swallowed():
        return _captured(model, batch, loss)


def _captured(
    model: nn.Module, batch: Any, loss: Callable[..., Any] | None
) -> Captured:
    device = model_device(model)
    batch = on_device(batch, device)
    state = _State(model)
    layout = describe_batch(batch, model, state.names())
    program, output_layout = export_step(model, batch, loss)

    tracked = TrackedGraph()
    lowering = Lowering(tracked)
    sources = _bind_sources(program, lowering, state, layout)
    outputs = lowering.walk(program.graph_module)
    _check_outputs(outputs)
    tracked.graph.output(tuple(outputs))
    _remove_dead(tracked.graph)
    cut_unfollowed(tracked)
    return _assemble(model, device, state, layout, output_layout, tracked, sources)


class _State:
    """Parameters and buffers of a model: tensor -> all of its names."""

    def __init__(self, model: nn.Module) -> None:
        self.tensors: dict[str, Tensor] = {}  # by first name
        self.kinds: dict[str, str] = {}
        self.all_names: dict[str, list[str]] = {}
        self._first: dict[int, str] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self._add(name, parameter, "parameter")
        for name, buffer in model.named_buffers(remove_duplicate=False):
            self._add(name, buffer, "buffer")
        self.constants: dict[str, Tensor] = {}

    def _add(self, name: str, tensor: Tensor, kind: str) -> None:
        first = self._first.setdefault(id(tensor), name)
        self.tensors.setdefault(first, tensor)
        self.kinds.setdefault(first, kind)
        self.all_names.setdefault(first, []).append(name)

    def names(self) -> set[str]:
        return {name for names in self.all_names.values() for name in names}

    def first_name(self, name: str) -> str:
        return next(first for first, names in self.all_names.items() if name in names)


def _bind_sources(
    program: Any, lowering: Lowering, state: _State, layout: BatchLayout
) -> dict[str, fx.Node]:
    """Tells the lowering what each exported placeholder is."""
    sources: dict[str, fx.Node] = {}
    first_of = {n: first for first, names in state.all_names.items() for n in names}
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    inputs = iter(layout.names)
    for node, spec in zip(
        placeholders, program.graph_signature.input_specs, strict=True
    ):
        if isinstance(spec.arg, ConstantArgument):
            lowering.bind(node, spec.arg.value)
            continue
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            name = first_of[spec.target.removeprefix(_STEP_PREFIX)]
            kind, tensor = state.kinds[name], state.tensors[name]
        elif spec.kind is InputKind.USER_INPUT:
            kind, name, tensor = "input", next(inputs), node.meta["val"]
        else:
            kind, name = "constant", f"constants.{spec.arg.name}"
            tensor = _constant(program, spec.target)
            state.constants[name] = tensor
        if name not in sources:
            sources[name] = lowering.tracked.add_source(kind, name, tensor)
        lowering.bind(node, sources[name])
    return sources


def _constant(program: Any, target: str) -> Tensor:
    tensor = program.constants[target]
    if isinstance(tensor, nn.Parameter) or tensor.requires_grad:
        raise CaptureError(
            f"[capture] the step reads a trainable tensor '{target}' that is not a "
            "parameter of the model. Try: register it in the model (nn.Parameter)."
        )
    return tensor  # type: ignore[no-any-return]


def _check_outputs(outputs: list[Any]) -> None:
    if not outputs[0].meta["tensor"].requires_grad:
        raise CaptureError(
            "[capture] the loss does not depend on any parameter that requires a "
            "gradient. Try: check requires_grad, torch.no_grad and detach in the model."
        )


def _remove_dead(graph: fx.Graph) -> None:
    """Erases ops nothing reads, except those that change a buffer."""
    for node in reversed(graph.nodes):
        if node.op in ("placeholder", "output") or node.users:
            continue
        if isinstance(node.target, OpOverload):
            bound = bind_arguments(node.target, node.args, node.kwargs)
            if is_written(node.target) or has_effect(node.target, bound):
                continue
        elif node.op == "call_function" and node.args[0].users.keys() != {node}:
            continue  # an unread result beside others stays in its place
        graph.erase_node(node)


def _assemble(
    model: nn.Module,
    device: torch.device,
    state: _State,
    layout: BatchLayout,
    output_layout: Any,
    tracked: TrackedGraph,
    sources: dict[str, fx.Node],
) -> Captured:
    writer = GraphWriter()
    alive = set(tracked.graph.nodes)
    for name, tensor in state.tensors.items():
        kind, names = state.kinds[name], state.all_names[name]
        if sources.get(name) in alive:
            writer.add_source(sources[name], kind, name, names)
        else:
            writer.add_unread_state(kind, names, tensor)
    for name in [*layout.names, *state.constants]:
        if sources[name] in alive:
            kind = "input" if name in layout.names else "constant"
            writer.add_source(sources[name], kind, name, ())
    for node in tracked.graph.nodes:
        if isinstance(node.target, OpOverload):
            writer.add_op(node)
    (output,) = (n for n in tracked.graph.nodes if n.op == "output")
    loss, *outputs = output.args[0]
    autocast = _ambient_autocast(device)
    tensors = _read_state(tracked.graph, state)
    graph = writer.to_json(
        name=type(model).__name__,
        device=device.type,
        loss=writer.id_of(loss),
        outputs=[writer.id_of(node) for node in outputs],
        batch=_batch_json(layout, autocast),
    )
    return Captured(
        graph=graph,
        module=fx.GraphModule(tensors, tracked.graph, type(model).__name__),
        op_nodes=writer.op_nodes,
        value_nodes=writer.value_nodes,
        batch_layout=layout,
        output_layout=output_layout,
        training=model.training,
        autocast=autocast,
        valueless=_valueless(model, tensors, state),
    )


def _read_state(graph: fx.Graph, state: _State) -> dict[str, Tensor]:
    tensors = state.tensors | state.constants
    return {
        str(node.target): tensors[str(node.target)]
        for node in graph.nodes
        if node.op == "get_attr"
    }


def _batch_json(layout: BatchLayout, autocast: AutocastState | None) -> dict[str, Any]:
    described = layout.to_json()
    if autocast is not None:
        dtype = str(autocast.dtype).removeprefix("torch.")
        described["autocast"] = {"device": autocast.device_type, "dtype": dtype}
    return described


def _ambient_autocast(device: torch.device) -> AutocastState | None:
    kind = "cpu" if device.type == "meta" else device.type
    if not torch.is_autocast_enabled(kind):
        return None
    return AutocastState(kind, torch.get_autocast_dtype(kind))


def _valueless(
    model: nn.Module, tensors: dict[str, Tensor], state: _State
) -> tuple[str, ...]:
    persistent = set(model.state_dict(keep_vars=True))
    return tuple(
        name
        for name, tensor in tensors.items()
        if tensor.device.type == "meta"
        and not persistent.intersection(state.all_names.get(name, ()))
    )
