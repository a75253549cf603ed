"""The words for where a session and its trials stand."""

import re

import pytest

WORDS = """async ([view, info]) => {
  const { words } = await import("/static/js/header.js");
  return words({ ...view, trials: new Map(view.trials.map((t) => [t.n, t])) }, info);
}"""
FAILED = """async (failed) => (await import("/static/js/timeline.js")).failedWord(failed)"""

ROW = """async (one) => {
  const { content } = await import("/static/js/timeline.js");
  const nodes = content(one, false).filter(Boolean);
  const limit = nodes.map((n) => n.querySelector("[title*=limit]")).find(Boolean);
  return [nodes.map((n) => n.textContent), limit.title];
}"""


@pytest.fixture
def page(open_page):
    return open_page("/robots.txt")  # any page of this origin


def view(page, resumed=(), ago=20.0):
    """A session whose first trial has been verified for `ago` seconds."""
    now = page.evaluate("Date.now() / 1000")
    trial = {"n": 1, "step": "compiled", "steps": {"compiled": now - ago}, "judged": None, "failed": None}
    resumed = [{"t": now - t} for t in resumed]
    return {"started": {}, "trials": [trial], "resumed": resumed, "progress": None, "ended": None, "paused": False}


def test_a_step_tells_how_long_it_takes(page):
    said = page.evaluate(WORDS, [view(page), {"live": True, "state": "running"}])
    assert re.fullmatch(r"Trial 1: verifying · 2\d s", said), "20 s, and what a busy machine adds"


def test_a_step_that_another_engine_took_up_begins_its_clock_anew(page):
    said = page.evaluate(WORDS, [view(page, resumed=[5.0]), {"live": True, "state": "running"}])
    assert re.fullmatch(r"Trial 1: verifying, again: another engine took this up · ([5-9]\.\d|1\d) s", said)


def test_a_lost_engine_is_said_instead_of_a_clock_that_runs_on(page):
    info = {"live": True, "state": "running", "text": "The engine that worked on this was lost."}
    assert page.evaluate(WORDS, [view(page), info]) == "The engine that worked on this was lost."


@pytest.mark.parametrize(
    ("step", "code", "word"),
    [
        ("validate", "wrong_result", "wrong result"),
        ("validate", "out_of_bounds", "wrong result"),
        ("validate", "reference_crashed", "not verified"),
        ("validate", "oracle_died", "not verified"),
        ("validate", "worker_lost", "not verified"),
        ("validate", "stopped", "stopped"),
        ("measure", "timed_differs", "not timed"),
        ("compile", "nvcc", "did not compile"),
    ],
)
def test_a_trial_that_nobody_judged_is_no_wrong_result(page, step, code, word):
    assert page.evaluate(FAILED, {"step": step, "code": code}) == word


EVIDENCE = """async ([judged]) => {
  const { verdict } = await import("/static/js/timeline.js"), { report } = await import("/static/js/code.js");
  const word = verdict(judged);
  const lines = report({ judged }).map((node) => node.textContent);
  return [word?.textContent ?? null, word?.title ?? null, word?.className.trim() ?? null, lines];
}"""


def judged(verdict, evidence):
    return {"verdict": verdict, "text": "0.3 ms measured", "evidence": evidence}


def test_a_verdict_stands_beside_the_time_with_its_evidence_behind_it(page):
    seen = [
        {"name": "without kernels", "verdict": "passed", "said": "3 launches left out"},
        {"name": "limit", "verdict": "passed", "said": "1.20 times the limit"},
    ]
    word, title, kind, lines = page.evaluate(EVIDENCE, [judged("clean", seen)])
    assert (word, kind) == ("clean", "verdict")
    assert title == "without kernels: 3 launches left out\nlimit: 1.20 times the limit"
    assert lines[-2].startswith("Verdict: clean") and "without kernels · 3 launches left out" in lines[-1]


def test_a_trick_is_said_in_red_with_what_was_seen(page):
    seen = [{"name": "without kernels", "verdict": "gaming", "said": "the result is the same"}]
    word, _, kind, lines = page.evaluate(EVIDENCE, [judged("gaming", seen)])
    assert word == "flagged, not counted" and kind == "verdict bad"
    assert "without kernels (gaming) · the result is the same" in lines[-1]


def test_a_guarded_trial_says_so_beside_its_class_and_whose_limit_it_is_held_to(page):
    one = {"n": 2, "step": "judged", "cls": "tf32", "roof": "f16", "backend": "cute", "change": "tile 128x256x64"}
    one |= {"judged": judged("clean", []) | {"ms": 0.3, "kind": "measured", "speedup": 1.2, "gap": 1.4, "cls": "tf32"}}
    lines, title = page.evaluate(ROW, one)
    assert any("TF32 by guarded float16 · cute" in line for line in lines)
    assert title == "time ÷ speed-of-light limit of float16"
    lines, title = page.evaluate(ROW, one | {"roof": ""})
    assert any(line.startswith("TF32 · cute") for line in lines)
    assert title == "time ÷ speed-of-light limit of its precision class"


def test_a_recording_without_evidence_says_nothing_of_it(page):
    word, _, _, lines = page.evaluate(EVIDENCE, [judged("clean", [])])
    assert word is None and lines == ["0.3 ms measured"]


def test_the_head_says_why_it_ended_and_leaves_the_best_to_where_it_stands(page):
    reason = (
        "The search is over: tf32: within 25% of the limit: 0.338 ms against 0.278 ms; f16: there is nothing left to "
        "try. Best in f16: 0.298 ms predicted, 1.12x PyTorch eager (float16)."
    )
    ended = view(page) | {"ended": {"state": "done", "reason": reason, "seconds": 20}}
    assert page.evaluate(WORDS, [ended, {"live": True}]) == (
        "Ended: TF32: within 25% of the limit: 0.338 ms against 0.278 ms; float16: there is nothing left to try · 20 s"
    )


def test_no_name_of_the_code_stands_in_a_text_for_people(page):
    said = page.evaluate(
        'async (text) => (await import("/static/js/format.js")).inWords(text)',
        "0.29 ms measured, 1.12x faster than eager_f16; f32: 1.01x eager, tf32: 1.11x eager_tf32. An eager reader.",
    )
    assert said == (
        "0.29 ms measured, 1.12x faster than PyTorch eager (float16); float32: 1.01x PyTorch eager, "
        "TF32: 1.11x PyTorch eager (TF32). An eager reader."
    )
    said = page.evaluate(
        'async (text) => (await import("/static/js/format.js")).inWords(text)',
        "the starting point in f16; predicted 0.298 ms, bound by tensor; operands cast to f16, timed; store f32",
    )
    assert said == (
        "the starting point in float16; predicted 0.298 ms, bound by the matrix units; "
        "operands cast to float16, timed; store f32"
    )
