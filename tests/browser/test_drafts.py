"""A draft a tab: two tabs do not write over each other, and the text that was edited last outlives its tab."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import paste, until

TEXT = "#editor .cm-content"
STORED = "localStorage.getItem('ucutlass.draft')?.includes({text!r})"


@pytest.fixture
def tab(app, browser):
    """tab(path="/"): a page of one browser, in a tab of its own."""
    context = browser.new_context(reduced_motion="reduce")

    def opened(path="/"):
        page = context.new_page()
        page.goto(app.url + path)
        until(page, "!document.querySelector('[data-late]')")
        return page

    yield opened
    context.close()


def write(page, text):
    paste(page, text)
    until(page, STORED.format(text=text))


def test_each_tab_keeps_its_own_draft_and_a_new_one_begins_with_the_newest(tab):
    one, other = tab(), tab()
    write(one, "x = 1  # of one tab")
    write(other, "x = 2  # of the other tab")
    for page, text in ((one, "x = 1  # of one tab"), (other, "x = 2  # of the other tab")):
        page.reload()
        expect(page.locator(TEXT)).to_have_text(text)
    one.close()
    other.close()
    expect(tab().locator(TEXT)).to_have_text("x = 2  # of the other tab")


def test_a_tab_that_is_only_read_writes_over_nothing(tab):
    one = tab()
    write(one, "x = 1  # older")
    other = tab()
    write(other, "x = 2  # newest")
    one.reload()
    one.get_by_role("tab", name="μCUTLASS program").click()  # a choice, not a text
    until(one, STORED.format(text='"kind":"program"'))
    other.close()
    new = tab()
    new.get_by_role("tab", name="PyTorch module").click()
    expect(new.locator(TEXT)).to_have_text("x = 2  # newest")


def test_what_was_typed_just_before_a_tab_is_closed_stays(tab):
    one = tab()
    paste(one, "x = 3  # the last words")
    one.close(run_before_unload=True)
    expect(tab().locator(TEXT)).to_have_text("x = 3  # the last words")


def test_a_fork_leaves_the_draft_until_it_is_edited_and_keeps_its_edits(tab, finished):
    page = tab()
    write(page, "x = 1  # mine")
    page.goto(page.url.rstrip("/") + f"{finished['view']}/fork")
    expect(page.locator(TEXT)).to_contain_text("class Model")
    expect(tab().locator(TEXT)).to_have_text("x = 1  # mine")
    page.locator(TEXT).click()
    page.keyboard.press("ControlOrMeta+Home")
    page.keyboard.insert_text("# an edit of the fork\n")
    until(page, STORED.format(text="# an edit of the fork"))
    page.reload()
    expect(page.locator(TEXT)).to_contain_text("# an edit of the fork")
    page.goto(page.url)
    expect(page.locator(TEXT)).to_contain_text("class Model")
    expect(page.locator(TEXT)).not_to_contain_text("# an edit of the fork")
