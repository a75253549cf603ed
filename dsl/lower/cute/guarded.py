"""The rescue kernels of a guarded program (dsl.guard).

A kernel that finds a value out of range sets `guard_flag`, one i32 that each call clears first. On the CUDA cores a
rescue kernel is a generated kernel with a small grid whose blocks loop over the original blocks. Each block checks the
flag once and exits if it is not set. On the tensor cores it is the kernel of a tf32 program behind a gate (parts.GATE),
and large products in f16 are behind the opposite gate.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dsl.ir import Attention, Conv, DType, Gemm, Program, Stage
from dsl.lower import Refusal
from dsl.lower.cute.attention import rescue_attention
from dsl.lower.cute.conv import direct, tensor_core_conv
from dsl.lower.cute.conv.folds import FoldingConv
from dsl.lower.cute.gemm import gemm_text, simt
from dsl.lower.cute.generated_kernels import FLAG, SMS, version_of, watched_results
from dsl.lower.cute.stage import CUTE, StagePlan, Text
from dsl.lower.cute.stage import plan_stage as plan_plain
from dsl.lower.plan.rescue import leaves_out, on_tensor_cores

UNROLLED = 96  # unrolled multiplications of a rescue convolution; few, so that it builds fast
BLOCKS = 4 * SMS  # grid of a rescue kernel: the blocks that a GPU starts at once

_KERNEL = re.compile(r"@cute\.kernel\ndef (\w+)\(([^)]*)\):\n")
_BLOCK = re.compile(r"    block, (\w+), _ = cute\.arch\.block_idx\(\)\n")
_LAUNCHED = re.compile(
    r"    (\w+)\(([^)]*)\)\.launch\(grid=\((\d+), (\d+), 1\), block=\((\d+), 1, 1\), stream=stream\)"
)


def plan_stage(program: Program, stage: Stage) -> StagePlan:
    """The plan of a stage of a guarded program: a large product is left out where the flag is set. Raises Refusal."""
    product = replace(stage, type=stage.sums) if isinstance(stage, FoldingConv) else stage
    if leaves_out(program, product) and not watched_results(program, stage):
        return _product(stage)(program, stage, False)
    return plan_plain(program, stage)


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
    return gated(plan, stage.name)


def gated(plan: StagePlan, name: str) -> StagePlan:
    """The plan with kernels that exit if the flag is not set. Raises Refusal for a plan without generated kernels."""
    text = "\n".join(plan.text.lines)
    if "ucutlass_own" not in "".join(p.text for p in plan.parts):
        raise Refusal("cute-guard", f"there is no f32 rescue kernel for {name}", "leave guard out")
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
            cute.arch.barrier()


@cute.jit
def {name}_body({arguments}, {parameters}):
'''
