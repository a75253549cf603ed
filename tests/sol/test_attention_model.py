"""Predicted times of attention stages against runs of flash-attn-4 on an H200, and their order."""

import pytest

from dsl.check.program import check
from sol.attainable import predict
from sol.hardware import load

HW = load("h200")
# Batches, heads, positions, size, causal -> ms in f16, with PyTorch 2.11 and driver 580.159.
MEASURED = {(8, 16, 2048, 128, True): 0.257, (32, 32, 512, 64, False): 0.212}


def stage(b, h, m, d, causal, n=None):
    sides = f"q: f16[{b}, {h}, {m}, {d}], k: f16[{b}, {h}, {n or m}, {d}], v: f16[{b}, {h}, {n or m}, {d}]"
    text = f"program p({sides}) -> f16[{b}, {h}, {m}, {d}] {{\n  y = attention(q, k, v) {{ {'causal' * causal} }}\n"
    return predict(check(f"{text}  return y\n}}").program, HW).stages[0]


@pytest.mark.parametrize("case", MEASURED)
def test_it_is_within_ten_percent_of_what_was_measured(case):
    assert stage(*case).ms == pytest.approx(MEASURED[case], rel=0.1)


def test_a_causal_one_takes_more_than_half_and_less_than_all():
    whole, half = (stage(8, 16, 2048, 128, causal).ms for causal in (False, True))
    assert 0.5 * whole < half < 0.7 * whole


def test_few_queries_are_bound_by_memory_and_small_heads_by_exponentials():
    assert stage(8, 16, 1, 128, False, n=8192).bound_by == "memory"
    assert stage(32, 32, 512, 32, False).bound_by == "special"
    assert stage(8, 16, 2048, 128, True).bound_by == "tensor"
