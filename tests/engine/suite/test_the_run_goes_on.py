"""The suite's runner: the programs of a problem are trials of one session; one's failure is its own, and a cut run goes
on where it stopped."""

import json

import pytest

pytest.importorskip("torch")

from engine.devices import TrialError
from engine.session import events
from engine.suite import runner
from engine.suite.cases import Case, cases
from engine.suite.table import line, table
from tests.engine.counting import CountingDevice
from tests.engine.traced import once

GOOD = ("matrix_vector", "matmul_square", "matmul_square_f16")


class Suite(CountingDevice):
    """The device with what the suite asks of an evaluator beside a session's calls."""

    def __init__(self, wrong=()):
        super().__init__()
        self.wrong, self.ahead = wrong, []

    def describe(self):
        return {"gpu": "NVIDIA H200", "driver": "580"}

    def build_ahead(self, source):
        self.ahead.append(source)

    def baselines(self, classes):
        """f16 stands beside TF32 at half its time, by alternation; the single times say otherwise."""
        for name, cls, ms, ratio in (("eager", "f32", 8.0, 4.0), ("eager_tf32", "tf32", 2.0, None),
                                     ("eager_f16", "f16", 1.3, 0.5)):  # fmt: skip
            time = events.Measurement(ms, ms, ms, [ms], "events", {})
            yield events.Baseline(name, cls, time, "", "eager_tf32" if ratio else "", ratio)

    def validate(self, candidate):
        if candidate.program.name in self.wrong:
            raise TrialError("validate", "wrong_result", "on own inputs, relative error 0.3")
        return super().validate(candidate)

    def measure(self, candidate, baseline):
        time = events.Measurement(0.5, 0.5, 0.5, [0.5], "events", {})
        return events.TrialMeasured(candidate.trial, time, baseline.name, baseline.time.ms, 3.0, 2.9, 3.1)


@pytest.fixture(autouse=True)
def traced_once(monkeypatch):
    def graph(self):
        return once(self.spec.source, local_user=True).graph, "Model", ""

    monkeypatch.setattr("engine.session.runner._Session._graph", graph)


def run(chosen, device=None, out=None, **more):
    rows = []
    return runner.run(chosen, device or Suite(), out, rows.append, **more), rows


def test_each_program_is_a_trial_by_each_back_end_and_its_ratio_is_over_tf32(tmp_path):
    out, device = tmp_path / "suite.json", Suite()
    results, rows = run(cases(GOOD), device, out)
    by_key = {(r["program"], r["backend"]): r for r in rows}
    assert set(by_key) == {("matrix_vector", "cute"), ("matmul_square", "cpp"), ("matmul_square_f16", "cute"),
                          ("matmul_square_f16", "cpp")}  # fmt: skip
    assert all(r["ok"] and r["ms"] == 0.5 for r in rows)
    assert by_key["matmul_square", "cpp"]["ratio"] == 3.0 and by_key["matmul_square", "cpp"]["eager_ms"] == 1.5
    narrow = by_key["matmul_square_f16", "cute"]  # three times as fast as autocast, which is twice as fast as TF32
    assert (narrow["ratio"], narrow["ratio_low"]) == (6.0, 5.8) and narrow["baseline"] == "eager_f16"
    assert "cute-k-major" in by_key["matmul_square", "cpp"]["refused"]["cute"]
    assert len(device.ahead) == 4
    document = json.loads(out.read_text())
    assert document["about"]["gpu"] == "NVIDIA H200" and len(document["results"]) == 4
    assert "2 of 2 problems" in table(list(results.rows.values()))


def test_what_is_right_and_unchanged_is_not_run_again(tmp_path):
    out, (first,) = tmp_path / "suite.json", cases(GOOD[:1])
    run([first], out=out)
    device = Suite()
    _, rows = run([first], device, out)
    assert not rows and not device.asked
    document = json.loads(out.read_text())
    document["results"][0]["digest"] = "of another program text"
    out.write_text(json.dumps(document))
    _, rows = run([first], out=out)
    assert [r["program"] for r in rows] == [GOOD[0]]


def test_one_that_fails_costs_its_own_row_and_is_tried_again(tmp_path):
    out = tmp_path / "suite.json"
    _, rows = run(cases(GOOD), Suite(wrong=["matmul_square_f16"]), out)
    failed = [r for r in rows if not r["ok"]]
    assert {(r["program"], r["failed"]) for r in failed} == {("matmul_square_f16", "wrong_result")}
    assert "relative error" in line(failed[0]) and sum(r["ok"] for r in rows) == 2
    _, rows = run(cases(GOOD), out=out)
    assert {r["program"] for r in rows} == {"matmul_square_f16"} and all(r["ok"] for r in rows)


def test_a_module_that_cannot_be_worked_on_is_said_in_each_of_its_rows(monkeypatch):
    from engine.devices import SessionRefused

    def refuse(self):
        raise SessionRefused("memory_limit", "too large")

    monkeypatch.setattr("engine.session.runner._Session._graph", refuse)
    _, rows = run(cases(GOOD[1:]))
    assert {(r["failed"], r["message"]) for r in rows} == {("memory_limit", "too large")} and len(rows) == 3


def test_a_program_that_fails_its_check_is_a_row(tmp_path):
    (good,) = cases(GOOD[:1])
    bad = Case(good.pid, good.module, good.name, good.text.replace("op sum", "op total"))
    _, rows = run([bad], out=tmp_path / "suite.json")
    assert rows[0]["failed"] == "check" and "total" in rows[0]["message"]
    assert json.loads((tmp_path / "suite.json").read_text())["results"][0]["ok"] is False


def test_nothing_is_begun_after_the_time_given(tmp_path):
    results, rows = run(cases(GOOD), out=tmp_path / "suite.json", seconds=0.0)
    assert not rows and not results.rows


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="the suite has no L9/9"):
        cases(("L9/9",))
