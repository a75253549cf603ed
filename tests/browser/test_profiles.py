"""The profile of a trial on the session page: its owner asks, everybody reads, and a session that ended has it too."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll
from tests.browser.test_owner import control

HEAD = re.compile(
    r"Profile of trial 1 · no profiler ran: the compiler’s resources, and times by the model of the GPU · \w"
)


def test_the_owner_asks_by_keyboard_and_everybody_reads_the_profile(app, open_page, complaints):
    session = app.submit(trials=60, eps=0.0, window=60)
    page = open_page(f"{control(session)}?trial=1", width=360, height=740)
    page.locator('.panes-nav [data-pane="code"]').click()
    button = page.locator("#ask-profile")
    expect(button).to_be_visible(timeout=90_000)
    reader = open_page(f"/s/{session['id']}?trial=1")
    expect(reader.locator("#resources")).to_contain_text("Verdict")
    expect(reader.locator("#profile")).to_be_hidden()
    button.focus()
    page.keyboard.press("Enter")
    for one in (page, reader):
        expect(one.locator("#profile-text")).to_contain_text("By the model of the GPU:", timeout=90_000)
        expect(one.locator("#profile-text")).to_contain_text("Trial 1, class ")
        expect(one.locator("#profile-about")).to_have_text(HEAD)
        expect(one.locator("#ask-profile")).to_be_hidden()
    no_sideways_scroll(page)
    log = app.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"]
    assert [e["data"]["trial"] for e in log if e["kind"] == "trial.profiled"] == [1]
    reader.locator('#timeline .trial[data-trial="2"]').click()
    expect(reader.locator("#profile")).to_be_hidden()
    page.reload()
    page.locator('.panes-nav [data-pane="code"]').click()
    expect(page.locator("#profile-about")).to_have_text(HEAD)
    assert not complaints, complaints


def test_a_session_that_ended_gives_a_reader_the_profile_from_its_log(open_page, finished, complaints):
    timed = next(e["data"]["trial"] for e in finished["events"] if e["kind"] == "trial.judged")
    page = open_page(f"{finished['view']}?trial={timed}")
    page.locator("#ask-profile").click()
    expect(page.locator("#profile-text")).to_contain_text("By the compiler:")
    expect(page.locator("#profile-about")).to_contain_text(f"Profile of trial {timed} · no profiler ran")
    expect(page.locator("#ask-profile")).to_be_hidden()
    assert not complaints, complaints
