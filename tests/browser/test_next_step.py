"""The head of a session says what limits its best program and what to try next, as it was at the shown event."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (360, "dark")])
def test_the_head_says_what_limits_the_best(app, open_page, finished, complaints, width, scheme):
    page = open_page(finished["view"], width, 900, color_scheme=scheme)
    sentence = app.get(f"/api/sessions/{finished['id']}/limit")["sentence"]
    assert sentence.startswith("Trial ") and sentence.count(".") >= 1
    expect(page.locator("#limit")).to_have_text(sentence)
    no_sideways_scroll(page)
    assert not complaints


def test_a_replay_shows_the_sentence_of_its_event(app, open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    first = next(e["seq"] for e in finished["events"] if e["kind"] == "trial.judged")
    page.locator("#scrub").fill(str(first))
    was = app.get(f"/api/sessions/{finished['id']}/limit?seq={first}")["sentence"]
    expect(page.locator("#limit")).to_have_text(was)
    page.locator("#scrub").fill("2")
    expect(page.locator("#limit")).to_have_text("")


def test_no_sentence_of_a_later_event_stands_in_a_replay(open_page, finished):
    page = open_page(finished["view"])
    expect(page.locator("#limit")).to_contain_text("Trial ")
    page.route("**/api/sessions/*/limit*", lambda route: None)  # the answer is on its way
    first = next(e["seq"] for e in finished["events"] if e["kind"] == "trial.judged")
    page.locator("#scrub").fill(str(first))
    expect(page.locator("#limit")).to_be_hidden()
    page.locator("#scrub").fill(str(len(finished["events"])))
    expect(page.locator("#limit")).to_be_visible()


def test_a_server_that_does_not_answer_leaves_the_line_empty(open_page, app, finished):
    page = open_page("/robots.txt")
    page.route("**/api/sessions/*/limit*", lambda route: route.fulfill(status=500, body="{}"))
    page.goto(app.url + finished["view"])
    page.wait_for_selector("#history-plot .main-svg", timeout=90_000)
    expect(page.locator("#limit")).to_have_text("")
