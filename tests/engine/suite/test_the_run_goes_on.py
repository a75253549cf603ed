"""The suite's runner: one result's failure, hang or lost process is its own, and a cut run goes on where it stopped."""

import json
import sys

import pytest

pytest.importorskip("torch")

from engine.suite import runner
from engine.suite.cases import Case, cases
from engine.suite.table import line, table

GOOD = ("matrix_vector", "linear_relu_div")
CHILD = """
import os, sys, time
from engine.jsonprocess import serve
def run(r):
    if r["case"] == "matmul_triu": time.sleep(60)
    if r["case"] == "matmul_tril": os._exit(3)
    if r["case"] == "bmm": return {"wrong": "cuda_error", "message": "CUDA error: illegal address", "lost": True}
    return {"ok": True, "error": 1e-4, "ms": 1.0, "eager_ms": 2.0, "ratio": 2.0}
serve({"warm": lambda r: {"gpu": "none"}, "open": lambda r: {"scope": "all"}, "close": lambda r: {}, "run": run})
"""


def run(chosen, out=None, **kwargs):
    said = []
    return runner.run(chosen, "cpu", 1, out, said.append, seed=3, **kwargs), said


def test_results_are_written_and_gone_on_from(tmp_path):
    out = tmp_path / "suite.json"
    results, said = run(cases(GOOD), out)
    assert [r["ok"] for r in said] == [True, True]
    held = json.loads(out.read_text())
    assert {r["program"] for r in held["results"]} == set(GOOD)
    assert {r["id"] for r in held["results"]} == {"L1/4", "L2/63"}
    again, said = run(cases(GOOD), out)
    assert not said and again.rows.keys() == results.rows.keys()
    (first,) = cases(GOOD[:1])
    changed = Case(first.pid, first.module, first.name, first.text + "# another text\n")
    _, said = run([changed], out)
    assert [r["program"] for r in said] == [GOOD[0]]


def test_a_hang_a_death_and_a_lost_context_cost_their_own_result(monkeypatch):
    monkeypatch.setattr(runner, "RUN_SECONDS", 1.5)
    chosen = [c for c in cases() if c.name in ("matmul_square", "matmul_triu", "matmul_tril", "bmm", "matmul_small_k")]
    results, said = run(chosen, command=[sys.executable, "-c", CHILD])
    found = {r["program"]: r for r in said}
    assert found["matmul_square"]["ok"] and found["matmul_small_k"]["ok"]
    assert found["matmul_triu"]["failed"] == "timeout" and "no end within" in found["matmul_triu"]["message"]
    assert found["matmul_tril"]["failed"] == "died" and found["bmm"]["failed"] == "cuda_error"
    text = table(list(results.rows.values()))
    assert "2 of 5 problems" in text and "geometric mean 2.00" in text
    assert "illegal address" in line(found["bmm"])


def test_a_program_that_fails_its_check_is_a_row(tmp_path):
    (good,) = cases(GOOD[:1])
    bad = Case(good.pid, good.module, good.name, good.text.replace("op sum", "op total"))
    _, said = run([bad], tmp_path / "suite.json")
    assert said[0]["failed"] == "check" and "total" in said[0]["message"]
    assert json.loads((tmp_path / "suite.json").read_text())["results"][0]["ok"] is False


def test_nothing_is_begun_after_the_time_given(tmp_path):
    results, said = run(cases(GOOD), tmp_path / "suite.json", seconds=0.0)
    assert not said and not results.rows


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="the suite has no L9/9"):
        cases(("L9/9",))
