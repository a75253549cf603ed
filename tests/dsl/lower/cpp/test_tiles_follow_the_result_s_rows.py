"""Which way a launch walks its tiles: along the result's rows where storing them is most of the work."""

import pytest

from dsl.lower.cpp import lower

from . import programs

ALONG_M, ALONG_N = 1, 2  # of the kernel, whose m is the program's n where it computes the transposed result


def order(a: str, b: str, text: str, clauses: str = "") -> int:
    """The order that the binding passes to the launch."""
    program = f"""
program p(a: f32[{a}], b: f32[{b}]) -> f32[4096, 4096] {{
  arch sm_90a
  y = gemm({text}) {{ compute tf32  tile 128x128x32  {clauses} }}
  return y
}}"""
    binding = lower(programs.program(program)).binding
    launch = next(line for line in binding.splitlines() if line.startswith("LAUNCH = ["))
    return int(launch.split(", ")[1]) >> 4


def test_a_short_k_is_walked_along_the_result_s_rows():
    assert order("4096, 64", "4096, 64", "a, b.T") == ALONG_N


def test_the_transposed_result_s_rows_are_the_kernel_s_columns():
    assert order("4096, 64", "64, 4096", "a, b") == ALONG_M


@pytest.mark.parametrize("k", [512, 4096])
def test_a_longer_k_is_cutlass_s_to_order(k):
    assert order(f"4096, {k}", f"4096, {k}", "a, b.T") == 0


def test_splits_are_cutlass_s_to_order():
    assert order("4096, 256", "4096, 256", "a, b.T", "scheduler split_k(2)") == 0
