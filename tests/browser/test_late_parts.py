"""Parts of a session's page that are loaded when they are shown: a failure is said in their place, and mended there."""

import re

import pytest
from playwright.sync_api import expect

NOT_LOADED = "This part of the page did not load. Reload the page."


@pytest.fixture
def page(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    return page


def test_a_diff_that_does_not_load_is_tried_again(page):
    page.route(re.compile("language/diff.*js"), lambda route: route.abort())
    page.locator("#diff-with").select_option(index=1)
    expect(page.locator("#code")).to_contain_text(NOT_LOADED)
    expect(page.locator("#program-code")).to_be_hidden()
    page.unroute_all()
    page.get_by_role("button", name="Try again").press("Enter")
    expect(page.locator("#code .cm-merge-b")).not_to_have_count(0)
    expect(page.get_by_text(NOT_LOADED)).to_be_hidden()


def test_without_the_server_no_trial_shows_the_program_of_another(page):
    page.route("**/blobs/**", lambda route: route.abort())
    page.locator('#timeline .trial[data-trial="1"]').click()
    expect(page.locator("#code h2")).to_have_text("Trial 1")
    expect(page.locator("#code")).to_contain_text("The text did not load: The server does not answer.")
    expect(page.locator("#program-code")).to_be_hidden()
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#program-code")).to_contain_text("program ")


def test_run_again_and_other_sizes_say_that_they_did_not_load(page):
    page.route(re.compile("sharing/(again|at_sizes).*js"), lambda route: route.abort())
    page.get_by_role("button", name="Run again here").click()
    expect(page.locator("#toast")).to_have_text(NOT_LOADED)
    page.locator("#at-sizes summary").click()
    expect(page.locator("#at-sizes")).to_contain_text(NOT_LOADED)
