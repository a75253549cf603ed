"""What a trial is worth: which class it may win, what speaks against it, and what a problem cost."""

import pytest

from engine.bench.report.speedups import best, counts, judge, rival
from engine.bench.report.table import line, lines, summary, table, unguarded
from sol.budget import score

BASE = {"eager": {"ms": 8.0, "ratio": 4.0}, "eager_tf32": {"ms": 2.0, "ratio": 1.0},
        "eager_f16": {"ms": 1.2, "ratio": 0.6}, "compile": {"ms": 1.6, "ratio": 0.8}}  # fmt: skip
PASSED = [{"name": "kernels", "verdict": "passed", "said": "its own"}]


def trial(cls, ms, **more):
    return {"class": cls, "ok": True, "ms": ms, "ratio": 2.0 / ms, "error": 1e-4, "backend": "cpp", "checks": PASSED,
            "derived": cls, "seconds": 0.5, "build_seconds": 30.0} | more  # fmt: skip


def row(*trials, **more):
    result = {"id": "L1/1", "baselines": BASE, "trials": list(trials), "refused": "",
            "limits": {"f32": 3.0, "tf32": 0.5, "f16": 0.25, "bf16": 0.25}} | more  # fmt: skip
    judge(result)
    return result


def test_the_f16_entry_may_be_won_by_a_tf32_program_and_never_the_other_way_round():
    result = row(trial("tf32", 1.0), trial("f16", 1.1), trial("bf16", 0.4))
    assert (best(result, "f16")["ms"], best(result, "f16")["by"]) == (1.0, "tf32")
    assert best(result, "tf32")["ms"] == 1.0
    assert best(result, "f16")["gap"] == pytest.approx(4.0)  # against f16's own limit
    faster = row(trial("tf32", 1.0), trial("f16", 0.9))
    assert best(faster, "tf32")["ms"] == 1.0 and best(faster, "f16")["ms"] == 0.9
    assert "won by products of a finer class: a (tf32)" in table({"a": result}, ("f16",))


def test_products_narrower_than_the_class_said_do_not_count():
    result = row(trial("tf32", 1.0, derived="f16"), trial("tf32", 1.5))
    assert result["trials"][0]["verdict"] == "gaming" and not counts(result["trials"][0])
    assert best(result, "tf32")["ms"] == 1.5
    assert line("a", result, "tf32").refuted == 1


def test_guarded_f16_stands_in_tf32_under_the_roof_of_f16_and_is_named():
    result = row(trial("tf32", 0.4, roof="f16"))
    assert counts(result["trials"][0])  # faster than tf32 allows, not than f16 does
    assert best(result, "tf32")["gap"] == pytest.approx(0.4 / 0.25) and best(result, "tf32")["guarded"]
    assert "with a guard that falls back to f32" in table({"a": result}, ("tf32",))
    assert not counts(row(trial("tf32", 0.2, roof="f16"))["trials"][0])


def test_a_time_below_the_limit_or_a_check_that_failed_does_not_count():
    failure = {"name": "kernels", "verdict": "library only", "said": "only library kernels ran: gemm"}
    result = row(trial("tf32", 0.3), trial("tf32", 1.0, checks=[failure]))
    assert [t["verdict"] for t in result["trials"]] == ["gaming", "library only"]
    assert best(result, "tf32") is None and "only library kernels ran" in line("a", result, "tf32").why


def test_baselines_that_come_later_are_set_against_trials_that_are_there():
    result = row(trial("tf32", 1.0), baselines={"eager_tf32": BASE["eager_tf32"]})
    assert set(result["trials"][0]["over"]) == {"eager_tf32"}
    result["baselines"] = BASE
    over = {"eager": 8.0, "eager_tf32": 2.0, "eager_f16": 1.2, "compile": 1.6}
    assert line("a", result, "tf32").over == pytest.approx(over)


def test_the_best_baseline_of_a_class_is_no_coarser_than_the_class():
    result = row()
    assert rival(result, "tf32") == ("compile", 0.8) and rival(result, "f16") == ("eager_f16", 0.6)
    assert rival(result, "f32") == ("eager", 4.0) and rival(result, "fp8") == rival(result, "bf16") == (
        "eager_f16",
        0.6,
    )


def test_a_rewrite_that_drops_work_is_shown_beside_the_best_and_is_none():
    offer = trial("tf32", 0.1, algebraic="a product as a sum", limit_ms=0.05)
    a, b = row(trial("tf32", 1.0), offer), row(trial("tf32", 1.0))
    assert offer["verdict"] == "clean" and offer["gap"] == pytest.approx(2.0)  # held to what it computes
    s = summary({"a": a, "b": b}, "tf32")
    assert [(x.module, x.trial["ms"], x.offer["ms"]) for x in s["algebraic"]] == [("a", 1.0, 0.1)]
    assert s["over"]["eager"] == pytest.approx(8.0) and s["with_algebraic"]["eager"] == pytest.approx((80 * 8) ** 0.5)
    assert "algebraic, so not counted: a (0.1000 ms: a product as a sum)" in table({"a": a, "b": b}, ("tf32",))


