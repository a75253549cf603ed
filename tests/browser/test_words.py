"""The words for where a session and its trials stand."""

import re

import pytest

WORDS = """async ([events, info]) => {
  const { words } = await import("/static/js/session/header.js");
  const { fold } = await import("/static/js/session/reduce.js");
  return words(fold(events), info);
}"""
FAILED = """async (failed) => (await import("/static/js/session/words.js")).failedWord(failed)"""

ROW = """async (events) => {
  const { content } = await import("/static/js/session/trials/row.js");
  const { fold } = await import("/static/js/session/reduce.js");
  const nodes = content([...fold(events).trials.values()][0], false).filter(Boolean);
  const limit = nodes.map((n) => n.querySelector("[title*=limit]")).find(Boolean);
  return [nodes.map((n) => n.textContent), limit?.title];
}"""


def log(*rows, t=100.0):
    """A log of (kind, data) or (kind, data, t) rows."""
    full = [(*row, t)[:3] for row in rows]
    return [{"seq": i, "kind": k, "data": d, "t": at} for i, (k, d, at) in enumerate(full, 1)]


@pytest.fixture
def page(open_page):
    return open_page("/robots.txt")  # any page of this origin


def view(page, resumed=(), ago=20.0):
    """A session whose first trial is being verified for `ago` seconds."""
    now = page.evaluate("Date.now() / 1000")
    steps = [(f"trial.{name}", {"trial": 1}, now - ago) for name in ("proposed", "checked", "generated", "compiled")]
    return log(("session.started", {}, now - ago), *steps, *(("resumed", {"text": ""}, now - t) for t in resumed))


def test_a_step_tells_how_long_it_takes(page):
    words = page.evaluate(WORDS, [view(page), {"live": True, "state": "running"}])
    assert re.fullmatch(r"Trial 1: verifying · 2\d s", words), "20 s, and what a busy machine adds"


def test_a_step_that_another_engine_took_up_begins_its_clock_anew(page):
    words = page.evaluate(WORDS, [view(page, resumed=[5.0]), {"live": True, "state": "running"}])
    assert re.fullmatch(r"Trial 1: verifying, again: another engine continues this · ([5-9]\.\d|1\d) s", words)


def test_a_lost_engine_is_said_instead_of_a_clock_that_runs_on(page):
    info = {"live": True, "state": "running", "text": "The engine that worked on this was lost."}
    assert page.evaluate(WORDS, [view(page), info]) == "The engine that worked on this was lost."


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        (["pause"], "Paused by the owner"),
        (["try", "pause"], "Paused by the owner"),
        (["pause", "try"], "Paused by the owner; 1 try of the owner waits until the session resumes"),
        (["pause", "try", "pause", "try"], "Paused by the owner; 2 tries of the owner wait until the session resumes"),
        (["pause", "try", "resume", "pause"], "Paused by the owner"),
    ],
)
def test_a_try_that_a_pause_holds_is_said_to_wait(page, commands, words):
    rows, paused = [("session.started", {})], False
    for action in commands:
        paused = {"pause": True, "resume": False}.get(action, paused)
        rows.append(
            ("controlled", {"action": action, "data": {"waits": "paused"} if action == "try" and paused else {}})
        )
    assert page.evaluate(WORDS, [log(*rows), {"live": True, "state": "running"}]) == words


OWN = """async ([events, control]) => {
  const { boot } = await import("/static/js/page.js");
  const { content } = await import("/static/js/session/trials/row.js");
  const { fold } = await import("/static/js/session/reduce.js");
  if (control) boot.control = { token: "t" };
  return content([...fold(events).trials.values()][0], false).filter(Boolean).map((n) => n.textContent).join(" ");
}"""


@pytest.mark.parametrize(
    ("by", "control", "word", "other"),
    [
        ("owner", True, "yours", "the owner’s"),
        ("owner", False, "the owner’s", "yours"),
        ("engine", True, "after the search", "yours"),
    ],
)
def test_a_row_says_whose_the_trial_is(page, by, control, word, other):
    judged = {"trial": 1, "verdict": "clean", "cls": "f16", "kind": "measured", "ms": 1.0, "speedup": 1.0}
    rows = log(("session.started", {}), ("trial.proposed", {"trial": 1, "by": by}), ("trial.judged", judged))
    text = page.evaluate(OWN, [rows, control])
    assert word in text and other not in text


