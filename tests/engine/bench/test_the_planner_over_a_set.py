"""A bench plans, runs and goes on: here on the CPU, where a program's meaning runs in the place of its kernel."""

import json

import pytest

pytest.importorskip("torch")

from engine.bench.report.table import table
from engine.bench.run.request import Wanted
from engine.bench.run.runner import run
from sol.hardware import load

H200 = load("h200")
MODULES = {"matmul_square": "L1/1", "linear_logsumexp_mish": "L2/22"}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """One class, one trial: (path of the results, the lines said)."""
    out, said = tmp_path_factory.mktemp("bench") / "bench.json", []
    run(Wanted(MODULES, ("tf32",), 1, "cpu"), H200, out, said.append)
    return out, said


def test_every_module_has_a_right_program(first):
    held = json.loads(first[0].read_text())
    assert set(held["problems"]) == set(MODULES)
    for row in held["problems"].values():
        (trial,) = row["trials"]
        assert trial["ok"] and trial["class"] == "tf32" and trial["error"] < 2e-3
    assert len(first[1]) == 2 and all("error" in line for line in first[1])


def test_a_later_call_makes_only_what_is_wanted_beyond(first):
    said = []
    book = run(Wanted(MODULES, ("tf32", "f16"), 2, "cpu"), H200, first[0], said.append)
    trials = [(t["class"], t["text"]) for row in book.problems.values() for t in row["trials"]]
    assert len(trials) == len(set(trials)) == 8
    assert len(said) == 6  # two were there
    run(Wanted(MODULES, ("tf32", "f16"), 2, "cpu"), H200, first[0], said.append)
    assert len(said) == 6


def test_no_module_is_begun_after_the_time_given(tmp_path):
    book = run(Wanted(MODULES, ("tf32",), 1, "cpu", seconds=0), H200, tmp_path / "b.json", lambda text: None)
    assert not any(row["trials"] for row in book.problems.values())


def test_where_nothing_was_timed_there_is_no_score(first):
    text = table(json.loads(first[0].read_text())["problems"], ("tf32",))
    assert "nothing was timed; " in text and "SOL score" not in text


def timed(ms, **over):
    ratio = over["eager_tf32"]
    return {
        "class": "tf32", "ok": True, "ms": ms, "ratio": ratio, "over": over, "gap": 2.0, "score": 0.6,
        "error": 1e-4, "backend": "cpp",
    }  # fmt: skip


def test_a_problem_without_a_right_program_counts_as_eager():
    base = {"eager": {"ms": 8.0, "ratio": 4.0}, "eager_tf32": {"ms": 2.0, "ratio": 1.0}}
    row = {"id": "L1/1", "baselines": base, "trials": [], "refused": "", "limits": {}}
    good = {**row, "trials": [timed(1.0, eager=4.0, eager_tf32=1.0)]}
    failed = {**row, "id": "L1/2", "trials": [{"class": "tf32", "ok": False, "message": "wrong", "backend": "cpp"}]}
    text = table({"a": good, "b": failed}, ("tf32",))
    assert "1 of 2 problems" in text and "2.00x eager as shipped" in text  # sqrt(4 * 1)
    assert "0.50x eager TF32" in text  # eager as shipped is four times slower
    assert "no program: wrong" in text


def test_what_loses_to_the_best_baseline_is_named():
    base = {"eager": {"ms": 2.0, "ratio": 1.0}, "eager_tf32": {"ms": 2.0, "ratio": 1.0},
            "compile": {"ms": 1.0, "ratio": 0.5}}  # fmt: skip
    row = {"id": "L1/1", "baselines": base, "trials": [timed(1.2, eager=1.6, eager_tf32=1.6, compile=0.8)],
           "refused": "", "limits": {}}  # fmt: skip
    assert "below 0.95x of the best baseline: a" in table({"a": row}, ("tf32",))
