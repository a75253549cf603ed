"""The rescue kernels of a guarded program (dsl.guard).

A kernel that finds a value out of range sets `guard_flag`, one i32 that each call clears first. On the CUDA cores a
rescue kernel is a generated kernel with a small grid whose blocks loop over the original blocks. Each block checks the
flag once and exits if it is not set. On the tensor cores it is the kernel of a tf32 program behind a gate (parts.GATE),
and large products in f16 are behind the opposite gate.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dsl.ir import Attention, Conv, DType, Gemm, Program, Stage, Transform
from dsl.lower import Refusal
from dsl.lower.cute.attention import rescue_attention
from dsl.lower.cute.conv import direct, tensor_core_conv
from dsl.lower.cute.conv.folds import FoldingConv
from dsl.lower.cute.gemm import gemm_text, simt
from dsl.lower.cute.generated_kernels import FLAG, SMS, version_of, watched_results
from dsl.lower.cute.stage import CUTE, StagePlan, Text
from dsl.lower.cute.stage import plan_stage as plan_plain
from dsl.lower.plan.rescue import leaves_out, leaves_out_own, on_tensor_cores

UNROLLED = 96  # unrolled multiplications of a rescue convolution; few, so that it builds fast
BLOCKS = 4 * SMS  # grid of a rescue kernel: the blocks that a GPU starts at once
MOVING = 8 * SMS  # of a transform's, which moves data alone and needs few registers

_KERNEL = re.compile(r"@cute\.kernel\ndef (\w+)\(([^)]*)\):\n")
_BLOCK = re.compile(r"    block, (\w+), _ = cute\.arch\.block_idx\(\)\n")
_TOGETHER = re.compile("barrier|smem|cluster|across_block|shared", re.IGNORECASE)
_LAUNCHED = re.compile(
    r"    (\w+)\(([^)]*)\)\.launch\(grid=\((\d+), (\d+), 1\), block=\((\d+), 1, 1\), stream=stream\)"
)


def plan_stage(program: Program, stage: Stage) -> StagePlan:
    """The plan of a stage of a guarded program: a large product is left out where the flag is set. Raises Refusal."""
    product = replace(stage, type=stage.sums) if isinstance(stage, FoldingConv) else stage
    if leaves_out(program, product) and not watched_results(program, stage):
        return _product(stage)(program, stage, False)
    plan = plan_plain(program, stage)
    return left_out(plan, stage.name) if leaves_out_own(program, stage) and _is_own(plan) else plan


def _is_own(plan: StagePlan) -> bool:
    """Return True for a plan of generated kernels."""
    return "ucutlass_own" in "".join(p.text for p in plan.parts)


def _product(stage: Gemm | Conv):
    return gemm_text.plan if isinstance(stage, Gemm) else tensor_core_conv.plan


def plan_rescue(program: Program, stage: Stage) -> StagePlan:
    """The plan of a stage of the rescue pipeline, whose kernels check the flag first. Raises Refusal."""
    if on_tensor_cores(stage):
        return _product(stage)(program, stage, True)
    if isinstance(stage, Attention):
        plan = rescue_attention.plan(program, stage)
    elif isinstance(stage, Conv):
        plan = direct.plan(program, stage, UNROLLED)
    else:
        plan = simt.plan(program, stage) if isinstance(stage, Gemm) else plan_plain(program, stage)
    return gated(plan, stage.name, MOVING if isinstance(stage, Transform) else BLOCKS)


def gated(plan: StagePlan, name: str, most: int) -> StagePlan:
    """The plan with kernels of at most `most` blocks that exit if the flag is not set. Raises Refusal for a plan
    without generated kernels."""
    text = "\n".join(plan.text.lines)
    if not _is_own(plan):
        raise Refusal("cute-guard", f"there is no f32 rescue kernel for {name}", "leave guard out")
    launches = {m[1]: tuple(map(int, m.group(3, 4, 5))) for m in _LAUNCHED.finditer(text)}
    alone = _without_barriers(text)

    def kernel(m: re.Match) -> str:
        grid, down, _ = launches[m[1]]
        tensors = ", ".join(one.split(":")[0] for one in m[2].split(", "))
        turns = "Uint32(turn)" if down == 1 else f"Uint32(turn) % {grid}, Uint32(turn) // {grid}"
        return _GATE.format(
            name=m[1], arguments=m[2], flag=FLAG, tensors=tensors, count=grid * down, turns=turns,
            parameters="block" if down == 1 else "block, part",
            barrier="" if m[1] in alone else "            cute.arch.barrier()\n",
        )  # fmt: skip

    text = _KERNEL.sub(kernel, text)
    text = _BLOCK.sub("", text)
    text = _LAUNCHED.sub(
        lambda m: (
            f"    {m[1]}({m[2]}, {FLAG}).launch("
            f"grid=({min(int(m[3]) * int(m[4]), most)}, 1, 1), block=({m[5]}, 1, 1), stream=stream)"
        ),
        text,
    )
    return _with_flag(plan, text, name)


def _without_barriers(text: str) -> set[str]:
    """The kernels in which no thread waits for another warp and none shares memory, so that turns need no barrier."""
    bodies = {m[1]: text[m.end() :].partition("\n\n\n")[0] for m in _KERNEL.finditer(text)}
    return {name for name, body in bodies.items() if not _TOGETHER.search(body)}


def left_out(plan: StagePlan, name: str) -> StagePlan:
    """The plan with kernels of the same grid that exit if the flag is set. They do not set it themselves."""

    def kernel(m: re.Match) -> str:
        tensors = ", ".join(one.split(":")[0] for one in m[2].split(", "))
        return _LEFT_OUT.format(name=m[1], arguments=m[2], flag=FLAG, tensors=tensors)

    text = "\n".join(plan.text.lines)
    at = [text.count("\n", 0, m.start()) + 1 for m in _KERNEL.finditer(text)]
    more = _LEFT_OUT.count("\n") - 2  # lines above the body of each kernel
    marks = {
        mark: [(a + more * sum(k < a for k in at), b + more * sum(k <= b for k in at)) for a, b in ranges]
        for mark, ranges in plan.text.marks.items()
    }
    text = _KERNEL.sub(kernel, text)
    text = _LAUNCHED.sub(lambda m: m[0].replace(f"{m[1]}({m[2]})", f"{m[1]}({m[2]}, {FLAG})", 1), text)
    flagged = _with_flag(plan, text, name)
    flagged.text.marks = marks
    return replace(flagged, reads=plan.reads)


def _with_flag(plan: StagePlan, text: str, name: str) -> StagePlan:
    """The plan with this text, whose launch takes the flag as its last tensor."""
    text = text.replace(", stream: CUstream):", f", {FLAG}: cute.Tensor, stream: CUstream):")
    head, _, tail = text.rpartition("OwnStage(")
    launch, rest = re.match(r"(.*?\n?\s*\w+_launch, )\"\w+\"(.*)\Z", tail, re.S).groups()
    version = version_of(plan.parts, head + rest, (name, *plan.tensors))
    rest = rest.rstrip("\n").removesuffix(")") + f"    (cutlass.{CUTE[DType.I32]}, (1,)),\n)"
    gated_text = Text()
    gated_text.add(f'{head}OwnStage({launch}"{version}"{rest}')
    return replace(
        plan, text=gated_text, arguments=f"{plan.arguments}, {FLAG}", tensors=(*plan.tensors, FLAG), reads=(),
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
{barrier}

@cute.jit
def {name}_body({arguments}, {parameters}):
'''

_LEFT_OUT = '''\
@cute.kernel
def {name}({arguments}, {flag}: cute.Tensor):
    """Where the flag is not set, {name}_body; else it is all computed again."""
    if read({flag}, 0, 1)[0] == 0:
        {name}_body({tensors})


@cute.jit
def {name}_body({arguments}):
'''
