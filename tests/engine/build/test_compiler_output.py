"""What is read out of the compiler's output: resources of each kernel, and the lines worth showing."""

from engine.build.limited import LOG_LINES, trim
from engine.build.nvcc import resources

PTXAS = """\
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function 'uc_fa5b4c1fddde_stage_y' for 'sm_90a'
ptxas info    : Function properties for uc_fa5b4c1fddde_stage_y
    56 bytes stack frame, 100 bytes spill stores, 88 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'uc_fa5b4c1fddde_stage_w_h' for 'sm_90a'
ptxas info    : Function properties for uc_fa5b4c1fddde_stage_w_h
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
"""


def test_registers_stack_and_spills_of_each_stage():
    gemm, cast = resources(PTXAS)
    assert gemm == {
        "stage": "y",
        "stack": 56,
        "spill_stores": 100,
        "spill_loads": 88,
        "registers": 168,
        "smem_static": 1024,
    }
    assert cast["stage"] == "w_h" and cast["registers"] == 24 and cast["smem_static"] == 0


def test_a_log_keeps_each_error_once_without_the_machine_s_paths():
    line = '/opt/x/include/cute/layout.hpp(12): error: static assertion failed with "shapes differ"'
    log = "\n".join(
        [line, "          detected during:", "            instantiation of class ...", line, "1 error detected"]
    )
    assert trim(log).splitlines()[0] == 'layout.hpp(12): error: static assertion failed with "shapes differ"'
    assert trim(log).count("shapes differ") == 1


def test_a_log_is_short_however_much_went_wrong():
    assert len(trim("\n".join(f"a.cu({i}): error: no {i}" for i in range(1000))).splitlines()) == LOG_LINES


def test_ptxas_chatter_is_no_error():
    assert trim(PTXAS) == ""


def test_ptxas_telling_of_serialized_tensor_core_instructions_is_kept():
    line = (
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "insufficient register resources for the wgmma pipeline in function 'uc_fa5b4c1fddde_stage_y'"
    )
    assert trim(PTXAS + line) == line
