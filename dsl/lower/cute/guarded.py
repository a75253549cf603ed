"""What a guarded program has besides its pipeline (dsl.guard): casts that watch, and rescue kernels that wait.

A watching cast raises `guard_flag`, one i32 that the call clears first. A rescue kernel is a kernel of our own with
its blocks taken by turns by a few that stay: each asks the flag once, and where it is down that is all.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dsl.ir import Conv, DType, Gemm, Program, Stage
from dsl.lower import Refusal
from dsl.lower.cute.conv import direct
from dsl.lower.cute.gemm import simt
from dsl.lower.cute.generated_kernels import FLAG, SMS, version_of
from dsl.lower.cute.stage import CUTE, StagePlan, Text
from dsl.lower.cute.stage import plan_stage as plan_plain

UNROLLED = 96  # multiplications of a rescue convolution between two loop ends: it must build in no time
BLOCKS = 4 * SMS  # of a rescue kernel: what a GPU starts at once

_KERNEL = re.compile(r"@cute\.kernel\ndef (\w+)\(([^)]*)\):\n")
_BLOCK = re.compile(r"    block, (\w+), _ = cute\.arch\.block_idx\(\)\n")
_LAUNCHED = re.compile(
    r"    (\w+)\(([^)]*)\)\.launch\(grid=\((\d+), (\d+), 1\), block=\((\d+), 1, 1\), stream=stream\)"
)


def plan_rescue(program: Program, stage: Stage) -> StagePlan:
    """The plan of a stage of the rescue pipeline, whose kernels ask the flag first. Raises Refusal."""
    if isinstance(stage, Conv):
        made = direct.plan(program, stage, UNROLLED)
    else:
        made = simt.plan(program, stage) if isinstance(stage, Gemm) else plan_plain(program, stage)
    return waiting(made, stage.name)


def waiting(plan: StagePlan, name: str) -> StagePlan:
    """The plan with kernels that leave at once where the flag is down."""
    text = "\n".join(plan.text.lines)
    if "ucutlass_own" not in "".join(p.text for p in plan.parts):
        raise Refusal("cute-guard", f"there is no f32 kernel for {name} that could wait for a guard", "leave guard out")
    launches = {m[1]: tuple(map(int, m.group(3, 4, 5))) for m in _LAUNCHED.finditer(text)}

    def kernel(m: re.Match) -> str:
        grid, down, _ = launches[m[1]]
        tensors = ", ".join(one.split(":")[0] for one in m[2].split(", "))
        turns = "Uint32(turn)" if down == 1 else f"Uint32(turn) % {grid}, Uint32(turn) // {grid}"
        return _GATE.format(
            name=m[1], arguments=m[2], flag=FLAG, tensors=tensors, count=grid * down, turns=turns,
            parameters="block" if down == 1 else "block, part",
        )  # fmt: skip

    text = _KERNEL.sub(kernel, text)
    text = _BLOCK.sub("", text)
    text = _LAUNCHED.sub(
        lambda m: (
            f"    {m[1]}({m[2]}, {FLAG}).launch("
            f"grid=({min(int(m[3]) * int(m[4]), BLOCKS)}, 1, 1), block=({m[5]}, 1, 1), stream=stream)"
        ),
        text,
    )
    text = text.replace(", stream: CUstream):", f", {FLAG}: cute.Tensor, stream: CUstream):")
    head, _, tail = text.rpartition("OwnStage(")
    launch, rest = re.match(r"(.*?\n?\s*\w+_launch, )\"\w+\"(.*)\Z", tail, re.S).groups()
    kernels = "".join(p.text for p in plan.parts) + head + rest
    rest = rest.rstrip("\n").removesuffix(")") + f"    (cutlass.{CUTE[DType.I32]}, (1,)),\n)"
    made = Text()
    made.add(f'{head}OwnStage({launch}"{version_of(kernels)}"{rest}')
    return replace(
        plan, text=made, arguments=f"{plan.arguments}, {FLAG}", tensors=(*plan.tensors, FLAG), reads=(),
    )  # fmt: skip


_GATE = '''\
@cute.kernel
def {name}({arguments}, {flag}: cute.Tensor):
    """Where the flag is up, the {count:,} blocks of {name}_body by turns."""
    if read({flag}, 0, 1)[0] != 0:
        first, _, _ = cute.arch.block_idx()
        several, _, _ = cute.arch.grid_dim()
        for turn in cutlass.range(first, {count}, several, unroll=1):
            {name}_body({tensors}, {turns})
            cute.arch.barrier()


@cute.jit
def {name}_body({arguments}, {parameters}):
'''
