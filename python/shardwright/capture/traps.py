"""Features that torch.export takes without complaint but traces wrongly.

`autograd.Function` is inlined: its forward is traced, its own backward is lost
and gradients are silently different. Reentrant checkpoints are such functions.
They are refused by name. So are hooks on gradients: export drops them, and
gradients would lack what they do.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import function as autograd_function

from shardwright.errors import CaptureError

__all__ = [
    "custom_backwards_refused",
    "gradient_hooks_refused",
    "refuse_unsupported_model",
]

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
    if name == "torch.nn.modules._functions.BackwardHookFunction":
        return _hook_refusal("a module has a backward hook")
    return CaptureError(
        f"[capture] the model uses the autograd.Function {name}: tracing would lose "
        "its backward and change gradients. Try: write it with "
        "torch.library.custom_op and register_autograd, or use plain operations."
    )


@contextlib.contextmanager
def gradient_hooks_refused() -> Iterator[None]:
    """Raises CaptureError where the model puts a hook on a tensor's gradient."""

    def refuse(tensor: Tensor, hook: Any) -> Any:
        raise _hook_refusal(f"the model puts the hook {_name_of(hook)} on a tensor")

    with contextlib.ExitStack() as stack:
        for method in ("register_hook", "register_post_accumulate_grad_hook"):
            stack.callback(setattr, Tensor, method, getattr(Tensor, method))
            setattr(Tensor, method, refuse)
        yield


def _name_of(hook: Any) -> str:
    return getattr(hook, "__qualname__", type(hook).__qualname__)


def _hook_refusal(what: str) -> CaptureError:
    return CaptureError(
        f"[capture] {what}: its effect on gradients would be lost. Try: remove it, "
        "and change the gradients after backward (p.grad) or scale the loss."
    )


def refuse_unsupported_model(model: nn.Module) -> None:
    """Refuses modules and parameters that are known not to trace."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise CaptureError(
                "[capture] torch.jit.script modules cannot be traced (module "
                f"'{name or type(model).__name__}'). Try: the unscripted module."
            )
    for name, parameter in model.named_parameters():
        # Private: torch offers no way to ask for the hooks of a tensor.
        hooks = (parameter._backward_hooks, parameter._post_accumulate_grad_hooks)
        for hook in (hook for found in hooks for hook in (found or {}).values()):
            raise _hook_refusal(
                f"the parameter '{name}' has the gradient hook {_name_of(hook)}"
            )