EMPTY = """async () => {
  const { TryForm } = await import("/static/js/session/try_form.js");
  const { boot } = await import("/static/js/page.js");
  boot.session = { spec: { classes: ["f16"] } };
  const form = new TryForm("", "program", null, () => {});
  document.body.append(...form.body);
  form.open();
  window.form = form;
  await form.look();
  return form.message.textContent;
}"""


def test_an_empty_form_reports_no_mistake(page):
    assert page.evaluate(EMPTY) == ""
    typed = """async () => {
      form.editor.setText("program", "ucutlass");
      for (let i = 0; i < 100 && !form.message.textContent; i++) await new Promise((done) => setTimeout(done, 100));
      return form.message.textContent;
    }"""
    assert page.evaluate(typed).startswith("Line 1")


@pytest.mark.parametrize(
    ("step", "cause", "word"),
    [
        ("validate", "program", "wrong result"),
        ("validate", "run", "not verified"),
        ("validate", "owner", "stopped"),
        ("measure", "program", "not timed"),
        ("compile", "program", "did not compile"),
    ],
)
def test_a_trial_that_nobody_judged_is_no_wrong_result(page, step, cause, word):
    assert page.evaluate(FAILED, {"step": step, "cause": cause}) == word


EVIDENCE = """async (events) => {
  const { verdict } = await import("/static/js/session/trials/row.js");
  const { report } = await import("/static/js/session/report.js");
  const { fold } = await import("/static/js/session/reduce.js");
  const one = [...fold(events).trials.values()][0], word = verdict(one.judged);
  const lines = report(one).map((node) => node.textContent);
  return [word?.textContent ?? null, word?.title ?? null, word?.className.trim() ?? null, lines];
}"""


def judged(verdict="clean", evidence=(), part=None, **fields):
    """A log of one judged trial in TF32; `part`: of a region. `fields` of its verdict."""
    proposed = {
        "trial": 1,
        "cls": "tf32",
        "backend": "cute",
        "change": "tile 128x256x64",
        "roof": fields.pop("roof", ""),
    }
    data = {
        "trial": 1, "verdict": verdict, "cls": "tf32", "kind": "measured", "ms": 0.3, "speedup": 1.2, "gap": 1.4,
        "baseline": "eager_tf32", "best": True, "evidence": list(evidence), "text": "words", **fields,
    }  # fmt: skip
    measured = {"trial": 1, "time": {"ms": 0.3, "kind": "measured", "low": 0.29, "high": 0.31}, "part": part or {}}
    return log(
        ("session.started", {}), ("trial.proposed", proposed), ("trial.measured", measured), ("trial.judged", data)
    )


def test_a_verdict_stands_beside_the_time_with_its_evidence_behind_it(page):
    seen = [
        {"name": "without kernels", "verdict": "passed", "said": "3 launches left out"},
        {"name": "limit", "verdict": "passed", "said": "1.20 times the limit"},
    ]
    word, title, kind, lines = page.evaluate(EVIDENCE, judged("clean", seen))
    assert (word, kind) == ("clean", "verdict")
    assert title == "without kernels: 3 launches left out\nlimit: 1.20 times the limit"
    assert lines[-2].startswith("Verdict: clean") and "without kernels · 3 launches left out" in lines[-1]


def test_a_trick_is_said_in_red_with_what_was_seen(page):
    seen = [{"name": "without kernels", "verdict": "gaming", "said": "the result is the same"}]
    word, _, kind, lines = page.evaluate(EVIDENCE, judged("gaming", seen))
    assert word == "flagged, not counted" and kind == "verdict bad"
    assert "0.300 ms measured, which is not counted: the result is the same." in lines
    assert "without kernels (gaming) · the result is the same" in lines[-1]


def test_a_guarded_trial_says_so_beside_its_class_and_whose_limit_it_is_held_to(page):
    lines, title = page.evaluate(ROW, judged(roof="f16"))
    assert any("TF32 by guarded float16 · cute" in line for line in lines)
    assert title == "time ÷ speed-of-light limit of float16"
    lines, title = page.evaluate(ROW, judged())
    assert any(line.startswith("TF32 · cute") for line in lines)
    assert title == "time ÷ speed-of-light limit of its precision class"
    lines, title = page.evaluate(ROW, judged(gap=1750.0))  # of a limit that is far below a launch
    assert any(line.endswith("· launches") for line in lines) and "4 µs" in title


