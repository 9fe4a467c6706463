"""Mesh axes by name: how generated code finds its process groups.

Generated code names an axis by text (``"a"``), because a ProcessGroup cannot
be an argument of an fx node. The names are looked up in the *active* ``Axes``,
which is activated with ``bound(...)`` around the forward of a module. Every
differentiable function of this package remembers the Axes of its forward and
activates them again in backward and in recomputation, so two modules on
different meshes never mix.

``from_mesh`` reads a torch DeviceMesh; ``fake`` needs no process group and
serves fake tensors (profiling), where only sizes and shapes count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Axes", "Axis", "axis", "bound", "current", "fake", "from_mesh"]


@dataclass(frozen=True)
class Axis:
    """One mesh axis as this rank sees it; ``group`` is None on fake axes."""

    name: str
    size: int
    coordinate: int
    group: dist.ProcessGroup | None

    def chunk(self, size: int) -> tuple[int, int]:
        """(offset, length) of this rank's part of a dim, torch.chunk rule."""
        return chunk(size, self.size, self.coordinate)

    def lengths(self, size: int) -> list[int]:
        """Length of every rank's part of a dim of `size`, in axis order."""
        return [chunk(size, self.size, rank)[1] for rank in range(self.size)]


@dataclass(frozen=True)
class Axes:
    """All axes of one mesh, in mesh order."""

    axes: tuple[Axis, ...]

    def find(self, name: str) -> Axis:
        for item in self.axes:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.axes) or "none"
        raise ValueError(
            f"[runtime] unknown mesh axis: expected one of {known}, got "
            f"'{name}'. Try: call inside runtime.axes.bound(...) of the mesh "
            "the program was made for."
        )

    def coordinates(self) -> dict[str, int]:
        return {item.name: item.coordinate for item in self.axes}


_active: list[Axes] = [Axes(())]


def chunk(size: int, parts: int, index: int) -> tuple[int, int]:
    """(offset, length) of part `index`: ceil(size/parts), the rest, then 0."""
    full = -(-size // parts)
    offset = min(full * index, size)
    return offset, min(full, size - offset)


def current() -> Axes:
    """The axes activated innermost."""
    return _active[-1]


def axis(name: str) -> Axis:
    """The active axis called `name`; ValueError when there is none."""
    return current().find(name)


@contextmanager
def bound(axes: Axes) -> Iterator[Axes]:
    """Activate `axes` for the body. Not per thread: autograd's device threads
    run the backward of the same program and must see the same axes."""
    _active.append(axes)
    try:
        yield axes
    finally:
        _active.pop()


def from_mesh(mesh: DeviceMesh) -> Axes:
    """Axes of a named DeviceMesh at this rank's coordinate."""
    names = mesh.mesh_dim_names
    coordinate = mesh.get_coordinate()
    if names is None or coordinate is None:
        raise ValueError(
            "[runtime] unusable mesh: expected named axes and this rank in the "
            f"mesh, got names {names} and coordinate {coordinate}. Try: "
            "init_device_mesh(..., mesh_dim_names=...) over all ranks."
        )
    return Axes(
        tuple(
            Axis(name, mesh.size(i), coordinate[i], mesh.get_group(name))
            for i, name in enumerate(names)
        )
    )


def fake(
    sizes: Mapping[str, int], coordinates: Mapping[str, int] | None = None
) -> Axes:
    """Axes without processes, for fake tensors; coordinates default to 0."""
    where = coordinates or {}
    return Axes(
        tuple(Axis(n, size, where.get(n, 0), None) for n, size in sizes.items())
    )
