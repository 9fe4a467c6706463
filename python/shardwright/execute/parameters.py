"""The parallel module: DTensor parameters under their original names.

`ParallelModule` looks like the user's model from outside: the same module
tree, parameter names, order and ties, the same buffers, the same call. Inside,
forward runs the local program of this rank's plan.

- Parameters are DTensors on one DeviceMesh in the plan's storage layout;
  gradients and optimizer states live in the same layout. Gradients arrive
  reduced: the program's conversions do it, DTensor only wraps them.
- The batch is global and equal on all ranks; the program takes its part.
- The loss is a plain tensor, equal on all ranks; other outputs are DTensors in
  the plan's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from shardwright.errors import InvalidPlanError
from shardwright.execute.generate import (
    CapturedProgram,
    LocalProgram,
    generate,
    wide,
)
from shardwright.execute.specs import Spec, parse, placements
from shardwright.runtime import axes as _axes

__all__ = ["ParallelModule", "make_mesh", "shard_tensor", "whole_tensor"]


def make_mesh(plan: Mapping[str, Any], device_type: str = "cpu") -> DeviceMesh:
    """The DeviceMesh of a plan over all ranks of the default process group."""
    axes = plan["mesh"]["axes"]
    sizes = tuple(axis["size"] for axis in axes)
    world = torch.distributed.get_world_size()
    if torch.Size(sizes).numel() != world:
        raise InvalidPlanError(
            f"[execute] wrong number of ranks: expected {torch.Size(sizes).numel()} "
            f"for the mesh {sizes}, got {world}. Try: torchrun "
            f"--nproc-per-node={torch.Size(sizes).numel()}."
        )
    names = tuple(axis["name"] for axis in axes)
    return init_device_mesh(device_type, sizes, mesh_dim_names=names)


def shard_tensor(
    full: Tensor, mesh: DeviceMesh, layout: Sequence[Placement]
) -> DTensor:
    """A DTensor that owns a copy of this rank's part of `full`.

    `full` must be equal on all ranks; nothing is communicated, and `full` can
    be freed afterwards.
    """
    coordinate = mesh.get_coordinate()
    assert coordinate is not None
    part = full.detach()
    for axis, placement in enumerate(layout):
        if isinstance(placement, Shard):
            offset, length = _axes.chunk(
                part.shape[placement.dim], mesh.size(axis), coordinate[axis]
            )
            part = part.narrow(placement.dim, offset, length)
    part = part.clone(memory_format=torch.contiguous_format)
    stride = torch.empty(full.shape, device="meta").stride()
    return DTensor.from_local(
        part, mesh, layout, run_check=False, shape=full.shape, stride=stride
    )


def whole_tensor(tensor: Tensor) -> Tensor:
    """The global value of a DTensor, on every rank; a plain tensor as it is.

    By DTensor's own redistribution, one mesh axis at a time, minor axes first
    (several at once make it warn that this could be one collective).
    """
    if not isinstance(tensor, DTensor):
        return tensor
    layout = list(tensor.placements)
    for axis in reversed(range(len(layout))):
        layout[axis] = Replicate()
        tensor = tensor.redistribute(placements=layout)
    local: Tensor = tensor.to_local()
    return local


class ParallelModule(nn.Module):
    """The user's model on this rank. See the head of this file.

    `model` must hold real values, equal on all ranks (built from one seed); it
    is not kept, only copies of shards are. `widen` makes a float64 program out
    of a model in float64 (checks). `seed` feeds random ops.
    """

    def __init__(
        self,
        model: nn.Module,
        captured: CapturedProgram,
        plan: Mapping[str, Any],
        mesh: DeviceMesh,
        *,
        widen: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check_mesh(plan, mesh)
        _check_device(captured)
        self._sw_mesh = mesh
        self._sw_axes = _axes.from_mesh(mesh)
        self._sw_captured = captured
        self._sw_plan = plan
        self._sw_seed = seed
        self.forward_count = 0  # random ops draw anew in every forward
        self._sw_program = generate(
            captured, plan, self._sw_axes.coordinates(), widen=widen
        )
        self._sw_values = {v["name"]: v for v in captured.graph["values"]}
        _copy_tree(self, model, lambda name, p: self._storage(name, p, mesh))
        # In a list: constants are neither parameters nor part of state_dict.
        self._sw_constants = [
            self._constant(name, widen) for name in self._sw_program.values
        ]
        self._sw_inputs = [
            v["name"] for v in captured.graph["values"] if v["kind"] == "input"
        ]
        hooks: Any = self
        hooks.register_load_state_dict_pre_hook(_distribute_plain_tensors)
        self.train(model.training)

    @property
    def local_program(self) -> LocalProgram:
        """The local program of this rank."""
        return self._sw_program

    @property
    def device_mesh(self) -> DeviceMesh:
        return self._sw_mesh

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own output for the global batch (args or kwargs).

        When the loss is not part of it (the user gave a loss function), the
        pair (loss, output).
        """
        batch: Any = kwargs if kwargs else args
        if len(args) == 1 and not kwargs and self._takes_tensor():
            batch = args[0]
        loss, outputs = self.run_flat(self._sw_captured.bind(batch))
        output = self._sw_captured.unflatten(outputs)
        values = self._sw_captured.graph
        return output if values["loss"] in values["outputs"] else (loss, output)

    def run_flat(self, inputs: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """(loss, outputs) for flat global inputs in the order of the capture."""
        given = dict(zip(self._sw_inputs, inputs, strict=True))
        tensors = [
            self._local(name, given, constant)
            for name, constant in zip(
                self._sw_program.values, self._sw_constants, strict=True
            )
        ]
        step = self._sw_seed * (1 << 32) + self.forward_count
        self.forward_count += 1
        with _axes.bound(self._sw_axes), self._autocast():
            loss, *results = self._sw_program.module(step, *tensors)
        return loss, [
            self._global(result, output.spec, output.value)
            for result, output in zip(results, self._sw_program.outputs, strict=True)
        ]

    def held_tensors(self) -> Iterator[Tensor]:
        """Parameters, buffers and constants: what this rank holds between steps."""
        yield from self.parameters()
        yield from self.buffers()
        yield from (c for c in self._sw_constants if c is not None)

    # --- parts -------------------------------------------------------------

    def _storage(self, name: str, full: Tensor, mesh: DeviceMesh) -> DTensor:
        stored = {p["name"]: p["storage"] for p in self._sw_plan["parameters"]}
        specs = {
            fqn: stored[v["name"]]
            for v in self._sw_values.values()
            if v["name"] in stored
            for fqn in v["names"]
        }
        spec = parse(specs[name]) if name in specs else Spec(((),) * full.dim())
        if len(spec.dims) != full.dim():
            raise InvalidPlanError(
                f"[execute] storage does not fit parameter {name}: expected "
                f"{full.dim()} dims, got {spec}. Try: plan again from this model."
            )
        names = mesh.mesh_dim_names
        assert names is not None
        return shard_tensor(full, mesh, placements(spec, names))

    def _constant(self, name: str, widen: bool) -> Tensor | None:
        if self._sw_values[name]["kind"] != "constant":
            return None
        node = self._sw_captured.value_nodes[name]
        value: Any = self._sw_captured.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if value.is_meta:
            raise InvalidPlanError(
                f"[execute] constant {name} has no value: expected a capture of a "
                "real model, got one on meta. Try: capture with --real."
            )
        tensor: Tensor = value.detach().to(self._sw_mesh.device_type)
        return tensor.to(wide(tensor.dtype)) if widen else tensor

    def _local(
        self, name: str, given: Mapping[str, Tensor], constant: Tensor | None
    ) -> Tensor:
        """The local tensor of a graph value, for the program."""
        kind = self._sw_values[name]["kind"]
        if kind == "input":
            return given[name]
        if constant is not None:
            return constant
        if kind == "buffer":
            return self.get_buffer(name)
        parameter = self.get_parameter(name)
        assert isinstance(parameter, DTensor)
        # Gradients come back in the storage layout, already reduced.
        return parameter.to_local(grad_placements=parameter.placements)

    def _global(self, local: Tensor, spec: Spec, value: str) -> Tensor:
        """A result as the user sees it: whole on every rank, or a DTensor."""
        if (
            self._sw_values[value]
            is self._sw_captured.graph["values"][self._sw_captured.graph["loss"]]
        ):
            return local
        shape = torch.Size(self._sw_values[value]["shape"])
        names = self._sw_mesh.mesh_dim_names
        assert names is not None
        return DTensor.from_local(
            local,
            self._sw_mesh,
            placements(spec, names),
            run_check=False,
            shape=shape,
            stride=torch.empty(shape, device="meta").stride(),
        )

    def _autocast(self) -> AbstractContextManager[Any]:
        state = getattr(self._sw_captured, "autocast", None)
        if state is None:
            return nullcontext()
        return torch.autocast(state.device_type, dtype=state.dtype)

    def _takes_tensor(self) -> bool:
        form: str = self._sw_plan.get("batch", {}).get("form", "args")
        return form == "tensor"


def _check_device(captured: CapturedProgram) -> None:
    """Factories of a graph captured on meta would make tensors without values."""
    if captured.graph["device"] == "meta":
        raise InvalidPlanError(
            "[execute] the graph was captured on meta: expected a capture of the "
            "model that runs, got one without values. Try: capture(model, batch) "
            "with the real model."
        )


def _check_mesh(plan: Mapping[str, Any], mesh: DeviceMesh) -> None:
    expected = tuple((a["name"], a["size"]) for a in plan["mesh"]["axes"])
    names = mesh.mesh_dim_names or ()
    got = tuple((name, mesh.size(i)) for i, name in enumerate(names))
    if got != expected:
        raise InvalidPlanError(
            f"[execute] mesh differs from the plan's: expected {expected}, got "
            f"{got}. Try: make_mesh(plan)."
        )


def _copy_tree(
    target: nn.Module,
    model: nn.Module,
    shard: Callable[[str, Tensor], DTensor],
) -> None:
    """Parameters and buffers of `model` in `target`, names, order, ties kept."""
    made: dict[int, nn.Parameter] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if path:
            parent, _, leaf = path.rpartition(".")
            target.get_submodule(parent).add_module(leaf, nn.Module())
        here = target.get_submodule(path)
        prefix = f"{path}." if path else ""
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in made:
                _check_real(prefix + name, parameter)
                data = shard(prefix + name, parameter)
                made[id(parameter)] = nn.Parameter(data, parameter.requires_grad)
            here.register_parameter(name, made[id(parameter)])
        for name, buffer in module.named_buffers(recurse=False):
            _check_real(prefix + name, buffer)
            persistent = name not in module._non_persistent_buffers_set
            here.register_buffer(name, buffer.detach().clone(), persistent)


def _check_real(name: str, tensor: Tensor) -> None:
    if tensor.is_meta:
        raise InvalidPlanError(
            f"[execute] tensor has no values: expected a real one, got meta "
            f"({name}). Try: build the model on a real device with one seed on all "
            "ranks."
        )


def _distribute_plain_tensors(
    module: nn.Module, state: dict[str, Any], prefix: str, *_: Any
) -> None:
    """Lets load_state_dict take a plain (one-device) state: keep our parts."""
    for name, parameter in module.named_parameters(remove_duplicate=False):
        value = state.get(prefix + name)
        if (
            isinstance(parameter, DTensor)
            and isinstance(value, Tensor)
            and not isinstance(value, DTensor)
        ):
            state[prefix + name] = shard_tensor(
                value, parameter.device_mesh, parameter.placements
            )