FASTER = "0.300 ms measured, 1.20× faster than PyTorch eager (TF32), 1.40 times the limit"
SLOWER = "0.300 ms measured, 1.25× slower than PyTorch eager (TF32), 1.40 times the limit"
WHOLE = "0.300 ms measured for the whole module, 1.20× faster than PyTorch eager (TF32), 1.40 times the limit"
PART = {"region": 2, "region_ms": 0.1, "region_eager_ms": 0.2}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, f"{FASTER}; the best in TF32 so far."),
        ({"best": False, "speedup": 0.8}, f"{SLOWER}."),
        (
            {"best": False, "algebraic": "no sum", "standing": "algebraic"},
            f"{FASTER}; algebraic (no sum): no best unless it is allowed.",
        ),
        ({"best": False, "roof": "f16"}, f"{FASTER} of float16 (TF32 by guarded float16)."),
        (
            {"best": False, "gap": 1750.0, "roof": "f16"},
            "0.300 ms measured, 1.20× faster than PyTorch eager (TF32), bound by launches.",
        ),
        (
            {"best": False, "part": PART},
            f"{WHOLE}; region 2 alone 0.100 ms, 2.00× faster than PyTorch’s own 0.200 ms for it.",
        ),
        (
            {"best": False, "part": {**PART, "graph": True}},
            f"{WHOLE}; region 2 alone 0.100 ms, 2.00× faster than PyTorch’s own 0.200 ms for it; "
            "all of it as one CUDA graph.",
        ),
    ],
)
def test_what_a_trials_time_means_is_composed_from_its_fields(page, fields, words):
    assert page.evaluate(EVIDENCE, judged(**fields))[3][-1] == words


def test_a_recording_without_evidence_says_nothing_of_it(page):
    word, _, _, lines = page.evaluate(EVIDENCE, judged())
    assert word is None and not any("Verdict" in line for line in lines)


END = {"state": "done", "seconds": 20, "reason": "A sentence for people. Best in f16: 0.298 ms."}
CLOSED = [
    {"cls": "tf32", "code": "near_limit", "best_ms": 0.338, "limit_ms": 0.278, "eps": 0.25, "trials": 1},
    {"cls": "f16", "code": "stalled", "best_ms": 0.298, "limit_ms": 0.139, "eps": 0.25, "trials": 6},
]


@pytest.mark.parametrize(
    ("strategy", "end", "words"),
    [
        ("optiml", {}, "Ended: A sentence for people. Best in f16: 0.298 ms · 20 s"),
        ("optiml", {"reason": ""}, "Ended: there is nothing left to try · 20 s"),  # shared without its reason
        ("optiml", {"closed": CLOSED[:1]}, "Ended: TF32: within 25% of the limit, 0.338 ms against 0.278 ms · 20 s"),
        ("planner", {}, "Ended: there is nothing left to try · 20 s"),
    ],
)  # fmt: skip
def test_the_head_gives_the_reason_of_a_strategy_that_a_model_leads(page, strategy, end, words):
    events = log(("session.started", {"budget": {}, "strategy": strategy}),
                 ("session.ended", {**END, "code": "search_over", **end}))  # fmt: skip
    assert page.evaluate(WORDS, [events, {"live": True}]) == words


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"code": "search_over", "closed": CLOSED},
         "Ended: TF32: within 25% of the limit, 0.338 ms against 0.278 ms; float16: 6 trials in a row brought nothing "
         "better than 0.298 ms · 20 s"),
        ({"code": "search_over"}, "Ended: there is nothing left to try · 20 s"),
        ({"code": "budget_used"}, "Ended: the budget of 12 trials is used up · 20 s"),
        ({"code": "stopped", "state": "stopped"}, "Stopped: by the owner · 20 s"),
        ({"code": "engine_error", "state": "failed", "reason": "The GPU is gone."}, "Failed: The GPU is gone · 20 s"),
        ({"code": "not_covered", "state": "refused"}, "Refused"),
        ({}, "Ended: A sentence for people. Best in f16: 0.298 ms · 20 s"),
    ],
)  # fmt: skip
def test_the_head_says_why_it_ended_from_its_code(page, end, words):
    events = log(("session.started", {"budget": {"trials": 12}}), ("session.ended", {**END, **end}))
    assert page.evaluate(WORDS, [events, {"live": True}]) == words
