"""The kernel that packs a transposed convolution's filters, built by g++ from the generated text and run on the CPU."""

import ctypes
import math
import re
import shutil
import subprocess

import pytest
import torch

from dsl.ir import NCHW, NHWC
from dsl.lower.cpp import lower
from dsl.lower.cpp.conv.conv_plan import plan_conv

from . import convolutions

AROUND = """
struct Index { int x, y; };
static Index blockIdx, threadIdx, gridDim;
#define CUTLASS_PRAGMA_UNROLL
typedef float Element;
"""
RUN = """
extern "C" void run(float const* w, float* packed) {
  PackParams p{w, packed, {%s}};
  gridDim = {1, 1};
  for (int phase = 0; phase < %d; ++phase)
    for (int thread = 0; thread < 256; ++thread) {
      blockIdx = {0, phase};
      threadIdx = {thread, 0};
      pack(p);
    }
}
"""


def kernel(text: str) -> str:
    """The constants and the pack kernel of a generated unit, as a function of the host."""
    constants = re.search(r"constexpr int kBatch.*", text)[0]
    body = text[text.index("struct Pack {") :]
    body = body[: body.index("#endif")].replace("#ifdef __CUDACC__", "")
    return constants + "\n" + re.sub(r'extern "C" __global__.*?\(CUTLASS_GRID_CONSTANT', "static void pack(", body)


def packed(plan, text: str, w: torch.Tensor, folder) -> torch.Tensor:
    phases = []
    for p in plan.phases:
        taps, first = (", ".join(map(str, each)) for each in (p.taps, p.first))
        empty = str(p.empty).lower()
        phases.append(f"{{{{{taps}}}, {{{first}}}, {math.prod(p.taps)}, {p.packed}LL, {empty}}}")
    (folder / "pack.cpp").write_text(AROUND + kernel(text) + RUN % (", ".join(phases), len(phases)))
    subprocess.run(["g++", "-shared", "-fPIC", "-w", "pack.cpp", "-o", "pack.so"], cwd=folder, check=True)
    memory, out = w.movedim(1, -1).contiguous(), torch.full((plan.packed,), float("nan"))  # channels last
    run = ctypes.CDLL(str(folder / "pack.so")).run
    run(ctypes.c_void_p(memory.data_ptr()), ctypes.c_void_p(out.data_ptr()))
    return out


@pytest.mark.parametrize("layout", [NHWC, NCHW])
@pytest.mark.parametrize(
    ("window", "attributes"),
    [
        ((3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((4, 4), {"stride": 2, "padding": 1, "groups": 2}),
        ((1, 1), {"stride": 2, "output_padding": 1}),
        ((3, 3), {"stride": 2, "padding": 4, "dilation": 3}),
        ((5,), {"stride": 2, "padding": 1, "groups": 2}),
        ((3, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ],
)
def test_each_column_has_the_taps_of_its_phase(tmp_path, window, attributes, layout):
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    program = convolutions.transposed(window, layout=layout, **attributes)
    plan = plan_conv(program, program.stages[0], {p.name: p.type for p in program.params})
    w = torch.randn(program.params[1].type.shape)
    out = packed(plan, lower(program).text, w, tmp_path)
    for phase in plan.phases:
        want = convolutions.filters_of(plan, phase, w).movedim(1, -1).flatten()
        assert torch.equal(out[phase.packed : phase.packed + want.numel()], want)
