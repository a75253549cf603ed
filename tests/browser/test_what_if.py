"""Other stop rules on the session's page: the rule of `python -m engine replay`, sliders, the study's best policy."""

import re
from dataclasses import asdict

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from engine.replay import recorded, spending
from engine.session import recording
from engine.session.fold.reduce import fold
from sol import budget
from tests.browser.conftest import ROOT, no_sideways_scroll

RECORDINGS = sorted((ROOT / "playground/recordings").glob("*.jsonl"))
GRID = [(e, w) for e in (0.0, *budget.EPSILONS) for w in (0, 1, *budget.WINDOWS)]
OF_LOG = """async ([rows, grid]) => {
  const { fold } = await import("/static/js/session/reduce.js");
  const { recorded, spending } = await import("/static/js/session/replay/recorded.js");
  const { replay, together } = await import("/static/js/session/replay/policy.js");
  const all = recorded(fold(rows), spending(rows));
  return all.length ? grid.map(([eps, window]) => {
    const runs = all.map((one) => replay(one, eps, window));
    return { runs, all: together(runs), classes: all.map((one) => one.cls) };
  }) : [];
}"""
OF_TRIALS = """async (sessions) => {
  const { replay } = await import("/static/js/session/replay/policy.js");
  return sessions.map(({ one, eps, window }) => replay(one, eps, window));
}"""


def code(reason: str):
    """The reason of a replay as the page's code."""
    if reason.startswith("within"):
        return "near_limit"
    return "stalled" if "in a row" in reason else None


def same_run(theirs, ours: budget.Replay) -> None:
    assert (theirs["trials_run"], theirs["trials_total"]) == (ours.trials_run, ours.trials_total)
    assert (theirs["best_ms"], theirs["code"]) == (ours.best_ms, code(ours.reason))
    assert theirs["speedup"] == pytest.approx(ours.speedup) and theirs["speedup_kept"] == pytest.approx(
        ours.speedup_kept
    )
    assert theirs["total"].keys() == ours.saved.keys()
    for kind, total in theirs["total"].items():
        assert 1 - theirs["spent"].get(kind, 0) / total == pytest.approx(ours.saved[kind], abs=1e-9)


def with_turns(rows):
    """The log with a model's answer before each trial, which costs tokens and money."""
    kinds = []
    for row in rows:
        if row.kind == "trial.proposed":
            n = row.data["trial"]
            tokens = {"in": 100 * n, "out": n}
            answer = {"path": str(n), "digest": "", "verb": "ask", "tokens": tokens, "cost": 0.01 * n}
            kinds.append(("turn.answered", row.t, answer))
        kinds.append((row.kind, row.t, row.data))
    return [recording.Row(seq, kind, t, data) for seq, (kind, t, data) in enumerate(kinds, 1)]


@pytest.mark.parametrize("turns", [False, True], ids=["as recorded", "with turns"])
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_the_page_and_the_command_stop_a_recording_at_the_same_trials(checkout, path, turns):
    rows = recording.read(path).rows
    rows = with_turns(rows) if turns else rows
    sessions = recorded(fold(rows), path.stem, spending(rows))
    assert not turns or all(t.spent["tokens"] for s in sessions for t in s.trials)
    theirs = checkout.evaluate(OF_LOG, [[asdict(row) for row in rows], GRID])
    assert len(theirs) == (len(GRID) if sessions else 0)
    for (eps, window), page in zip(GRID, theirs, strict=False):
        assert [f"{path.stem} ({cls})" for cls in page["classes"]] == [s.name for s in sessions]
        for run, session in zip(page["runs"], sessions, strict=True):
            same_run(run, budget.replay(session, eps, window))
        ours = budget.policy(sessions, eps, window)
        assert page["all"]["speedup_kept"] == pytest.approx(ours.speedup_kept)
        assert 1 - page["all"]["trials_run"] / page["all"]["trials_total"] == pytest.approx(ours.trials_saved)
        shares = {kind: cost["saved"] for kind, cost in page["all"]["costs"].items()}
        assert shares == pytest.approx(dict(ours.saved), abs=1e-9)


ms = st.one_of(st.none(), st.sampled_from([0.1, 0.2, 0.3]), st.floats(0.01, 3.0))
bound = st.one_of(st.none(), st.floats(0.01, 1.0))
spent = st.fixed_dictionaries({}, optional={k: st.floats(0, 9) for k in ("seconds", "tokens", "money")})
RULES = st.fixed_dictionaries({
    "one": st.fixed_dictionaries({
        "trials": st.lists(st.fixed_dictionaries({"ms": ms, "limit": bound, "spent": spent}), min_size=1, max_size=30),
        "limit": st.one_of(st.just(0.0), st.floats(0.01, 1.0)),
        "baseline": st.floats(0.05, 3.0),
    }),
    "eps": st.floats(0, 3), "window": st.integers(0, 24),
})  # fmt: skip


