"""What a session emits, in which order, and how it ends, whatever goes wrong."""

import threading
from dataclasses import replace

import pytest

from engine.devices import TrialError
from engine.session import events
from engine.session.runner import run
from tests.engine.counting import PROGRAM, CountingDevice, spec


def play(request=None, device=None, control=tuple, **keywords):
    emitted = list(run(request or spec(), device=device or CountingDevice(), control=control, **keywords))
    return [e.event for e in emitted], {k: v for e in emitted for k, v in e.blobs.items()}


def kinds(log):
    return [e.KIND for e in log]


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


def said_after(n, *words):
    """The owner says `words` at the n-th time the engine listens."""
    listened = iter(range(10**9))
    return lambda: list(words) if next(listened) == n else []


def test_a_session_goes_from_its_start_through_whole_trials_to_its_end():
    log, _ = play()
    assert [k for k in kinds(log) if k not in ("progress",)][:5] == [
        "session.started", "traced", "reported", "memory.read", "baseline",
    ]  # fmt: skip
    assert kinds(log)[-1] == "session.ended"
    steps = [k for k in kinds(log) if k.startswith("trial.")]
    assert steps == 4 * [
        "trial.proposed", "trial.checked", "trial.generated", "trial.compiled", "trial.validated", "trial.measured",
        "trial.judged",
    ]  # fmt: skip
    ended = log[-1]
    assert ended.state == "done" and ended.trials == 4 and list(ended.best) == ["f16"]
    assert "budget of 4 trials" in ended.reason


def test_every_blob_that_an_event_names_travels_with_it():
    log, blobs = play()
    for e in of(log, events.TrialProposed):
        assert blobs[e.program].startswith("program scale(")
    for e in of(log, events.TrialGenerated):
        for source in e.sources.values():
            assert blobs[source["text"]].count("\n") <= source["lines"]
    assert all(events.blob_name(text) == name for name, text in blobs.items())


def test_the_first_trial_of_a_pasted_program_is_that_program():
    log, blobs = play()
    first = of(log, events.TrialProposed)[0]
    assert "tile 128x128x64" in blobs[first.program] and first.change == "the given program"


def test_a_pasted_program_with_a_guard_stands_in_tf32():
    program = """program p(x: f32[256, 512], w: f32[256, 512]) -> f32[256, 256] {
      guard f32
      xh = transform(x) { to f16 }
      wh = transform(w) { to f16 }
      y = gemm(xh, wh.T) { store f32 }
      return y }"""
    log, _ = play(spec(source=program, classes=("tf32",), trials=1))
    (judged,) = of(log, events.TrialJudged)
    assert log[-1].state == "done" and (judged.cls, judged.verdict) == ("tf32", "clean")
    assert "bound by launches" in judged.text and judged.baseline == "eager_tf32"


def test_the_best_is_the_fastest_of_its_class_so_far():
    log, _ = play()
    fastest = None
    for e in of(log, events.TrialJudged):
        assert e.best == (fastest is None or e.ms < fastest)
        fastest = min(e.ms, fastest or e.ms)


def test_a_seed_gives_the_same_session_again():
    assert [e.program for e in of(play()[0], events.TrialProposed)] == [
        e.program for e in of(play()[0], events.TrialProposed)
    ]


def test_a_session_near_the_limit_stops_early():
    log, _ = play(spec(trials=30, eps=50.0))
    assert log[-1].trials == 1 and "of the limit" in log[-1].reason


def test_a_stalled_session_stops_after_its_window():
    log, _ = play(spec(trials=30, window=2))
    judged = of(log, events.TrialJudged)
    best = max(e.trial for e in judged if e.best)
    assert log[-1].trials == best + 2 and "2 trials in a row" in log[-1].reason


# ---- trials that fail ----


@pytest.mark.parametrize("step", ["compile", "validate", "measure"])
def test_a_trial_that_fails_ends_with_its_reason_and_the_session_goes_on(step):
    log, blobs = play(device=CountingDevice(fail={2: step}))
    (failed,) = of(log, events.TrialFailed)
    assert (failed.trial, failed.step, failed.code) == (2, step, "broken")
    assert blobs[failed.detail] == "a long log"
    assert log[-1].state == "done" and log[-1].trials == 4
    assert {e.trial for e in of(log, events.TrialJudged)} == {1, 3, 4}


def test_a_mistake_of_the_device_costs_one_trial():
    log, _ = play(device=CountingDevice(fail={1: "crash validate"}))
    (failed,) = of(log, events.TrialFailed)
    assert failed.code == "engine_error" and "the device has a bug" in failed.reason
    assert log[-1].state == "done"


