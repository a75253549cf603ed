"""How fast trials come: what counts, on which side, and that the loop really builds in turn by nvcc."""

import json
import time
from types import SimpleNamespace

import pytest

from engine.bench.studies import pace
from engine.build.nvcc import BuildError
from engine.devices import SessionRefused
from tests.engine.counting import PROGRAM, CountingDevice

MODULES = [("scale", PROGRAM, "program"), ("scale_again", PROGRAM, "program")]


class Slow(CountingDevice):
    """A trial of 0.6 s, all of it the build's."""

    def build(self, candidate):
        time.sleep(0.6)
        return super().build(candidate)


def test_the_window_is_filled_session_by_session():
    window = pace.play(MODULES, CountingDevice(), 60.0, trials=3)
    assert [(e.module, e.trial) for e in window.judged] == [(name, n) for name, *_ in MODULES for n in (1, 2, 3)]
    assert window.seconds < 60.0  # nothing was left to try
    report = window.to_json()
    assert report["trials"] == 6 and report["failed"] == 0 and report["trial_s"]["n"] == 6
    assert [s["end"].split(":")[0] for s in report["sessions"]] == ["done", "done"]
    assert all(0 < s["first_trial_s"] <= s["stages"]["measured"] for s in report["sessions"])


def test_each_step_of_a_trial_has_its_seconds():
    report = pace.play(MODULES[:1], Slow(), 60.0, trials=2).to_json()
    assert set(report["steps_s"]) == {"checked", "generated", "compiled", "validated", "measured"}
    assert report["steps_s"]["compiled"] >= 0.6 > report["steps_s"]["measured"]
    assert all(sum(row["steps"].values()) == pytest.approx(row["seconds"], abs=0.2) for row in report["rows"])


def test_a_trial_that_the_clock_cuts_is_not_counted_and_the_session_is_stopped():
    window = pace.play(MODULES, Slow(), 4.0, trials=50)
    assert 1 <= len(window.judged) <= 6
    assert all(e.at <= 4.0 and e.seconds >= 0.6 for e in window.judged) and not [e for e in window.ended if e.failed]
    assert window.sessions[-1]["end"].startswith("stopped") and len(window.sessions) == 1


def test_what_there_is_after_each_session_is_kept():
    counts = []
    pace.play(MODULES, CountingDevice(), 60.0, trials=3, keep=lambda w: counts.append((len(w.judged), len(w.sessions))))
    assert counts == [(3, 1), (6, 2), (6, 2)]


def test_a_file_holds_the_sessions_before_the_one_in_which_the_study_ends(tmp_path, monkeypatch):
    from engine.bench.studies.pace import _session as real

    def ends(window, *arguments):
        if window.sessions:
            raise KeyboardInterrupt
        real(window, *arguments)

    monkeypatch.setattr(pace, "_session", ends)
    monkeypatch.setattr(pace, "_sources", lambda only: MODULES)
    monkeypatch.setattr("engine.trace.warm", lambda **options: None)
    monkeypatch.setattr("engine.devices.registry.get", lambda *a, **k: CountingDevice())
    out = tmp_path / "pace.json"
    with pytest.raises(KeyboardInterrupt):
        pace.main(["--side", "cute", "--starts", "0", "--rest", "0", "--seconds", "60", "--json", str(out)])
    assert json.loads(out.read_text())["cute"]["sessions"][0]["end"].startswith("done")


def test_a_session_that_cannot_begin_ends_the_window_at_once():
    with pytest.raises(SessionRefused, match="scale: refused: Line 2"):
        pace.play([("scale", PROGRAM.replace("relu", "rely"), "program")] * 9, CountingDevice(), 60.0)


def test_a_failed_trial_is_told_and_does_not_count():
    window = pace.play(MODULES[:1], CountingDevice(fail={2: "validate"}), 60.0, trials=3)
    assert [(e.trial, e.failed) for e in window.ended] == [(1, ""), (2, "validate: broken"), (3, "")]
    assert window.to_json()["trials"] == 2 and window.to_json()["failed"] == 1


class Ahead(CountingDevice):
    """Counts what it is told to build ahead, as a GPU is."""

    kind = "measured"
    builds_ahead = True

    def __init__(self):
        super().__init__()
        self.ahead = 0

    def prefetch(self, candidates):
        self.ahead += len(candidates)

    def build_ahead(self, source):
        self.ahead += 1


def test_the_loop_builds_every_program_by_nvcc_and_none_ahead():
    built = []

    def build(source, cancelled):
        built.append(source.backend)
        return SimpleNamespace(seconds=36.0, cached=False, resources=())

    device = Ahead()
    window = pace.play(MODULES[:1], pace.Loop(device, build), 60.0, trials=2)
    assert built == ["cpp", "cpp"] and [e.built_s for e in window.judged] == [36.0, 36.0]
    assert device.ahead == 0
    pace.play(MODULES[:1], device, 60.0, trials=2)
    assert device.ahead > 0


def test_what_nvcc_refuses_costs_the_loop_one_trial():
    def build(source, cancelled):
        raise BuildError("compile_failed", "nvcc failed: error: no", "log")

    window = pace.play(MODULES[:1], pace.Loop(CountingDevice(), build), 60.0, trials=1)
    assert [e.failed for e in window.ended] == ["compile: compile_failed"]
    assert window.to_json()["a_trial_every_s"] is None


@pytest.mark.parametrize(("cute", "loop", "times"), [((40, 1.5), (3, 30.0), 20.0), ((40, 1.5), (0, None), None)])
def test_trials_a_second_are_compared_each_up_to_its_last(cute, loop, times):
    sides = [{"trials": n, "a_trial_every_s": every} for n, every in (cute, loop)]
    assert pace.times_as_many(*sides) == times


def test_its_modules_are_problems_of_the_suite():
    from engine.suite.cases import module_ids

    assert set(pace.MODULES) <= set(module_ids()) and len(set(pace.MODULES)) == 25
    assert [name for name, *_ in pace._sources(())] == list(pace.MODULES)
