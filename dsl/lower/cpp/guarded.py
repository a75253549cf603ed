"""The flag and the rescue kernels of a guarded program (dsl.guard).

A convolution that rounds its own operands sets the flag, one i32 of the workspace that each call clears first; or a
kernel before it does, and it is left out where the flag is set (dsl.rules.problem). A rescue
kernel on the CUDA cores is a generated kernel with a small grid whose blocks loop over the original blocks; on the
tensor cores it is the kernel of a tf32 program. Each block checks the flag once and exits if it is not set.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dsl.guard import renamed, rescue
from dsl.ir import Program, Stage, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.parts import MULTIPROCESSORS, OwnPlan
from dsl.lower.cpp.stages import plan_stage
from dsl.lower.plan.buffers import types_of
from dsl.lower.plan.rescue import chosen, on_tensor_cores

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


class Gated:
    """A part of a convolution in tf32 whose kernel exits if the flag is not set. Its grid, `waits`, stays.

    All threads of all blocks read the same flag, which nobody sets meanwhile, before their first copy and barrier, so
    that none of them waits for one that has left.
    """

    def __init__(self, part):
        self._part, self.waits = part, part.grid

    def __getattr__(self, name: str):
        return getattr(self._part, name)


def second(program: Program) -> Program:
    """The rescue pipeline of a guarded program; the names of its stages differ from those of the program."""
    pipeline = _planned(program)
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


def _planned(program: Program) -> Program:
    """The rescue pipeline, in f32 if a convolution is refused in tf32."""
    pipeline = chosen(program)
    types = types_of(pipeline)
    try:
        for s in filter(on_tensor_cores, pipeline.stages):
            plan_stage(pipeline, s, types)
    except Refusal:
        return rescue(program)
    return pipeline


def plan_rescue(program: Program, stage: Stage, types: dict[str, TensorType]) -> OwnPlan:
    """The plan of a stage of the rescue pipeline, whose kernels check the flag first. Raises Refusal."""
    plan = plan_stage(program, stage, types)
    if not isinstance(plan, OwnPlan):
        raise Refusal("cpp-guard", f"there is no rescue kernel for {stage.name}", "leave guard out")
    kind = Gated if on_tensor_cores(stage) else Waiting
    return replace(plan, parts=tuple(map(kind, plan.parts)), flag=True)
