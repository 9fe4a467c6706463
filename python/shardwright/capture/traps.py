"""Features that torch.export takes without complaint but traces wrongly.

`autograd.Function` is inlined: its forward is traced, its own backward is lost
and gradients are silently different. Reentrant checkpoints are such functions.
They are refused by name.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd import function as autograd_function

from shardwright.errors import CaptureError

__all__ = ["custom_backwards_refused", "refuse_unsupported_model"]

# torch.library.custom_op makes such a function for its registered autograd;
# the op itself is captured whole, so its backward is kept.
_GENERATED = "GeneratedBackwardFor_"


@contextlib.contextmanager
def custom_backwards_refused() -> Iterator[None]:
    """Raises CaptureError where the model applies an autograd.Function.

    The recorder sits on the base of `Function`, because a `MyFunction.apply`
    bound at import time never looks up `Function.apply` again.
    """
    # Private: torch offers no public hook on the use of a Function.
    base: Any = autograd_function._SingleLevelFunction

    def refuse_or_apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if not cls.__name__.startswith(_GENERATED):
            raise _refusal(cls)
        return super(base, cls).apply(*args, **kwargs)

    base.apply = classmethod(refuse_or_apply)
    try:
        yield
    finally:
        del base.apply


def _refusal(function: type) -> CaptureError:
    name = f"{function.__module__}.{function.__qualname__}"
    if name == "torch.utils.checkpoint.CheckpointFunction":
        return CaptureError(
            "[capture] the model uses a reentrant checkpoint, which is traced without "
            "gradients. Try: use_reentrant=False, or no checkpointing at all (the plan "
            "decides what is recomputed)."
        )
    return CaptureError(
        f"[capture] the model uses the autograd.Function {name}: tracing would lose "
        "its backward and change gradients. Try: write it with "
        "torch.library.custom_op and register_autograd, or use plain operations."
    )


def refuse_unsupported_model(model: nn.Module) -> None:
    """Refuses modules that are known not to trace, before the trace."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise CaptureError(
                "[capture] torch.jit.script modules cannot be traced (module "
                f"'{name or type(model).__name__}'). Try: the unscripted module."
            )
