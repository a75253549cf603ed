"""Build the program of a lowered module in one precision class, with the builder of that class."""

from __future__ import annotations

from dataclasses import replace

from dsl import ir
from engine.strategies.planner.lowering.choice import Choice
from engine.strategies.planner.lowering.fp8 import Scaled
from engine.strategies.planner.lowering.norm_stores import late
from engine.strategies.planner.lowering.program_builder import Build


def program(lowered, cls: str, choice: Choice) -> ir.Program:
    """The program in class `cls`, unchecked, every configuration `auto`."""
    if choice.late:
        lowered = replace(lowered, stages=late(lowered.stages, lowered.results))
    return (Scaled if cls == "fp8" else Build)(lowered, cls, choice).run()
