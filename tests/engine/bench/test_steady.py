"""The same kernel twice: what counts as steady, and as two clocks that agree. The run itself needs a GPU."""

import os

import pytest

from engine.bench.studies.steady import CASES, Seen, line, main
from engine.trace.load import load


def seen(**changes):
    fields = {
        "name": "gate", "ms": [0.1, 0.1], "baseline_ms": [0.1, 0.1], "ratio": [1.0, 1.01],
        "interval": [(0.99, 1.01), (1.0, 1.02)], "pairs": [15, 15], "cupti_ms": 0.099,
        "call_ms": 0.2,
    }  # fmt: skip
    return Seen(**{**fields, **changes})


def test_two_ratios_within_one_percent_and_clocks_within_five_are_good():
    assert seen().faults == [] and line(seen()).startswith("ok  gate")


def test_a_wider_spread_is_good_only_where_the_intervals_say_so():
    wide = {"ratio": [1.0, 1.05], "interval": [(0.97, 1.03), (1.02, 1.09)]}
    assert seen(**wide).faults == []
    (fault,) = seen(**{**wide, "interval": [(0.99, 1.01), (1.04, 1.06)]}).faults
    assert fault == "ratios differ by 5.0%, and their intervals do not overlap"


def test_clocks_that_disagree_are_named_from_fifty_microseconds():
    assert seen(cupti_ms=0.09).faults == ["the outside clock says 1.111 times what CUPTI says"]
    assert seen(ms=[0.02, 0.02], cupti_ms=0.018).faults == []


def test_a_finding_against_an_honest_kernel_is_a_fault():
    assert seen(findings=["claims less time than passes outside"]).faults[0].startswith("found: claims less")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_each_case_is_a_module_and_the_kernel_computes_the_same(case):
    torch = pytest.importorskip("torch")
    loaded = load(case.module)
    names: dict = {}
    exec(case.kernel, names)
    x = [torch.randn(8, 2048, generator=torch.Generator().manual_seed(i)) for i in range(case.arguments.count(",") + 1)]
    x = [v @ v.T for v in x] if "@" in case.expression else x
    assert torch.equal(names["kernel"](*x), loaded.cls()(*x))


def test_without_a_gpu_it_says_so_and_times_nothing(capsys):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU")
    assert main([]) == 2 and "no NVIDIA GPU" in capsys.readouterr().err
