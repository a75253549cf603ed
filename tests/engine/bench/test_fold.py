"""A session's log becomes a row: numbers under the names that reports read, ratios from alternation alone."""

import pytest

from engine.bench.run import fold
from engine.session import events
from engine.session.script.steps import Emitted

PROGRAM = """program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] {
  y = gemm(x, w.T) { compute f16 }
  return y
}
"""


def ms(value):
    return events.Measurement(value, value, value, [value], "events", {})


def log(*more, state="done", best=None):
    """Events one second apart, with their blobs."""
    begin = [
        events.SessionStarted("t", "s", "module", {}, "planner", ["tf32", "f16"], {}),
        events.Reported("r", {"tf32": 0.5, "f16": 0.25}, "fast"),
        events.Progress("fp8 is left out", "plan"),
        events.Baseline("eager", "f32", ms(8.0), "", "eager_tf32", 4.0, 3.9, 4.1),
        events.Baseline("eager_tf32", "tf32", ms(2.5)),
        events.Baseline("eager_f16", "f16", ms(1.0), "", "eager_tf32", 0.5, 0.49, 0.51),
        events.Progress("Searching", "search"),
    ]
    end = events.SessionEnded(state, "it ended", best or {}, 1, 20.0)
    return [Emitted(e, {}, 100.0 + i) for i, e in enumerate([*begin, *more, end])]


def trial(number=1, **judged):
    name = events.blob_name(PROGRAM)
    j = {"verdict": "clean", "cls": "f16", "kind": "measured", "ms": 0.5, "speedup": 2.0, "baseline": "eager_f16",
         "gap": 2.0, "sol_score": 0.7, "best": True, "text": "", "evidence": []} | judged  # fmt: skip
    return [
        events.TrialProposed(number, "f16", name, "cute", "tile", "why", predicted_ms=0.4),
        events.TrialCompiled(number, "cute", "machine code", 2.5),
        events.TrialValidated(
            number, 3e-4, 1e-2, 2e-3,
            [{"family": "own", "seed": 1, "error": 3e-4, "max_error": 1e-2, "pytorch_error": 2e-4},
             {"family": "normal", "seed": 2, "error": 1e-4, "max_error": 1e-3, "pytorch_error": None}], "full size",
        ),
        events.TrialMeasured(number, ms(0.5), "eager_f16", 1.0, 2.0, 1.9, 2.1, [{"name": "kernels", "verdict": "passed",
                                                                                "said": "its own"}]),
        events.TrialJudged(number, **j),
    ]  # fmt: skip


def row(*more, **end):
    return fold.row_of("L1/1", log(*more, **end), {events.blob_name(PROGRAM): PROGRAM})


def test_baselines_have_their_ratio_to_the_one_that_all_were_alternated_with():
    result = row()
    assert result["beside"] == "eager_tf32"
    assert result["baselines"]["eager_tf32"] == {"ms": 2.5, "cls": "tf32", "ratio": 1.0}
    assert result["baselines"]["eager_f16"] == {"ms": 1.0, "cls": "f16", "ratio": 0.5, "low": 0.49, "high": 0.51}


def test_torch_compile_keeps_the_names_that_results_have_since_the_first_bench():
    result = row(
        events.Baseline("compile_tf32", "tf32", ms(1.5), "", "eager_tf32", 0.6),
        events.Baseline("compile_max_f16", "f16", ms(0.7), "", "eager_f16", 0.8),  # kept from a session in f16 alone
        events.Baseline("compile", "f32", ms(7.0), "", "eager_bf16", 0.9),  # from one whose first class is unknown here
    )["baselines"]
    assert result["compile"]["ratio"] == 0.6 and result["compile_max_f16"]["ratio"] == pytest.approx(0.4)
    assert result["compile_f32"]["ms"] == 7.0 and "ratio" not in result["compile_f32"]


def test_a_trial_has_what_its_steps_said():
    (t,) = row(*trial())["trials"]
    assert (t["class"], t["backend"], t["derived"], t["roof"], t["text"]) == ("f16", "cute", "f16", "f16", PROGRAM)
    assert t["ok"] and (t["error"], t["pytorch_error"], t["families"]) == (3e-4, 2e-4, {"own": 3e-4, "normal": 1e-4})
    assert (t["ms"], t["baseline"], t["ratio"], t["ratio_low"]) == (0.5, "eager_f16", 2.0, 1.9)
    assert (t["build_seconds"], t["gap"], t["score"], t["verdict"]) == (2.5, 2.0, 0.7, "clean")
    assert t["seconds"] == 5.0  # from the beginning of the search to its verdict


def test_the_seconds_of_a_trial_leave_out_the_time_in_which_nobody_worked():
    events_ = [*trial()[:2], events.Resumed("again"), *trial()[2:], *trial(2)]
    first, second = row(*events_)["trials"]
    assert first["seconds"] == 3.0 and second["seconds"] == 5.0


def test_one_that_failed_or_does_not_count_says_why():
    proposed = trial()[0]
    failed = events.TrialFailed(1, "compile", "timeout", "no end within 120 s", None)
    (t,) = row(proposed, failed)["trials"]
    assert not t["ok"] and (t["failed"], t["step"], t["message"]) == ("timeout", "compile", "no end within 120 s")
    evidence = [{"name": "kernels", "verdict": "library only", "said": "only library kernels ran"}]
    (t,) = row(*trial(verdict="library only", evidence=evidence))["trials"]
    assert t["message"] == "only library kernels ran"


def test_a_kernel_without_a_time_has_its_verdict():
    proposed = trial()[0]
    untimed = events.TrialUntimed(1, "library only", "f16", "measure", "no_prediction", "right, and not timed")
    gaming = events.TrialUntimed(2, "gaming", "f16", "measure", "gaming", "it reads a clock")
    first, second = row(proposed, untimed, trial(2)[0], gaming)["trials"]
    assert (first["verdict"], first["ok"], first["message"]) == ("library only", False, "right, and not timed")
    assert (second["verdict"], second["ok"], "ms" in second) == ("gaming", False, False)


def test_limits_are_those_of_the_report_and_of_what_else_trials_were_held_to():
    guarded = trial(cls="tf32", gap=1.6)
    guarded[0] = events.TrialProposed(1, "tf32", guarded[0].program, "cute", "c", "w", roof="bf16")
    assert row(*guarded)["limits"] == {"tf32": 0.5, "f16": 0.25, "bf16": pytest.approx(0.5 / 1.6)}


def test_a_module_in_regions_says_what_is_covered_and_what_stays():
    covered = events.Covered(
        [{"number": 1}, {"number": 2}], [{"name": "cumsum_0", "op": "cumsum", "line": 8, "reason": "no rule"}],
        {"flops": 0.0, "bytes": 0.5, "time": 0.25}, "2 regions cover 75%",
    )  # fmt: skip
    result = row(covered)
    assert result["coverage"] == {"share": {"flops": 1.0, "bytes": 0.5, "time": 0.75}, "regions": 2,
                                 "text": "2 regions cover 75%"}  # fmt: skip
    assert result["uncovered"] == [{"op": "cumsum", "line": 8, "reason": "no rule"}]


def test_a_session_without_its_end_is_no_row():
    with pytest.raises(ValueError, match="no end"):
        fold.row_of("L1/1", log()[:-1], {})


def test_what_was_refused_says_so_and_what_was_stopped_does_not():
    assert row(state="refused")["refused"] == "it ended" and row(state="stopped")["refused"] == ""
    assert row()["notes"] == ["fp8 is left out"] and row()["session"]["ready_s"] == 6.0
