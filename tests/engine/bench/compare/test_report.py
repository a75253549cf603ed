"""The report of a comparison: every part that a reader needs, and what is rehearsed and predicted says so."""

import json

import pytest

from engine.bench.compare import report
from engine.bench.compare.request import Arm, Request
from tests.engine.bench.compare.rows import session, trial


@pytest.fixture
def about():
    request = Request((Arm("a", "flat"), Arm("b", "chain")), ("low_rank_linear",), (0.5, 1.0), (0, 1))
    return {
        "request": request.settings,
        "date": "2026-11-25",
        "kind": "predicted",
        "model": "m",
        "cores": 2,
        "seconds": 60.0,
    }


def rows():
    return [
        session(
            trial(1.0, tokens=10, t=1.0), trial(2.0 + seed, tokens=20, t=2.0), trial(9.0, bad=["limit"], tokens=30),
            arm=arm, skill=skill, seed=seed,
        )
        for arm in "ab"
        for skill in (0.5, 1.0)
        for seed in (0, 1)
    ]  # fmt: skip


def test_the_report_has_its_parts_and_every_heading_says_how_the_replies_and_times_came(about):
    text = report.markdown(about, rows())
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == 10 and all("rehearsed" in h and "predicted" in h for h in headings)
    assert "says nothing about language models or prompts" in text and "none is measured" in text
    for words in ("own best, geomean of solved", "Signed area", "2x within 1", "US dollars", "verify, s", "filter off"):
        assert words in text


def test_a_shared_budget_is_not_called_one_of_each_session(about):
    request = about["request"] | {"trials": 3, "tokens": 1000, "seeds": [0], "skills": [0.5, 1.0]}
    own = report.markdown(about | {"request": request | {"order": "each"}}, rows())
    assert "each with its own budget of 3 evaluations and 1,000 model tokens." in own
    assert "at the skills 0.5, 1 and seed 0." in own
    shared = report.markdown(about | {"request": request | {"order": "sol"}}, rows())
    assert "one budget over all problems (3 evaluations and 1,000 model tokens for each of them, added up)" in shared
    assert "Where the common budget went (rehearsed, predicted)" in shared and "| p | 3.0 | 3.0 |" in shared
    assert "common budget" not in own


def test_files_lie_beside_the_results_with_figures_that_plotly_knows(about, tmp_path):
    paths = report.write(tmp_path / "x.json", about, rows())
    assert {p.name for p in paths} == {
        "x.md", "x.report.json", "x-fast-p.svg", "x-attempts.svg", "x-near-best.svg",
        "x-evaluations.svg", "x-tokens.svg",
    }  # fmt: skip
    data = json.loads((tmp_path / "x.report.json").read_text())
    assert set(data["arms"]) == {"a", "b"} and set(data["by_skill"]) == {"0.5", "1"}
    assert data["areas"]["2"]["a"]["b"] == 0.0 and data["figures"]["fast-p"]["rows"]
    assert "(x-attempts.svg)" in (tmp_path / "x.md").read_text()
    assert (tmp_path / "x-attempts.svg").read_text().startswith("<svg")


def test_a_measured_comparison_with_a_real_model_claims_neither(about):
    about |= {"kind": "measured", "request": about["request"] | {"rehearsed": False}}
    text = report.markdown(about, rows())
    assert "The model is m." in text and "rehears" not in text and "prediction" not in text


def test_an_unsolved_problem_says_why_in_the_words_of_its_trials(about):
    failed = session(trial(step="check"), trial(step="check"), trial(), arm="a", problem="cross")
    failed |= {"words": {"check": "Line 3: `gather` | has no program", "validate": "8% of it is wrong"}}
    old = session(trial(), arm="b", problem="cross")
    none = session(arm="c", problem="cross") | {"state": "refused", "reason": "It has no limit in f16."}
    some = [failed, old, none, session(trial(2.0), arm="a", problem="cross", seed=1)]
    text = report.markdown(about, some)
    words = "check: Line 3: `gather` \\| has no program; validate: 8% of it is wrong"
    assert f"| cross | a | 1 of 2 | 2 at check, 1 at validate | {words} |" in text
    assert "| cross | b | 1 of 1 | 1 at validate | validate: wrong_result |" in text
    assert "| cross | c | 1 of 1 | no trial | end: It has no limit in f16. |" in text
    assert [u["arm"] for u in report.summaries(about, some)["unsolved"]] == ["a", "b", "c"]
    assert "Each session has a trial that counts." in report.markdown(about, rows())


def test_filters_that_refused_nothing_are_named(about):
    text = report.markdown(about, rows())
    assert "| a | limit | 4 |" in text and "| b | limit | 4 |" in text
    idle = next(line for line in text.splitlines() if line.startswith("Refused 0 trials in every arm"))
    assert "`precision`" in idle and "`memoized`" in idle and "`limit`" not in idle
    worth = {line["off"]: line for line in report.summaries(about, rows())["filters"]["a"]}
    assert (worth["precision"]["refused"], worth["precision"]["factor"], worth["precision"]["changed"]) == (0, 1.0, 0)
    assert "No filter refused a trial." in report.markdown(about, [session(trial(2.0))])


def test_before_the_first_session_there_is_a_report(about):
    assert "No session has ended yet." in report.markdown(about, [])


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"eps": 0.25, "window": 6}, "PyTorch and it is within 25% of the limit or the last 6 trials were no better."),
        ({"eps": 0.0, "window": 1}, "PyTorch and the last trial was no better."),
    ],
)
def test_a_stop_rule_stands_beside_the_budget(about, rules, words):
    def text(**more):
        return report.markdown(about | {"request": about["request"] | more}, rows())

    assert words in text(**rules)
    assert "ends early" not in text(eps=0.0, window=0)


@pytest.mark.parametrize(("kind", "named"), [("measured", True), ("predicted", False)])
def test_arms_of_another_form_are_named(about, kind, named):
    request = Request((Arm("cutegen", "cutegen"), Arm("flat", "flat")), ("low_rank_linear",), (1.0,), (0,))
    text = report.markdown(about | {"request": request.settings, "kind": kind}, rows()[:1])
    assert ("cutegen writes raw kernels, and flat programs of the language" in text) is named
    assert "1 problem in" in text
