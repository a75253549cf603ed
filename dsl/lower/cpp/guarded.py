"""What a guarded program has besides its pipeline (dsl.guard): a flag, and rescue kernels that wait for it.

A convolution that rounds its operands itself raises the flag, one i32 of the workspace that the call clears first. A
rescue kernel is a kernel of our own with its blocks taken by turns by a few that stay: each asks the flag once, and
where it is down that is all.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dsl.guard import renamed, rescue
from dsl.ir import Program, Stage, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.parts import MULTIPROCESSORS, OwnPlan
from dsl.lower.cpp.stages import plan_stage

BLOCKS = 4 * MULTIPROCESSORS  # of a rescue kernel: what a GPU starts at once
SUFFIX = "_f32"  # of the rescue's own names


class Waiting:
    """A part of a plan as a template sees it whose kernel leaves at once where the flag is down. `waits`: the grid
    whose `turns` blocks are taken by turns by those of `grid`."""

    def __init__(self, part):
        self._part = part
        self.waits, self.turns = part.grid, prod(part.grid)
        self.grid = (min(self.turns, BLOCKS),)

    def __getattr__(self, name: str):
        return getattr(self._part, name)


def second(program: Program) -> Program:
    """The pipeline that a guarded program falls back to; its stages' names are none of the program's."""
    made = rescue(program)
    taken = {p.name for p in program.params}
    for s in program.stages:
        taken |= {s.name, *(a.name for a in s.also)}
    names: dict[str, str] = {}
    for name in (n for s in made.stages for n in (s.name, *(a.name for a in s.also))):
        fresh = name + SUFFIX
        while fresh in taken:
            fresh += "_"
        names[name] = fresh
        taken.add(fresh)
    return renamed(made, names)


def plan_rescue(program: Program, stage: Stage, types: dict[str, TensorType]) -> OwnPlan:
    """The plan of a stage of the second pipeline, whose kernels ask the flag first. Raises Refusal."""
    made = plan_stage(program, stage, types)
    if not isinstance(made, OwnPlan):
        raise Refusal("cpp-guard", f"there is no f32 kernel for {stage.name} that could wait", "leave guard out")
    return replace(made, parts=tuple(map(Waiting, made.parts)), flag=True)
