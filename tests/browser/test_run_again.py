"""A measured recording of the gallery is run again on the modelled device, which says that it cannot compare."""

import re
import shutil

import pytest
from playwright.sync_api import expect

from playground.recordings import FOLDER
from tests.browser.walk import walking

RECORDING = "mlp_gelu.jsonl"


@pytest.fixture(scope="module")
def gallery(app, tmp_path_factory):
    """One measured recording; none is left for the tests after these."""
    folder = tmp_path_factory.mktemp("recordings")
    shutil.copy(FOLDER / RECORDING, folder)
    app.manage("load_recordings", str(folder), "-v", "0")
    yield
    (folder / RECORDING).unlink()
    app.manage("load_recordings", str(folder), "-v", "0")


def test_a_measured_recording_runs_again_and_does_not_compare(app, browser, gallery):
    with walking(browser) as walk:
        page = walk.page
        page.goto(app.url + "/gallery")
        page.locator("#cards .card a").first.click()
        start = page.get_by_role("button", name="Run again here")
        expect(start).to_be_visible()
        walk.settled()
        original = page.url
        assert walk.axe() == [] and "share" not in str(walk.shifts()[1]), "the button is there from the start"
        page.locator("#share-open").focus()
        page.keyboard.press("Tab")
        expect(start).to_be_focused()
        page.keyboard.press("Enter")

        page.wait_for_url(re.compile(r"/c/"))
        again = page.get_by_role("region", name="Run again")
        expect(again).to_contain_text("fresh inputs, the same checks, nothing searched")
        expect(page.locator("#link-state")).to_have_text("Ended", timeout=120_000)
        row = again.get_by_role("listitem").first
        expect(row).to_contain_text("Not comparable")
        expect(row).to_contain_text("the times here are predictions of a model, which confirm nothing")
        expect(row).to_contain_text(re.compile(r"Original.*×.*measured on NVIDIA"))
        expect(row).to_contain_text(re.compile(r"Here.*×.*predicted on H200$"))
        back = again.get_by_role("link")
        assert original.startswith(app.url + back.get_attribute("href"))
        walk.fits()
        back.click()
        page.wait_for_url(original)
        assert walk.complained() == [], walk.complained()


def test_a_refusal_is_one_sentence_on_the_page(app, open_page, gallery):
    page = open_page("/gallery")
    page.locator("#cards .card a").first.click()
    answer = '{"error": "Too many sessions are waiting.", "fix": "Try again when some have ended."}'
    page.route("**/again", lambda route: route.fulfill(status=503, content_type="application/json", body=answer))
    start = page.get_by_role("button", name="Run again here")
    start.click()
    expect(page.locator("#again-error")).to_have_text("Too many sessions are waiting. Try again when some have ended.")
    expect(start).to_be_enabled()
