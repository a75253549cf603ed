"""Help on `?`: a dialog that lists the keys of the session's page, holds the focus, and closes with Esc."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

WITHIN = "document.getElementById('dialog').contains(document.activeElement)"


@pytest.fixture
def page(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    return page


def test_the_question_mark_opens_the_keys_and_escape_closes_them(page):
    page.keyboard.press("?")
    dialog = page.locator("#dialog")
    expect(dialog.get_by_role("heading", name="Keys", exact=True)).to_be_visible()
    for key in ("j", "k", "w", "?", "Esc"):
        expect(dialog.locator("kbd", has_text=key).first).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_the_focus_stays_within_the_dialog_and_returns(page):
    page.locator("#help").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(WITHIN)
    for key in ("Tab", "Tab", "Shift+Tab", "Shift+Tab", "Tab"):
        page.keyboard.press(key)
        # past its last control the focus is on the browser's own frame, never on the page behind
        assert page.evaluate(f"{WITHIN} || document.activeElement === document.body")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_focused()


def test_letters_act_only_where_nothing_is_typed(page):
    page.locator("#trials-find").focus()
    page.keyboard.type("?w")
    assert page.locator("#trials-find").input_value() == "?w"
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.locator("#what-if")).to_be_hidden()
    page.locator("#trials-find").fill("")
    page.locator("h1").click()
    page.keyboard.press("w")
    expect(page.locator("#what-if")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keys_fit_a_telephone(open_page, finished, complaints, scheme):
    page = open_page(finished["view"], 360, 740, color_scheme=scheme)
    page.locator("#help").click()
    expect(page.locator("#dialog .keys")).to_be_visible()
    box = page.locator("#dialog").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    no_sideways_scroll(page)
    assert not complaints
