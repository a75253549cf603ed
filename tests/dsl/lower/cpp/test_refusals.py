"""What this back end cannot say is refused with a code, the reason in the program's own numbers, and a way out."""

import dataclasses

import pytest

from dsl import ir
from dsl.check.program import check
from dsl.lower import Refusal
from dsl.lower.cpp import lower

from . import programs


def changed(program: ir.Program, **changes) -> ir.Program:
    stage = dataclasses.replace(program.stages[0], **changes)
    return dataclasses.replace(program, stages=(stage, *program.stages[1:]))


def config(program: ir.Program, **changes) -> ir.Program:
    return changed(program, config=dataclasses.replace(program.stages[0].config, **changes))


def refusal(program: ir.Program) -> Refusal:
    with pytest.raises(Refusal) as caught:
        lower(program)
    return caught.value


def test_a_program_with_auto_left():
    checked = check(programs.LINEAR_LEAKY.replace("stages 4", ""))
    assert refusal(checked.program).code == "cpp-unresolved"


def test_an_architecture_that_nothing_is_written_for():
    fault = refusal(dataclasses.replace(programs.gemm(), arch="sm_70"))
    assert fault.code == "cpp-arch" and fault.help == "write arch sm_90a"


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_a_reduction_beside_a_product_of_an_older_architecture(arch):
    text = """program p(x: f16[512, 256], w: f16[256, 256]) -> f32[512] {
      y = gemm(x, w.T) { tile 128x128x64  epilogue row_sum(acc) }
      return y
    }"""
    fault = refusal(dataclasses.replace(programs.program(text), arch=arch))
    assert fault.code == "cpp-2x-reduction" and "reduce(y)" in fault.help


@pytest.mark.parametrize(
    ("stage", "result", "code"),
    [
        ("tile 128x128x64 schedule cooperative epilogue row_sum(acc)", "f32[512]", "cpp-sm100-reduction"),
        ("tile 128x128x64 schedule cooperative pairs epilogue acc * acc2", "f16[512, 128]", "cpp-sm100-pairs"),
    ],
)
def test_what_is_written_for_sm_90a_alone_beside_a_product(stage, result, code):
    text = f"""program p(x: f16[512, 256], w: f16[256, 256]) -> {result} {{
      y = gemm(x, w.T) {{ {stage} }}
      return y
    }}"""
    assert refusal(dataclasses.replace(programs.program(text), arch="sm_100a")).code == code


def test_a_grouped_product_of_another_architecture():
    text = """program p(x: f16[512, 256], w: f16[4, 128, 256], s: i32[4]) -> f16[512, 128] {
      y = grouped_gemm(x, w.T, s) {}
      return y
    }"""
    fault = refusal(dataclasses.replace(programs.program(text), arch="sm_80"))
    assert fault.code == "cpp-arch" and "grouped product" in fault.message


def test_a_precision_it_has_no_kernel_for():
    fault = refusal(config(programs.gemm(), compute=ir.DType.F64))
    assert fault.code == "cpp-compute" and "tf32" in fault.help


def test_operands_of_another_type_than_compute_reads():
    fault = refusal(config(programs.gemm(), compute=ir.DType.F16))
    assert fault.code == "cpp-operand" and "transform(x)" in fault.help


def test_pingpong_with_a_scheduler_that_splits_k():
    program = config(programs.gemm(), schedule="pingpong", scheduler=ir.Scheduler("split_k", 2))
    assert refusal(program).code == "cpp-scheduler"


def test_a_tile_of_192_rows_which_cutlass_cannot_store_in_pieces_of_128():
    fault = refusal(config(programs.gemm(), tile=(192, 128, 64)))
    assert fault.code == "cpp-config" and "`cute`" in fault.help


def test_a_result_whose_rows_tma_cannot_write():
    shape = ir.TensorType(ir.DType.F32, (250, 512))
    program = programs.gemm()
    program = dataclasses.replace(program, params=(program.params[0], ir.Param("w", shape)))
    program = changed(program, type=ir.TensorType(ir.DType.F32, (256, 250)))
    fault = refusal(program)
    assert fault.code == "cpp-alignment" and "1,000 bytes" in fault.message


def test_prepacking_what_is_computed_in_the_same_call():
    program = programs.program(programs.CAST_ATTENTION)
    again = ir.Transform("kk", ir.Operand("qh"), ir.DType.BF16, True, type=ir.TensorType(ir.DType.BF16, (8, 128, 64)))
    program = dataclasses.replace(program, stages=(*program.stages, again))
    assert refusal(program).code == "cpp-prepack"


def test_tf32_with_both_operands_along_their_free_axis_needs_k_of_32():
    text = (
        "program p(x: f32[512, 256], w: f32[512, 256]) -> f32[256, 256] {{ arch sm_90a "
        "y = gemm(x.T, w) {{ compute tf32 tile {} }} return y }}"
    )
    fault = refusal(config(programs.program(text.format("128x128x32")), tile=(128, 128, 16), stages=2))
    assert fault.code == "cpp-tf32-layout" and fault.help == "write tile 128x128x32"
    assert "through registers" in lower(programs.program(text.format("128x128x32"))).text


def test_tf32_with_the_second_operand_along_n_splits_the_tile_along_n():
    text = (
        "program p(x: f32[512, 256], w: f32[256, 512]) -> f32[512, 512] { arch sm_90a "
        "y = gemm(x, w) { compute tf32 tile 128x128x32 schedule cooperative } return y }"
    )
    program = programs.program(text)
    lower(program)
    fault = refusal(config(program, tile=(128, 64, 32), stages=2))
    assert fault.code == "cpp-tf32-layout" and fault.help == "write tile 128x128x32"
