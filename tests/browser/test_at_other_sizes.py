"""The best program of an ended session, timed again at other sizes of its module: a session for each value."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, recorded


@pytest.fixture
def ended(app, open_page, recordings):
    """The page of a recording whose module names its sizes."""
    return open_page(f"/s/{recorded('gelu_and_mul')}")


def test_each_value_becomes_a_session_with_the_best_programs_stages(ended, open_page, app, complaints):
    panel = ended.locator("#at-sizes")
    panel.locator("summary").press("Enter")
    panel.get_by_label("Size", exact=True).select_option("ROWS = 8192")
    values = panel.get_by_label("Values", exact=True)
    expect(values).to_have_value("2048, 4096, 8192, 16384")
    values.fill("128, 256")
    values.press("Enter")  # the keyboard is enough
    rows = panel.locator("tbody tr")
    expect(rows).to_have_count(2, timeout=90_000)
    for i in range(2):
        expect(rows.nth(i)).to_contain_text("predicted", timeout=120_000)
        expect(rows.nth(i)).to_contain_text(re.compile(r"\d× over PyTorch eager"))
    one = open_page(rows.first.get_by_role("link").get_attribute("href"))
    expect(one.locator("#link-state")).to_have_text("Ended", timeout=120_000)
    expect(one.locator("h1")).to_contain_text("ROWS = 128")
    expect(one.locator("#timeline .trial")).to_have_count(1)
    ended.goto(f"{app.url}/mine")  # their control links are kept, also of those that nobody opened
    for value in (128, 256):
        expect(ended.get_by_role("link", name=f"ROWS = {value}")).to_have_attribute("href", re.compile("^/c/"))
    assert not complaints, complaints


def test_it_fits_a_telephone(ended):
    ended.set_viewport_size({"width": 360, "height": 740})
    ended.locator("#at-sizes summary").click()
    expect(ended.get_by_label("Values", exact=True)).to_be_visible()
    no_sideways_scroll(ended)
