"""nvcc turns generated CUDA C++ into a library, and says in words why it could not."""

import dataclasses

import pytest
import torch

from dsl.lower.cpp import lower
from engine.build import cuda_toolchain, limited, nvcc
from tests.dsl.lower.cpp import programs

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def toolchain():
    cuda = cuda_toolchain.find_toolchain()
    if cuda is None or cuda.nvcc is None:
        pytest.skip("needs requirements-gpu.txt")
    return cuda


@pytest.fixture(scope="module")
def source():
    return lower(programs.program(programs.LINEAR_LEAKY))


def test_a_unit_becomes_a_library(toolchain, tmp_path_factory):
    """One of our own kernels, in seconds; units over CUTLASS are built in halves (test_halves.py)."""
    source = lower(programs.program(programs.ROWMAJOR))
    folder = tmp_path_factory.mktemp("nvcc")
    # Other builds may run on this machine at the same time: the limit here only ends a hang.
    built = nvcc.build(source, folder, toolchain, seconds=400)
    kernel = next(k for k in built.kernels if k["stage"] == "y")
    assert 32 <= kernel["registers"] <= 255 and kernel["spill_stores"] == 0
    assert 1 << 14 <= kernel["smem"] <= 232448
    assert sorted(p.suffix for p in folder.iterdir()) == [".cu", ".so"]  # no half-written library stays behind

    space = {}
    exec(source.binding, space)
    run = space["load"](str(built.path))
    with pytest.raises(ValueError, match=f"{len(space['INPUTS'])} inputs, not 0"):
        run([], [])
    inputs, outputs = ([torch.empty(shape) for _, shape, _ in space[name]] for name in ("INPUTS", "OUTPUTS"))
    with pytest.raises(ValueError, match="contiguous CUDA tensor"):
        run(inputs, outputs)
    with pytest.raises(ValueError, match=r"input x is float32\[.*\], not torch.float32\[7\]"):
        run([torch.empty(7), *inputs[1:]], outputs)


def test_a_unit_that_does_not_compile_is_one_sentence_and_a_short_log(toolchain, source, tmp_path):
    broken = dataclasses.replace(source, text="int main() {\n  return undeclared_name;\n}\n", namespace="broken")
    with pytest.raises(limited.BuildError) as caught:
        nvcc.build(broken, tmp_path, toolchain)
    assert caught.value.code == "compile_failed"
    assert 'broken.cu(2): error: identifier "undeclared_name" is undefined' in caught.value.reason
    assert str(tmp_path) not in caught.value.log and len(caught.value.log.splitlines()) <= limited.LOG_LINES
    assert [p.name for p in tmp_path.iterdir()] == ["broken.cu"]


def test_a_build_that_takes_too_long_is_ended(toolchain, source, tmp_path):
    with pytest.raises(limited.BuildError) as caught:
        nvcc.build(source, tmp_path, toolchain, seconds=1)
    assert caught.value.code == "timeout" and "longer than 1 s" in caught.value.reason


def test_a_build_can_be_stopped(toolchain, source, tmp_path):
    with pytest.raises(limited.BuildError) as caught:
        nvcc.build(source, tmp_path, toolchain, cancelled=lambda: True)
    assert caught.value.code == "cancelled"
