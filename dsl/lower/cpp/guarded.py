"""The flag and the rescue kernels of a guarded program (dsl.guard).

A convolution that rounds its own operands sets the flag, one i32 of the workspace that each call clears first. A rescue
kernel is a generated kernel with a small grid whose blocks loop over the original blocks. Each block checks the flag
once and exits if it is not set.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dsl.guard import renamed, rescue
from dsl.ir import Program, Stage, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.parts import MULTIPROCESSORS, OwnPlan
from dsl.lower.cpp.stages import plan_stage

BLOCKS = 4 * MULTIPROCESSORS  # grid of a rescue kernel: the blocks that a GPU starts at once
SUFFIX = "_f32"  # of the tensors of the rescue pipeline


class Waiting:
    """A part whose kernel exits if the flag is not set.

    `waits` is the original grid of `turns` blocks; the blocks of the smaller `grid` loop over them.
    """

    def __init__(self, part):
        self._part = part
        self.waits, self.turns = part.grid, prod(part.grid)
        self.grid = (min(self.turns, BLOCKS),)

    def __getattr__(self, name: str):
        return getattr(self._part, name)


def second(program: Program) -> Program:
    """The rescue pipeline of a guarded program; the names of its stages differ from those of the program."""
    pipeline = rescue(program)
    names_in_use = {p.name for p in program.params}
    for s in program.stages:
        names_in_use |= {s.name, *(a.name for a in s.also)}
    names: dict[str, str] = {}
    for name in (n for s in pipeline.stages for n in (s.name, *(a.name for a in s.also))):
        fresh = name + SUFFIX
        while fresh in names_in_use:
            fresh += "_"
        names[name] = fresh
        names_in_use.add(fresh)
    return renamed(pipeline, names)


def plan_rescue(program: Program, stage: Stage, types: dict[str, TensorType]) -> OwnPlan:
    """The plan of a stage of the rescue pipeline, whose kernels check the flag first. Raises Refusal."""
    plan = plan_stage(program, stage, types)
    if not isinstance(plan, OwnPlan):
        raise Refusal("cpp-guard", f"there is no f32 rescue kernel for {stage.name}", "leave guard out")
    return replace(plan, parts=tuple(map(Waiting, plan.parts)), flag=True)
