"""A session's page keeps still from its start to its end: what comes has its room, at every width."""

import contextlib
import re

from playwright.sync_api import expect

from tests.browser.walk import walking


def test_nothing_moves_while_a_session_runs(app, browser):
    session = app.submit(trials=4, eps=0.0, window=4)
    owner = re.sub(r"^https?://[^/]+", "", session["control_url"])
    sizes = ((1440, 900, owner), (1024, 768, f"/s/{session['id']}"), (360, 740, owner))
    with contextlib.ExitStack() as stack:
        walks = []
        for width, height, path in sizes:
            walks.append(stack.enter_context(walking(browser, width, height)))
            walks[-1].page.goto(app.url + path)
        before = [walk.page.evaluate("JSON.parse(document.getElementById('boot').textContent)") for walk in walks]
        events = app.wait_ended(session["id"])["last_seq"]
        assert all(boot["session"]["last_seq"] < events / 2 for boot in before), "the pages saw it run"
        for (width, _, _), walk in zip(sizes, walks, strict=True):
            expect(walk.page.locator("#link-state")).to_have_text("Ended")
            expect(walk.page.locator("#limit")).to_contain_text("the limit")
            walk.settled()
            assert not walk.moved() + walk.complained(), width