class Loses(CountingDevice):
    """A process of ours is killed in the middle of the second trial's step, so many times."""

    def __init__(self, times: int, step: str = "validate", code: str = "reference_crashed"):
        super().__init__()
        self.times, self.step, self.code = times, step, code

    def _ask(self, step, candidate):
        super()._ask(step, candidate)
        if step == self.step and candidate.trial == 2 and self.asked[step, 2] <= self.times:
            raise TrialError(step, self.code, "A process of ours was lost.")


@pytest.mark.parametrize(
    ("step", "code", "doing"),
    [
        ("validate", "reference_crashed", "Verifying"),
        ("validate", "worker_lost", "Verifying"),
        ("measure", "worker_lost", "Measuring"),
    ],
)
def test_a_trial_whose_process_was_killed_is_done_once_more_by_a_fresh_one(step, code, doing):
    log, _ = play(device=Loses(1, step, code))
    assert [e.trial for e in of(log, events.TrialJudged)] == [1, 2, 3, 4]
    assert any(f"Trial 2: A process of ours was lost. {doing} again" == e.text for e in of(log, events.Progress))


@pytest.mark.parametrize("step", ["validate", "measure"])
def test_a_process_that_is_lost_twice_costs_one_trial_and_no_more(step):
    log, _ = play(device=Loses(2, step, "worker_lost"))
    (failed,) = of(log, events.TrialFailed)
    assert (failed.trial, failed.step, failed.code) == (2, step, "worker_lost")
    assert log[-1].trials == 4


class Full(Loses):
    """Other sessions have the GPU's memory, until so many of them have left."""

    def __init__(self, times, others=True):
        super().__init__(times, "measure", "out_of_memory")
        self.others, self.looks = others, 0

    def room_later(self):
        def somebody_left():
            self.looks += 1
            return True if self.looks % 3 == 0 else None

        return somebody_left if self.others else None


def test_a_trial_without_memory_waits_for_the_other_sessions_and_is_measured_again():
    device = Full(2)
    log, _ = play(device=device)
    assert [e.trial for e in of(log, events.TrialJudged)] == [1, 2, 3, 4] and device.looks >= 6
    again = "Measuring again once other sessions have given back some of theirs"
    assert any(e.text.endswith(again) for e in of(log, events.Progress))


@pytest.mark.parametrize(("times", "others"), [(3, True), (1, False)])
def test_a_program_that_is_too_large_ends_its_trial(times, others):
    log, _ = play(device=Full(times, others))
    (failed,) = of(log, events.TrialFailed)
    assert (failed.trial, failed.step, failed.code) == (2, "measure", "out_of_memory")


class Dressed(CountingDevice):
    """Its first trial's kernels have no part in the result."""

    def measure(self, candidate, baseline):
        measurement = super().measure(candidate, baseline)
        if candidate.trial > 1:
            return measurement
        return replace(
            measurement, checks=[{"name": "without kernels", "verdict": "gaming", "said": "the result is the same"}]
        )


def test_a_trial_is_judged_by_the_worst_of_its_evidence_and_a_trick_is_never_the_best():
    log, _ = play(device=Dressed())
    first, second = of(log, events.TrialJudged)[:2]
    assert first.verdict == "gaming" and not first.best and first.text.endswith("not counted: the result is the same")
    assert second.verdict == "clean" and second.best
    assert [c["name"] for c in second.evidence] == ["precision", "limit"]
    assert log[-1].best["f16"] != 1


def test_a_session_without_one_right_result_says_so():
    log, _ = play(device=CountingDevice(fail=dict.fromkeys(range(1, 99), "validate")))
    assert log[-1].best == {} and "No trial gave a correct result" in log[-1].reason


# ---- the owner's word ----


def test_stop_ends_the_session_and_the_trial_under_way():
    device = CountingDevice(hang_at=2)
    stops = iter([False])
    control = lambda: [("stop", {})] if device.hanging.is_set() and not next(stops, True) else []  # noqa: E731
    log, _ = play(device=device, control=control)
    assert log[-1].state == "stopped" and log[-1].best == {"f16": 1}
    (failed,) = of(log, events.TrialFailed)
    assert (failed.trial, failed.code) == (2, "stopped")
    assert not device.open_now


def test_pause_holds_the_session_until_resume():
    device = CountingDevice()
    release = threading.Event()
    listened = iter(range(10**9))

    def control():
        n = next(listened)
        if n == 5:
            threading.Timer(0.3, release.set).start()
            return [("pause", {})]
        if release.is_set():
            release.clear()
            return [("resume", {})]
        return []

    log, _ = play(device=device, control=control)
    at = kinds(log).index("controlled")
    assert [e.action for e in of(log, events.Controlled)] == ["pause", "resume"]
    later = log[at + 1 : log.index(of(log, events.Controlled)[1])]
    assert len(of(later, events.TrialProposed)) <= 1  # at most the trial that was under way
    assert log[-1].state == "done"


