"""Buttons that copy a trial's program, its generated code and its link."""

import urllib.request

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

PASTE = "navigator.clipboard.readText()"


@pytest.fixture
def page(open_page, finished):
    page = open_page(f"{finished['view']}?trial=2", permissions=["clipboard-read", "clipboard-write"])
    page.wait_for_selector("#generated-code .cm-line")
    return page


def blob(app, finished, sha: str) -> str:
    return urllib.request.urlopen(f"{app.url}/api/sessions/{finished['id']}/blobs/{sha}").read().decode()


def event(finished, kind: str, trial: int) -> dict:
    return next(e["data"] for e in finished["events"] if e["kind"] == kind and e["data"]["trial"] == trial)


def test_the_program_and_the_generated_code_are_copied_whole(app, page, finished):
    page.get_by_role("button", name="Copy the program").click()
    expect(page.locator("#toast")).to_contain_text("The program is copied.")
    assert page.evaluate(PASTE) == blob(app, finished, event(finished, "trial.checked", 2)["resolved"])
    tab = page.locator('.generated [role="tab"][aria-selected="true"]').get_attribute("data-tab")
    page.get_by_role("button", name="Copy the generated code").press("Enter")
    expect(page.locator("#toast")).to_contain_text("The generated code is copied.")
    assert page.evaluate(PASTE) == blob(app, finished, event(finished, "trial.generated", 2)["sources"][tab]["text"])


def test_the_link_of_a_trial_opens_that_trial(app, page, open_page, finished):
    page.locator('#timeline .trial[data-trial="3"]').click()
    page.get_by_role("button", name="Copy the link of this trial").click()
    expect(page.locator("#toast")).to_contain_text("The link of this trial is copied.")
    link = page.evaluate(PASTE)
    assert link == f"{app.url}{finished['view']}?trial=3"
    again = open_page(link)
    expect(again.locator('#timeline .trial[aria-current="true"]')).to_have_attribute("data-trial", "3")


def test_an_owner_copies_the_view_link_and_not_the_control_link(open_page, finished):
    page = open_page(finished["control"], permissions=["clipboard-read", "clipboard-write"])
    page.wait_for_selector("#generated-code .cm-line")
    page.get_by_role("button", name="Copy the link of this trial").click()
    expect(page.locator("#toast")).to_contain_text("is copied")
    assert f"{finished['view']}?trial=" in page.evaluate(PASTE)


def test_the_buttons_fit_a_telephone(open_page, finished, complaints):
    page = open_page(finished["view"], 360, 740)
    page.get_by_role("tab", name="Code").click()
    for name in ("Copy the program", "Copy the generated code", "Copy the link of this trial"):
        expect(page.get_by_role("button", name=name)).to_be_visible()
    no_sideways_scroll(page)
    assert not complaints
