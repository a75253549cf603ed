"""On a telephone the head of a page has room for few names, yet leads to every page."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll


def names(page) -> set[str]:
    return set(page.locator("header.site nav a:visible").all_inner_texts())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_leads_to_the_pages_of_a_wide_one(open_page, complaints, scheme):
    wide = names(open_page("/w"))
    page = open_page("/w", 360, 740, color_scheme=scheme)
    more = page.locator("header.site summary")
    more.focus()
    page.keyboard.press("Enter")
    assert names(page) == wide
    no_sideways_scroll(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("My sessions")
    assert not complaints


def test_the_menu_of_pages_names_the_one_shown_and_closes_at_escape(open_page):
    page = open_page("/language/tile", 360, 740)
    menu, summary = page.locator("header.site details"), page.locator("header.site summary")
    summary.click()
    expect(menu.locator("[aria-current=page]")).to_have_text("Language")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(summary).to_be_focused()
    summary.click()
    page.locator("main").click(position={"x": 5, "y": 300})
    expect(menu).not_to_have_attribute("open", "")
