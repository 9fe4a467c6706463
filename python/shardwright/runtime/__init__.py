"""All that generated code calls. Imports torch only. Start at `convert`."""

from . import axes, collectives, recorder
from .convert import convert, regather
from .regions import effect, recompute
from .variants import (
    bind_variant,
    cross_entropy,
    local_variants,
    random,
    scaled_mean,
    sync_batch_norm,
    vocab_parallel_embedding,
)

__all__ = [
    "axes",
    "bind_variant",
    "collectives",
    "convert",
    "cross_entropy",
    "effect",
    "local_variants",
    "random",
    "recompute",
    "recorder",
    "regather",
    "scaled_mean",
    "sync_batch_norm",
    "vocab_parallel_embedding",
]
