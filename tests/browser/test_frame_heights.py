"""The copied code of an embedded pane gives its frame the height that the pane needs: nothing scrolls inside."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import recorded, until

PANES = ("result", "roofline", "history", "breakdown", "trials")
OVER = """[document.scrollingElement, document.querySelector("#timeline-scroll")].filter(Boolean)
  .map((node) => node.scrollHeight - node.clientHeight)"""


def codes(page) -> dict[str, tuple[str, int, int]]:
    """Pane -> (address, width, height) of the copied frame."""
    page.get_by_role("button", name="Share", exact=True).click()
    frames = {}
    for pane in PANES:
        page.locator("#embed-pane").select_option(pane)
        code = page.get_by_label("Code of the embedded pane").input_value()
        address, width, height = re.search(r'src="(.*?)".* width="(\d+)" height="(\d+)"', code).groups()
        frames[pane] = (address, int(width), int(height))
    return frames


@pytest.mark.parametrize("name", ["kernels_by_hand", "rehearsed_cutegen", "linear_div_gelu", "row_softmax"])
def test_no_pane_scrolls_in_its_copied_frame(open_page, recordings, name, complaints):
    page = open_page(f"/s/{recorded(name)}")
    expect(page.locator("#timeline .trial").first).to_be_visible()
    until(page, "document.querySelector('#loaded').textContent.includes('events')")
    for pane, (address, width, height) in codes(page).items():
        assert width == 640
        page.set_viewport_size({"width": width, "height": height})
        page.goto(address)
        drawn = {"result": "#best *", "trials": "#timeline .trial"}.get(pane, "#pane .main-svg")
        expect(page.locator(drawn).first).to_be_visible()
        page.wait_for_timeout(300)
        assert max(page.evaluate(OVER)) <= 0, (pane, height, page.evaluate(OVER))
    assert not complaints, complaints


def test_a_running_session_leaves_room_for_the_trials_to_come(app, open_page):
    session = app.submit(trials=10, eps=0.0, window=10)
    page = open_page(f"/s/{session['id']}")
    expect(page.locator("#used")).to_contain_text("of 10")
    address, width, height = codes(page)["trials"]
    app.wait_ended(session["id"])
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    expect(page.locator("#link-state")).to_have_text("Ended")
    until(page, "document.querySelectorAll('#timeline .trial').length > 3")
    assert max(page.evaluate(OVER)) <= 0
