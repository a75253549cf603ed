"""A step that runs: its session starts from the step, stands live beside it, and lets the student go on at its end; a
recording plays in the step."""

import json
import re
import urllib.request

import pytest
from playwright.sync_api import expect

from playground import learn
from tests.browser.conftest import no_sideways_scroll
from tests.browser.test_learn import step
from tests.browser.test_rooms import join

pytestmark = pytest.mark.usefixtures("recordings")
RUN = "/learn/roofline?step=move-point"
WATCH = """() => {
  const node = document.querySelector(".run-state");
  window.states = [];
  new MutationObserver(() => window.states.push(node.textContent)).observe(node, { childList: true });
}"""


def test_every_session_of_a_lesson_runs_to_its_end(app):
    figures = [b for lesson in learn.library() for s in lesson.steps for b in s.blocks if b.get("figure") == "session"]
    assert len(figures) >= 7
    for figure in figures:
        session = app.submit(**figure["request"])
        ended = app.wait_ended(session["id"], 120)
        events = app.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"]
        assert events[-1]["data"]["state"] == "done", (figure["name"], events[-1]["data"])
        assert 1 <= ended["summary"]["trials"] <= figure["request"]["trials"], figure["name"]


@pytest.fixture
def later(app):
    """No engine at first; it is there again for the tests that follow, whatever happens in this one."""
    app.end("engine")
    yield
    if "engine" not in app.running:
        app.start_engine()


def test_a_step_starts_a_session_and_lets_the_student_go_on_at_its_end(app, later, open_page, complaints):
    page = open_page("/learn")
    page.route("**/healthz", lambda route: route.fulfill(json={"ok": True, "engines": 1, "queued": 0}))
    page.goto(app.url + RUN)
    run, go_on = page.get_by_role("button", name="Run it here"), page.locator(".lesson-buttons .next")
    expect(go_on).to_have_text("Next")
    run.press("Enter")
    expect(go_on).to_have_text("Wait for the session")
    expect(go_on).to_be_disabled()
    page.keyboard.press("Alt+ArrowRight")
    assert step(page) == "move-point", "the session has not ended"
    page.reload()  # the browser knows the session of the step
    pane, state = page.frame_locator(".session-pane iframe"), page.locator(".run-state")
    expect(state).to_have_text("Waiting for an engine.")
    expect(go_on).to_be_disabled()
    page.evaluate(WATCH)
    app.start_engine()
    expect(pane.locator("#timeline .trial").first).to_be_visible(timeout=120_000)
    expect(state).to_contain_text(re.compile(r"Ended after \d of at most 2 trials"), timeout=120_000)
    assert any(text.startswith("Running: ") for text in page.evaluate("window.states"))
    expect(pane.locator("#link-state")).to_have_text("Ended")
    expect(pane.locator("#device")).to_contain_text("PREDICTED")
    expect(go_on).to_be_enabled()
    page.keyboard.press("Alt+ArrowRight")
    assert step(page) == "move"
    page.goto(app.url + "/mine")
    expect(page.locator("#started tr", has_text="A layer of 2048 rows")).to_have_count(1)
    assert not complaints, complaints


def test_a_session_is_stopped_and_a_recording_is_replayed_instead(open_page, complaints):
    page = open_page("/learn/when-to-stop?step=rules", width=360, height=740, color_scheme="dark")
    go_on = page.locator(".lesson-buttons .next")
    page.get_by_role("button", name="Run it here").click()
    expect(go_on).to_be_disabled()
    page.get_by_role("button", name="Replay a recording instead").click()
    expect(go_on).to_be_enabled()
    no_sideways_scroll(page)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".run-state")).to_contain_text("Ended after", timeout=90_000)
    expect(page.get_by_role("button", name="Run it again")).to_be_visible()
    assert not complaints, complaints


def test_a_recording_plays_in_the_step(open_page, complaints):
    page = open_page("/learn/memory-bound?step=gate-replay")
    pane = page.frame_locator(".session-pane iframe")
    expect(pane.locator("#device")).to_contain_text("MEASURED")
    trials = pane.locator("#timeline .trial")
    expect(trials.first).to_be_visible()
    whole = trials.count()
    scrub = pane.get_by_role("slider", name="Event")
    scrub.press("Home")
    expect(trials).to_have_count(0)
    scrub.press("End")
    expect(trials).to_have_count(whole)
    scrub.press("Home")
    pane.get_by_role("button", name="Replay").press("Enter")
    expect(trials.first).to_be_visible()
    assert not complaints, complaints


