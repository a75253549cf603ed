"""A snapshot's page lists the runs that compared with it, each with a link to its session."""

import re

from playwright.sync_api import expect

from tests.browser.walk import walking


def test_a_run_is_listed_on_the_page_of_the_snapshot(app, browser):
    original = app.submit(trials=2)  # not the shared one, whose snapshots other tests count
    app.wait_ended(original["id"])
    token = {"X-Control-Token": original["control_url"].rsplit("/", 1)[1]}
    snapshot = app.post(f"/api/sessions/{original['id']}/snapshots", {"transcript": False}, token)["id"]
    started = app.post(f"/api/sessions/{snapshot}/again", {})
    app.wait_ended(started["id"])
    with walking(browser) as walk:
        page = walk.page
        page.goto(f"{app.url}/s/{snapshot}")
        walk.settled()
        assert walk.moved() == []
        runs = page.locator("#runs")
        runs.locator("summary").focus()
        page.keyboard.press("Enter")
        row = runs.locator("tbody tr").first
        expect(row).to_contain_text("same prediction")
        expect(row).to_contain_text(re.compile(r"\d: \d[\d.]*× \(\d[\d.]*×\)"))
        walk.fits()
        row.get_by_role("link").click()
        expect(page).to_have_url(f"{app.url}/s/{started['id']}")
        assert list(walk) == [], list(walk)
