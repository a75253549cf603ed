"""A long session: only rows in sight are in the document, its charts are drawn once, and its list sorts and filters.

What it costs is measured by tests/browser/long_session.py, not here, since the machine may be busy.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import timeline, until
from tests.browser.long_session import write

TRIALS, EVENTS, DRAWN = 150, 3000, 60
WHOLE = f"document.querySelector('#timeline .trial')?.getAttribute('aria-setsize') === '{TRIALS}'"  # it is drawn
CURRENT = '#timeline .trial[aria-current="true"]'


@pytest.fixture(scope="module")
def long(app):
    session, writer = write(app, TRIALS, EVENTS)
    assert writer.wait(120) == 0
    return f"/s/{session}"


@pytest.fixture
def page(open_page, long):
    page = open_page(long)
    until(page, WHOLE)
    return page


def in_sight(page, number: int) -> bool:
    """Whether the row of a trial lies in the list's box."""
    row, box = (page.locator(s).bounding_box() for s in (f'.trial[data-trial="{number}"]', "#timeline-scroll"))
    return box["y"] - 1 <= row["y"] and row["y"] + row["height"] <= box["y"] + box["height"] + 1


def test_rows_out_of_sight_are_not_in_the_document(page, complaints):
    assert len(timeline(page)) == DRAWN
    scroller = page.locator("#timeline-scroll")
    scroller.evaluate("n => n.scrollTop = 0")
    until(page, "document.querySelector('#timeline .trial').dataset.trial === '1'")
    scroller.evaluate("n => n.scrollTop = n.scrollHeight")
    until(page, f"[...document.querySelectorAll('#timeline .trial')].at(-1).dataset.trial === '{TRIALS}'")
    assert timeline(page) == list(range(TRIALS - DRAWN + 1, TRIALS + 1))
    expect(page.locator("#timeline .trial").last).to_have_attribute("aria-setsize", str(TRIALS))
    expect(page.locator("#timeline .trial").last).to_have_attribute("aria-posinset", str(TRIALS))
    assert not complaints


def test_keys_walk_to_rows_that_were_not_drawn(page):
    at = int(page.locator(CURRENT).get_attribute("data-trial"))
    for _ in range(DRAWN):
        page.keyboard.press("k")
    expect(page.locator(CURRENT)).to_have_attribute("data-trial", str(max(1, at - DRAWN)))
    assert in_sight(page, max(1, at - DRAWN)) and len(timeline(page)) == DRAWN
    page.keyboard.press("End")
    expect(page.locator(CURRENT)).to_have_attribute("data-trial", str(TRIALS))
    assert in_sight(page, TRIALS)


def test_the_charts_are_asked_for_once_the_log_is_loaded(open_page, app, long):
    page = open_page("/robots.txt")
    asked = []
    page.on("request", lambda r: asked.append(r.url) if "/api/figures/" in r.url else None)
    page.goto(app.url + long)
    page.wait_for_selector("#history-plot .main-svg", timeout=90_000)
    page.wait_for_timeout(1500)
    assert len(asked) == 1 and f"seq={EVENTS}" in asked[0]


def test_the_list_sorts_and_filters_and_the_address_says_how(page, open_page):
    page.locator("#trials-order").select_option("speedup")
    speeds = [float(s.removesuffix("×")) for s in page.locator("#timeline .trial .speed").all_text_contents()]
    assert len(speeds) == DRAWN and speeds == sorted(speeds, reverse=True)
    page.locator("#trials-show").select_option("failed")
    assert timeline(page) == list(range(5, TRIALS + 1, 5))
    page.locator("#trials-find").fill("candidate 135")
    until(page, "document.querySelectorAll('#timeline .trial').length === 1")
    assert timeline(page) == [135]
    assert "order=speedup&show=failed&find=candidate" in page.url
    again = open_page(page.url)
    until(again, "document.querySelectorAll('#timeline .trial').length === 1")
    again.locator("#trials-find").fill("no such trial")
    expect(again.locator("#timeline-empty")).to_contain_text("No trial fits")


def test_a_telephone_scrolls_the_page_and_draws_as_few_rows(open_page, long):
    page = open_page(f"{long}?order=speedup", 360, 740)
    until(page, WHOLE)
    assert page.evaluate("scrollY") == 0, "rows that come in above others move the page"
    page.locator("#trials-order").select_option("")
    page.evaluate("document.scrollingElement.scrollTop = document.scrollingElement.scrollHeight")
    until(page, f"[...document.querySelectorAll('#timeline .trial')].at(-1).dataset.trial === '{TRIALS}'")
    assert len(timeline(page)) == DRAWN