def test_a_pane_speaks_the_language_of_its_lesson_and_fits_a_narrow_screen(open_page, complaints):
    page = open_page("/learn/memory-bound?step=gate-replay&lang=ko", width=360, height=740)
    pane = page.frame_locator(".session-pane iframe")
    expect(pane.locator("#link-state")).to_have_text("끝남")
    expect(pane.locator("#device")).to_contain_text("측정")
    expect(pane.locator("#play")).to_have_text("▶ 재생")
    expect(pane.locator(".trial").first).to_contain_text("한계의 1.95배")
    expect(pane.locator(".trial .change [lang=en]").first).to_have_text("the owner's kernel")
    for language in ("ko", "en"):
        page = open_page(f"/learn/memory-bound?step=gate-replay&lang={language}", width=360, height=740)
        badge = page.frame_locator(".session-pane iframe").locator("#device")
        expect(badge).to_be_visible()
        assert badge.evaluate(
            "(b) => b.scrollWidth <= b.clientWidth + 1 && b.getBoundingClientRect().right <= innerWidth"
        )
    page = open_page("/learn/when-to-stop?step=rules&lang=ko")
    page.get_by_role("button", name="대신 기록 재생").click()
    chart = page.frame_locator(".session-pane iframe").locator("#chart-history")
    expect(chart.locator("h2")).to_have_text("속도 향상 기록")
    expect(chart.locator(".caption")).to_contain_text("점선: 한계의 25% 이내이며")
    expect(chart.locator(".xtitle")).to_have_text("시도")
    assert not re.search(r"[a-z]{5}", re.sub("PyTorch|float16", "", chart.locator(".caption").inner_text()))
    assert not complaints, complaints


def test_a_recording_that_is_not_loaded_is_named_with_the_way_out(app, open_page, complaints, tmp_path):
    app.manage("load_recordings", str(tmp_path), "-v", "0")
    try:
        page = open_page("/learn/memory-bound?step=gate-replay")
        pane = page.locator(".session-pane")
        expect(pane).to_contain_text("The recording of this session is not loaded on this server.")
        expect(pane.locator("code")).to_have_text("python manage.py load_recordings")
        expect(page.locator("iframe")).to_have_count(0)
        expect(page.locator('.figure a[href^="/s/"]')).to_have_count(0)  # nothing leads to a page that is not there
    finally:
        app.manage("load_recordings", "-v", "0")
    page.get_by_role("button", name="Look again").press("Enter")
    expect(page.frame_locator(".session-pane iframe").locator("#timeline .trial").first).to_be_visible()
    assert all("404" in complaint for complaint in complaints), complaints
    complaints.clear()


def test_without_an_engine_the_recording_stands_in(app, open_page, complaints):
    page = open_page("/learn")
    page.route("**/healthz", lambda route: route.fulfill(json={"ok": True, "engines": 0, "queued": 0}))
    page.goto(app.url + RUN)
    expect(page.locator(".run-state")).to_have_text("No engine runs here. This is a recording.")
    expect(page.get_by_role("button", name="Run it here")).to_be_hidden()
    expect(page.frame_locator(".session-pane iframe").locator("#timeline .trial").first).to_be_visible()
    expect(page.locator(".lesson-buttons .next")).to_be_enabled()
    assert not complaints, complaints


def test_a_step_of_a_room_runs_on_the_seats_account(app, open_page, complaints):
    body = {"title": "Monday", "lessons": ["memory-bound"], "trials": 1}
    asked = urllib.request.Request(
        f"{app.url}/api/rooms", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=20) as reply:
        room = json.load(reply)
    page = join(open_page, room["code"], "Ada")
    page.locator('.step-link[data-step="gate-run"]').click()
    page.locator(".figure-session").get_by_role("button", name="Run it here").press("Enter")
    expect(page.locator(".run-state")).to_contain_text("Ended after 1 of at most 1 trials", timeout=120_000)
    expect(page.locator(".lesson-buttons .next")).to_be_enabled()
    results = urllib.request.Request(
        f"{app.url}/api/rooms/{room['code']}/results", headers={"X-Teacher-Token": room["teacher_token"]}
    )
    with urllib.request.urlopen(results, timeout=20) as reply:
        (session,) = json.load(reply)["seats"][0]["sessions"]
    assert session["step"] == "memory-bound/gate-run"
    expect(page.locator(".session-pane iframe")).to_have_attribute("data-session", session["session"])
    assert not complaints, complaints
