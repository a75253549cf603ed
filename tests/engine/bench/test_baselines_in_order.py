"""PyTorch's own times: each once a machine, torch.compile's default mode of every module before max-autotune of any."""

import json
import sys
from pathlib import Path

import pytest

from engine.bench.run.request import Wanted
from engine.bench.run.runner import EAGER, run
from sol.hardware import load

MODULES = {"matmul_square": "L1/1", "matmul_triu": "L1/14", "matmul_tril": "L1/15"}
STAND_IN = Path(__file__).parent / "stand_in.py"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """bench() -> (the lines that the child was asked, what was said)."""
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    log, out = tmp_path / "log", tmp_path / "bench.json"

    def call(compiled=True, seconds=60.0):
        log.write_text("")
        said = []
        wanted = Wanted(MODULES, ("tf32",), 0, "cuda", 1, seconds, compiled)
        run(wanted, load("h200"), out, said.append, [sys.executable, str(STAND_IN), str(log)])
        return log.read_text().splitlines(), said

    call.out = out
    return call


def test_default_of_all_comes_before_max_autotune_of_any_and_nothing_is_timed_twice(bench):
    asked, _ = bench()
    names = [line.split()[2:] for line in asked if "compile" in line]
    assert names == 3 * [["compile"]] + 3 * [["compile_max"]]
    assert sum(line.split()[2:] == list(EAGER) for line in asked) == 3  # eager's, for they have no trial
    assert bench() == ([], [])


def test_a_mode_that_fails_is_an_error_in_the_results_and_is_not_tried_again(bench):
    bench()
    held = json.loads(bench.out.read_text())["problems"]["matmul_tril"]["baselines"]
    assert held["compile_max"]["error"] == "no triton" and held["compile"]["ms"] == 1.0
    assert bench()[0] == []


def test_times_taken_with_another_driver_or_module_are_taken_again(bench):
    bench(compiled=False)
    held = json.loads(bench.out.read_text())
    held["problems"]["matmul_square"]["baselines"]["eager"]["key"] = "of another machine"
    bench.out.write_text(json.dumps(held))
    assert bench(compiled=False)[0] == ["time matmul_square eager"]


def test_a_time_limit_leaves_what_is_not_timed_for_the_next_call(bench):
    assert bench(seconds=0.0)[0] == []
    assert len(bench()[0]) == 9