def test_a_larger_budget_makes_more_trials_and_a_foolish_one_is_ignored():
    log, _ = play(control=said_after(3, ("budget", {"trials": 6, "eps": -1, "colour": "red"})))
    assert of(log, events.Controlled)[0].data == {"trials": 6}
    assert log[-1].trials == 6


def test_a_program_that_the_owner_tries_is_a_trial_of_its_own_beyond_the_budget():
    mine = PROGRAM.replace("128x128x64", "64x64x64")
    log, blobs = play(control=said_after(3, ("try", {"program": mine})))
    (tried,) = [e for e in of(log, events.TrialProposed) if e.by == "owner"]
    assert blobs[tried.program] == mine
    assert log[-1].trials == 5


OPEN = """program scale(x: f32[4096, 4096], w: f32[4096, 4096]) -> f32[4096, 4096] {
  arch sm_90a
  y = gemm(x, w.T)
  return y
}
"""
GUARDED = OPEN.replace(
    "  y = gemm(x, w.T)",
    """  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  y = gemm(xh, wh.T) { store f32 }""",
)


def test_a_guarded_trial_is_proposed_with_the_class_whose_limit_it_is_judged_by():
    asked = spec(source=OPEN, classes=("tf32",))
    log, blobs = play(asked, control=said_after(3, ("try", {"program": GUARDED})))
    proposed = {e.trial: e for e in of(log, events.TrialProposed)}
    guarded = {n for n, e in proposed.items() if "guard f32" in blobs[e.program]}
    assert guarded and guarded != set(proposed) and {e.cls for e in proposed.values()} == {"tf32"}
    for e in of(log, events.TrialJudged):
        assert proposed[e.trial].roof == ("f16" if e.trial in guarded else "")
        assert ("times the limit of f16" in e.text) == (e.trial in guarded)


def test_a_program_that_the_owner_got_wrong_is_a_failed_trial_with_its_line():
    log, blobs = play(control=said_after(3, ("try", {"program": PROGRAM.replace("w.T", "wx.T")})))
    (failed,) = of(log, events.TrialFailed)
    assert failed.step == "check" and failed.code == "E101" and failed.reason.startswith("line 2: ")
    assert "^" in blobs[failed.detail]


def test_a_program_with_another_signature_is_told_the_right_one():
    other = "program p(x: f16[8, 64], w: f16[64, 64]) -> f16[8, 64] {\n  y = gemm(x, w)\n  return y\n}\n"
    log, _ = play(control=said_after(3, ("try", {"program": other})))
    (failed,) = of(log, events.TrialFailed)
    assert failed.code == "signature" and "x: f16[1024, 4096], w: f16[4096, 4096]" in failed.reason


# ---- what cannot be worked on ----


def refused(**changes):
    log, _ = play(spec(**changes))
    assert kinds(log)[0] == "session.started" and log[-1].state == "refused"
    return log[-1]


def test_a_program_with_a_mistake_is_refused_with_its_line():
    ended = refused(source=PROGRAM.replace("relu", "rely"))
    assert ended.line == 2 and ended.code == "E303" and "relu" in ended.reason


def test_an_unknown_strategy_is_refused_with_those_there_are():
    (*_, last) = list(run({**spec().to_dict(), "strategy": "oracle"}))
    assert last.event.state == "refused" and "planner" in last.event.reason


def test_an_unknown_device_is_refused_by_name():
    (*_, last) = list(run({**spec().to_dict(), "device": "modelled:h900"}))
    assert last.event.state == "refused" and "h900" in last.event.reason


def test_a_bad_spec_is_a_session_that_was_refused():
    log = [e.event for e in run({"title": "t", "source": "x", "trials": 0})]
    assert kinds(log) == ["session.started", "session.ended"]
    assert log[-1].code == "bad_spec" and log[-1].reason.startswith("trials: ")


def test_closing_the_generator_closes_the_device():
    device = CountingDevice()
    stream = run(spec(), device=device)
    for emitted in stream:
        if isinstance(emitted.event, events.TrialCompiled):
            break
    assert device.open_now
    stream.close()
    assert not device.open_now


def test_an_engine_told_to_leave_is_not_held_back():
    class Leaving(BaseException):
        pass

    def control():
        raise Leaving

    device = CountingDevice()
    with pytest.raises(Leaving):
        play(device=device, control=control)
    assert not device.open_now
