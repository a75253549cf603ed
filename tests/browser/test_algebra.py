"""Rewrites that leave out work are the person's to allow: a box on the page that starts a session, and a word on its
own page."""

import json
import re

from playwright.sync_api import expect

from tests.browser.conftest import MODULE, no_sideways_scroll, paste


def test_a_ticked_box_reaches_the_engine_and_the_sessions_page_says_so(app, open_page, complaints):
    page = open_page("/")
    page.set_viewport_size({"width": 360, "height": 800})
    box = page.get_by_label("Allow algebraic rewrites")
    expect(box).not_to_be_checked()
    paste(page, MODULE)
    box.check()
    no_sideways_scroll(page)
    page.get_by_label("Trials").first.fill("1")
    page.get_by_role("button", name=re.compile("^Run")).click()
    page.wait_for_url(re.compile(r"/c/"))
    expect(page.locator("#algebra")).to_have_text("Algebraallowed")
    no_sideways_scroll(page)
    boot = json.loads(page.locator("#boot").text_content())
    log = app.wait(lambda: app.get(f"/api/sessions/{boot['session']['id']}/events?limit=9")["events"], 60, "no log")
    assert log[0]["data"]["algebraic"] is True

    # A fork keeps the choice; a program is computed as it is written, so there is nothing to allow.
    page.goto(f"{app.url}/s/{boot['session']['id']}/fork")
    expect(box).to_be_checked()
    page.get_by_role("tab", name="μCUTLASS program").click()
    expect(box).to_be_hidden()


def test_a_session_without_it_says_nothing(app, open_page):
    session = app.submit(trials=1)
    page = open_page(session["view_url"])
    expect(page.locator("#used")).to_contain_text("of 1")
    expect(page.locator("#algebra")).to_be_hidden()
