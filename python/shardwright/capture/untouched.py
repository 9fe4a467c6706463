"""Context managers that keep a model and the process as they were.

Tracing runs the model's Python code once. Whatever that code changes besides
tensors — attributes, config flags, generator states, log output — is undone.
"""

import contextlib
import io
import logging
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules import transformer

from shardwright.errors import CaptureError

__all__ = [
    "attributes_kept",
    "generators_kept",
    "masks_not_examined",
    "output_swallowed",
    "without_cache",
]

_REGISTRIES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


@contextlib.contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Restores the attributes of all submodules (shallowly) and their hooks."""
    modules = list(model.modules())
    before = [dict(vars(module)) for module in modules]
    inner = [
        {name: value.copy() for name, value in state.items() if _is_registry(name)}
        for state in before
    ]
    try:
        yield
    finally:
        for module, state, registries in zip(modules, before, inner, strict=True):
            vars(module).clear()
            vars(module).update(state)
            for name, content in registries.items():
                registry = vars(module)[name]
                registry.clear()
                registry.update(content)


def _is_registry(name: str) -> bool:
    return name in _REGISTRIES or name.endswith("_hooks")


@contextlib.contextmanager
def without_cache(model: nn.Module) -> Iterator[None]:
    """Sets `use_cache = False` in every config found, and restores it.

    Key-value caches serve generation; in a training step they only add outputs
    that no pytree knows.
    """
    changed = []
    for config in _configs(model):
        if getattr(config, "use_cache", False):
            config.use_cache = False
            changed.append(config)
    try:
        yield
    finally:
        for config in changed:
            config.use_cache = True


def _configs(model: nn.Module) -> list[Any]:
    """Configs of all submodules and their sub-configs, each once."""
    pending = [getattr(module, "config", None) for module in model.modules()]
    found: dict[int, Any] = {}
    while pending:
        config = pending.pop()
        if config is None or id(config) in found or not hasattr(config, "__dict__"):
            continue
        found[id(config)] = config
        pending += [
            value
            for name, value in vars(config).items()
            if name.endswith("config") and hasattr(value, "__dict__")
        ]
    return list(found.values())


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Restores the random states; refuses a model that draws on the host.

    Numbers drawn with Python's or NumPy's generator become constants of the
    trace: every step would repeat the same draw, silently.
    """
    numpy_random = sys.modules.get("numpy.random")
    python_state = random.getstate()
    numpy_state = numpy_random.get_state(legacy=False) if numpy_random else None
    torch_state = torch.get_rng_state()
    culprit = ""
    try:
        yield
        if random.getstate() != python_state:
            culprit = "random"
        elif numpy_random and _differs(
            numpy_random.get_state(legacy=False), numpy_state
        ):
            culprit = "numpy.random"
    finally:
        random.setstate(python_state)
        torch.set_rng_state(torch_state)
        if numpy_random:
            numpy_random.set_state(numpy_state)
    if culprit:
        raise CaptureError(
            f"[capture] the model draws from {culprit} in its forward: its draw would "
            "be frozen into the graph and repeat in every step. Try: draw with torch "
            "(torch.rand), pass the draw as an input, or switch the feature off "
            "(wav2vec2: apply_spec_augment=False)."
        )


def _differs(left: Any, right: Any) -> bool:
    return bool(
        left["state"]["pos"] != right["state"]["pos"]
        or (left["state"]["key"] != right["state"]["key"]).any()
    )


@contextlib.contextmanager
def masks_not_examined() -> Iterator[None]:
    """nn.Transformer takes its masks as they are.

    Without `is_causal` it compares a mask's numbers with the causal one, for a
    faster kernel with the same result; a trace has no numbers.
    """
    # Private: there is no switch for it.
    original = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: (
        is_causal is True
    )
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = original


@contextlib.contextmanager
def output_swallowed() -> Iterator[None]:
    """torch logs whole graphs and stacks when an op or an export fails; errors
    are translated instead."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