def test_random_trials_are_stopped_alike(checkout):
    drawn = []

    @settings(max_examples=300, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(RULES)
    def gather(case):
        drawn.append(case)

    gather()
    for case, theirs in zip(drawn, checkout.evaluate(OF_TRIALS, drawn), strict=True):
        one = case["one"]
        trials = tuple(budget.Trial(t["ms"], spent=t["spent"], t_sol_ms=t["limit"]) for t in one["trials"])
        session = budget.Recorded("", trials, one["limit"], one["baseline"])
        same_run(theirs, budget.replay(session, case["eps"], case["window"]))


def test_a_guarded_program_is_near_the_limit_of_its_products_alone(checkout):
    """A session's own rule saved five of its trials: a guarded f16 program was near the limit of tf32."""
    trials = [{"ms": 0.3, "limit": 0.139, "spent": {}}, {"ms": 0.33, "limit": None, "spent": {}}]
    case = {"one": {"trials": trials, "limit": 0.278, "baseline": 0.376}, "eps": 0.25, "window": 6}
    (run,) = checkout.evaluate(OF_TRIALS, [case])
    assert run["code"] is None and run["limit"] == 0.139


@pytest.fixture
def page(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    page.locator("#what-if-open").click()
    return page


def ours(finished, eps: float, window: int) -> budget.Policy:
    rows = [recording.Row(e["seq"], e["kind"], e["t"], e["data"]) for e in finished["events"]]
    return budget.policy(recorded(fold(rows), "x", spending(rows)), eps, window)


def test_it_opens_with_the_sessions_own_rule_which_saves_nothing(page):
    expect(page.locator("#what-if-own")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".what-if-sum")).to_contain_text("Nothing is saved")
    expect(page.locator("#timeline .trial .not-run")).to_have_count(0)


def test_one_click_shows_where_the_studys_best_policy_would_have_stopped(page, finished):
    page.locator("#what-if-study").click()
    expect(page.locator("#what-if-study")).to_have_text("The study’s best: 250%, 12 trials")
    policy = ours(finished, *budget.STUDY)
    total = len([e for e in finished["events"] if e["kind"] in ("trial.judged", "trial.failed")])
    gone = round(policy.trials_saved * total)
    assert gone > 0
    expect(page.locator(".what-if-sum")).to_contain_text(f"Saved: {gone} of {total} trials")
    expect(page.locator(".what-if-sum")).to_contain_text(f"{policy.speedup_kept:.0%} of the speedup is kept")
    expect(page.locator("#timeline .trial .not-run")).to_have_count(gone)
    expect(page.locator("#what-if .stairs-cut")).not_to_have_count(0)


def test_the_keyboard_moves_the_sliders_and_the_address_keeps_the_rule(page, open_page):
    expect(page.locator("#what-if-eps")).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator("#what-if-eps")).to_have_attribute("aria-valuetext", "300%")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    expect(page.locator("#what-if-window")).to_have_attribute("aria-valuetext", "no limit")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"eps=2\.95&w=1$"))
    text = page.locator(".what-if-sum").text_content()
    again = open_page(page.url)
    expect(again.locator(".what-if-sum")).to_have_text(text)
    expect(again.locator("#history-plot .main-svg").first).to_be_visible()  # nothing is drawn anew behind the key
    again.locator("#what-if-close").press("Enter")
    expect(again.locator("#what-if-open")).to_be_focused()
    expect(again).not_to_have_url(re.compile("eps="))


def test_a_rule_applies_to_the_past_that_a_replay_shows(page, finished):
    page.locator("#what-if-study").click()
    second = [e["seq"] for e in finished["events"] if e["kind"] == "trial.judged"][1]
    page.locator("#scrub").evaluate("(n, v) => { n.value = v; n.dispatchEvent(new Event('input')); }", second)
    expect(page.locator(".what-if-sum")).to_contain_text("all 2 trials")


def test_an_address_with_another_rule_than_the_sliders_know_is_not_used(open_page, finished, complaints):
    for query in ("eps=7&w=3", "eps=0.5&w=-1", "eps=x&w=3", "w=3"):
        page = open_page(f"{finished['view']}?{query}")
        page.wait_for_selector("#replay:not([hidden])")
        expect(page.locator("#what-if")).to_be_hidden()
    assert not complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone(open_page, finished, complaints, scheme):
    page = open_page(f"{finished['view']}?eps=2.5&w=12", 360, 740, color_scheme=scheme)
    expect(page.locator("#what-if .stairs")).not_to_have_count(0)
    no_sideways_scroll(page)
    assert not complaints
