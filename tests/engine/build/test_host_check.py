"""g++ alone judges a generated kernel: CUTLASS's own assertions, shared memory, stages, can_implement."""

import dataclasses
import shutil

import pytest

from dsl.lower.cpp import lower
from dsl.rules import smem
from engine.build import host_check
from engine.build.cuda_toolchain import find_toolchain
from engine.build.limited import BuildError
from tests.dsl.lower.cpp import programs

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def toolchain():
    cuda = find_toolchain()
    if cuda is None or not shutil.which("g++"):
        pytest.skip("needs requirements-gpu.txt and g++")
    return cuda


@pytest.mark.parametrize("text", [programs.LINEAR_LEAKY, programs.CAST_ATTENTION, programs.SPLIT_K])
def test_kernels_pass_and_need_no_more_shared_memory_than_the_language_reckons(toolchain, text, tmp_path):
    program = programs.program(text)
    checked = host_check.check(lower(program), tmp_path, toolchain, seconds=300)
    assert [k["stage"] for k in checked.kernels] == [s.name for s in program.stages]
    kernel = checked.kernels[-1]
    stage = program.stages[-1]
    assert kernel["stages"] == stage.config.stages and kernel["can_implement"]
    use = smem.epilogue_use(stage.epilogue, program.type_of, (stage.store or program.type_of(stage.a.name).dtype).bits)
    reckoned = smem.of_gemm(stage.config.tile, stage.config.schedule, stage.config.compute.bits, use)
    assert reckoned.stage * stage.config.stages < kernel["smem"] <= reckoned.total(stage.config.stages)


def test_too_many_stages_are_refused_in_the_assertion_s_own_words(toolchain, tmp_path):
    program = programs.program(programs.LINEAR_LEAKY)
    stage = dataclasses.replace(program.stages[0], config=dataclasses.replace(program.stages[0].config, stages=9))
    with pytest.raises(BuildError) as caught:
        host_check.check(lower(dataclasses.replace(program, stages=(stage,))), tmp_path, toolchain, seconds=300)
    assert caught.value.code == "compile_failed"
    assert "stage y needs more shared memory than sm_90a gives a block" in caught.value.reason
