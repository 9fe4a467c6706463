"""From a plan to training: `generate` the program, `ParallelModule` around it."""

from shardwright.execute.generate import LocalProgram, generate
from shardwright.execute.parameters import ParallelModule, make_mesh
from shardwright.execute.source import source

__all__ = ["LocalProgram", "ParallelModule", "generate", "make_mesh", "source"]
