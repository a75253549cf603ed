"""Recurrent stages to machine code with no GPU: no spills, and the shared memory that the layout counts."""

import pytest

from dsl.lower.cpp import lower
from dsl.rules.recurrent import layout as rules
from engine.build import cuda_toolchain, nvcc
from tests.dsl.lower.cpp import programs
from tests.dsl.recurrent_programs import text

pytestmark = pytest.mark.toolchain

CASES = {
    "KernelBench's LSTM": {"hidden": 256, "batch": 10, "directions": 2, "states": True, "order": "bt"},
    "weights in shared memory too": {"hidden": 512, "batch": 10},
    "many cells a thread": {"hidden": 512, "batch": 64, "directions": 2, "element": "f16", "weight": "f16"},
    "f32 on the CUDA cores": {"op": "gru", "hidden": 256, "batch": 10, "clauses": "compute f32"},
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_kernel_without_spills(name, tmp_path):
    toolchain = cuda_toolchain.find_toolchain()
    if toolchain is None or toolchain.nvcc is None:
        pytest.skip("needs requirements-gpu.txt")
    p = programs.program(text(**CASES[name]))
    built = nvcc.build(lower(p), tmp_path, toolchain, seconds=400)
    (kernel,) = (k for k in built.kernels if k["stage"] == "y")
    layout = rules.layout_of(p.stages[0], {q.name: q.type for q in p.params})
    assert kernel["spill_stores"] == kernel["spill_loads"] == kernel["stack"] == 0 and kernel["registers"] <= 255
    barriers = 16 if layout.cluster > 1 else 0
    assert kernel["smem"] == layout.shared_bytes + barriers and layout.shared_bytes <= rules.SHARED
    assert kernel["threads"] == rules.THREADS