def test_a_problem_without_a_program_is_eager_and_stands_below_the_best_baseline():
    without = row(trial("tf32", 1.0, ok=False, message="wrong"))
    s = summary({"a": row(trial("tf32", 1.0)), "b": without}, "tf32")
    assert [(x.module, x.against) for x in s["slower"]] == [("b", 0.8 / 4.0)]  # torch.compile beside eager
    assert s["best"] == pytest.approx((1.6 * 0.2) ** 0.5)
    assert "below 0.95x of the best baseline: b (0.20, no program)" in table({"b": without}, ("tf32",))
    assert not summary({"b": row(baselines={"eager": BASE["eager"]})}, "tf32")["slower"]  # nothing beats eager


def test_without_guarded_programs_the_next_best_stands():
    problems = {"a": row(trial("tf32", 0.4, roof="f16"), trial("tf32", 1.0)), "b": row(trial("tf32", 0.4, roof="f16"))}
    s = summary(unguarded(problems), "tf32")
    assert [x.trial and x.trial["ms"] for x in lines(unguarded(problems), "tf32")] == [1.0, None]
    assert (s["solved"], [x.module for x in s["slower"]]) == (1, ["b"]) and not s["guarded"]
    assert len(summary(problems, "tf32")["guarded"]) == 2  # which are left as they were


def test_a_problem_costs_its_steps_its_trials_and_the_slowest_build_of_each_wave():
    spent = {"trace": 1.0, "plan": 0.5, "open": 2.0, "baselines": 0.5, "compile": 40.0}
    waves = [trial("tf32", 1.0, wave=1), trial("tf32", 0.9, build_seconds=20.0, wave=1), trial("tf32", 0.8, wave=2)]
    result = row(*waves, trial("f16", 0.9), spent=spent)
    assert line("a", result, "tf32").seconds == pytest.approx(4.0 + 3 * 0.5 + 30.0 + 30.0)
    s = summary({"a": result}, "tf32")
    assert (s["trials"], s["seconds"]) == (3.0, pytest.approx(65.5))


def test_a_problem_without_a_right_program_counts_as_eager():
    base = {"eager": {"ms": 8.0, "ratio": 4.0}, "eager_tf32": {"ms": 2.0, "ratio": 1.0}}
    good = row(trial("tf32", 1.0, ratio=1.0), baselines=base)
    failed = row({"class": "tf32", "ok": False, "message": "wrong", "backend": "cpp"}, baselines=base)
    text = table({"a": good, "b": failed}, ("tf32",))
    assert "1 of 2 problems" in text and "2.00x eager as shipped" in text  # sqrt(4 * 1)
    assert "0.50x eager TF32" in text  # eager as shipped is four times slower
    assert "no program: wrong" in text


def test_where_nothing_was_timed_there_is_no_score():
    text = table({"a": row({"class": "tf32", "ok": True, "error": 1e-4, "backend": "cpp"}, baselines={})}, ("tf32",))
    assert "nothing was timed; " in text and "SOL score" not in text


# ---- rows that are sessions ----


def of_session(*trials, **more):
    """A session in tf32 and f16; each trial was timed beside the eager way of its class."""
    base = {
        "eager": {"ms": 8.3, "ratio": 4.0}, "eager_tf32": {"ms": 2.1, "ratio": 1.0},
        "eager_f16": {"ms": 1.0, "ratio": 0.5}, "compile_f16": {"ms": 0.8, "ratio": 0.4}, "compile": {"ms": 1.5},
    }  # fmt: skip
    return row(*trials, baselines=base, session={"state": "done", "ready_s": 7.0}, **more)


def timed(cls, ms, beside, ratio, **more):
    return trial(cls, ms, baseline=beside, ratio=ratio, verdict="clean", gap=2.0, score=0.7, seconds=3.0) | more


def test_a_speedup_is_a_product_of_ratios_from_alternation_whatever_the_single_times_say():
    result = of_session(timed("f16", 0.5, "eager_f16", 2.0))
    over = {"eager": 16.0, "eager_tf32": 4.0, "eager_f16": 2.0, "compile_f16": 1.6}
    assert result["trials"][0]["over"] == pytest.approx(over)  # nothing over `compile`, which was never alternated
    assert rival(result, "f16") == ("compile_f16", 0.4) and rival(result, "tf32") == ("eager_tf32", 1.0)
    assert best(result, "f16")["score"] == score(0.5, 0.25, 1.0)  # by the 1.0 ms of eager f16 beside it


def test_what_a_session_judged_stands():
    result = of_session(timed("tf32", 0.9, "eager_tf32", 2.0, verdict="minor", gap=1.9, score=0.61, roof="f16"))
    (t,) = result["trials"]
    assert (t["verdict"], t["gap"], t["score"]) == ("minor", 1.9, 0.61) and counts(t)


def test_a_problem_costs_the_time_until_the_search_and_its_trials():
    result = of_session(timed("tf32", 1.0, "eager_tf32", 2.0), timed("f16", 1.0, "eager_f16", 2.0))
    assert line("a", result, "tf32").seconds == 10.0


def test_a_class_without_a_trial_says_what_the_session_said():
    result = of_session(timed("tf32", 1.0, "eager_tf32", 2.0), notes=["fp8 is left out: no matrix product"])
    assert line("a", {**result, "trials": []}, "fp8").why == "fp8 is left out: no matrix product"
