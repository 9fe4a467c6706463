"""Turns the errors of torch.export into a CaptureError a user can act on."""

import re

from shardwright.capture.source import error_line
from shardwright.errors import CaptureError

__all__ = ["translate"]

# (pattern in "<type>: <message>", what it means, what to try); first match wins.
_KNOWN = (
    (
        r"fake tensor in the exported program constant",
        "a tensor slips past the trace (through .data, or kept between steps)",
        "use detach() for .data, and keep state in registered buffers",
    ),
    (
        r"GuardOnDataDependent|DataDependent|Could not (guard|extract)|"
        r"\.item\(\)|_local_scalar_dense",
        "control flow or a shape depends on tensor values",
        "compute the decision outside the model, replace the branch by torch.where, "
        "or move a data-dependent loss (CTC, matching) out of the model",
    ),
    (
        r"DynamicOutputShape|unbacked|nonzero",
        "the shape of a tensor depends on tensor values",
        "use masks of fixed shape instead of boolean indexing or nonzero",
    ),
    (
        r"pytree|not registered|unsupported type|Unsupported (input|output)",
        "an input or output type is unknown to torch.export",
        "return and pass plain tensors, tuples and dicts; switch caches off",
    ),
    (
        r"[Dd]evice|is on cpu|on meta",
        "tensors are on different devices",
        "put model and batch on one device, and name none inside forward but an "
        "input's (device=x.device); a model on meta is traced as on the CPU, so "
        "what needs another device needs its values there (--real)",
    ),
    (
        r"TypeError.*(argument|positional|keyword)|missing .* required|"
        r"got an unexpected",
        "the batch does not fit the model's forward",
        "a tuple is passed as positional, a dict as keyword arguments",
    ),
    (
        r"numpy|\.tolist\(\)",
        "the model leaves torch (NumPy, Python lists) inside its forward",
        "stay in torch operations, or move that part out of the model",
    ),
    (
        r"size|shape|dimension|broadcast",
        "shapes do not fit together",
        "run the model once on this batch without shardwright",
    ),
)
_MAX_DETAIL = 240  # characters of torch's own message; the rest is chained


def translate(error: BaseException, model_name: str) -> CaptureError:
    """The CaptureError for `error`; a CaptureError only gains its source line."""
    line = error_line(error.__traceback__)
    where = f" ({line})" if line else ""
    if isinstance(error, CaptureError):
        head, separator, hint = str(error).partition(" Try: ")
        return CaptureError(f"{head.removesuffix('.')}{where}.{separator}{hint}")
    text = f"{type(error).__name__}: {error}"
    meaning, hint = next(
        (known[1:] for known in _KNOWN if re.search(known[0], text)),
        ("torch.export failed", "simplify the code at this line"),
    )
    detail = " ".join(text.split())
    if len(detail) > _MAX_DETAIL:
        detail = detail[:_MAX_DETAIL] + "..."
    return CaptureError(
        f"[capture] cannot capture {model_name}: {meaning}{where}. Try: {hint}. "
        f"torch says: {detail}"
    )
