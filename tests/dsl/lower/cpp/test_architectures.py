"""One program text, four architectures: what of the generated unit differs, read in its text."""

import re

import pytest

from dsl.arch import ARCHS
from dsl.lower.cpp import lower

from . import programs


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        (programs.CONV, "sm_90a"), (programs.AMPERE, "sm_80"), (programs.ADA, "sm_89"), (programs.BLACKWELL, "sm_100a"),
        (programs.SIMT, "sm_90a"),
    ],
)  # fmt: skip
def test_a_unit_says_what_it_is_built_for(text, arch):
    source = lower(programs.program(text))
    assert source.arch == arch
    assert f"code={arch} " in source.text
    assert f"kSharedMemoryLimit = {ARCHS[arch].smem_block};" in source.text


@pytest.mark.parametrize(("tile", "sms", "rows"), [("256x128x64", 2, 128), ("128x128x64", 1, 128)])
def test_an_instruction_of_two_sms_is_a_tile_of_two_blocks(tile, sms, rows):
    text = lower(programs.program(programs.BLACKWELL.replace("256x128x64", tile))).text
    assert f"KernelTmaWarpSpecialized{sms}SmSm100" in text and f"TmaWarpSpecialized{sms}Sm;" in text
    assert re.search(r"using MmaShape = cute::Shape<cute::Int<(\d+)>", text)[1] == tile.partition("x")[0]
    assert re.search(r"using TileShape = cute::Shape<cute::Int<(\d+)>", text)[1] == str(rows)
    assert text.count("cutlass::arch::Sm100") == 2 and "cutlass::arch::Sm90" not in text


def test_two_full_tensors_on_sm_100a_are_one_by_tma_and_one_by_the_node():
    text = lower(programs.program(programs.BLACKWELL)).text
    assert "Sm90SrcFetch<ElementC>;  // r[m, n]" in text and "Sm90AuxLoad" not in text
    assert re.search(r"float const in_t_direct = inside \? .*on.in_t_direct\[int64_t\(row\) \* 768", text)


@pytest.mark.parametrize(
    ("text", "operator", "tag", "instruction"),
    [
        (programs.AMPERE, "TensorOp", "Sm80", "16, 8, 16"),
        (programs.ADA, "TensorOp", "Sm89", "16, 8, 32"),
        (programs.SIMT, "Simt", "Sm80", "1, 1, 1"),
    ],
)
def test_a_product_of_cutlass_2x_names_its_instruction(text, operator, tag, instruction):
    text = lower(programs.program(text)).text
    assert f"cutlass::arch::OpClass{operator}, cutlass::arch::{tag}" in text
    assert f"using Instruction = cutlass::gemm::GemmShape<{instruction}>;" in text


def test_splits_are_a_choice_of_the_launch():
    four, one = (programs.program(programs.AMPERE.replace("split_k(4)", s)) for s in ("split_k(4)", "split_k(2)"))
    assert lower(four).text == lower(one).text
    assert "LAUNCH = [0, 2, 4]" in lower(four).binding and "LAUNCH = [0, 2, 2]" in lower(one).binding


def test_compute_f32_takes_rows_of_any_length_a_column_at_a_time():
    text = lower(programs.program(programs.SIMT)).text
    assert "kAlignment = 1, kWidth = 1;" in text
    assert "kAlignment = 8, kWidth = 4;" in lower(programs.program(programs.AMPERE)).text
