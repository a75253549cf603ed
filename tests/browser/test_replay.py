"""A finished session is scrubbed through with the same page: earlier events, earlier view."""

from playwright.sync_api import expect

from tests.browser.conftest import timeline


def scrub(page, seq: int) -> None:
    page.locator("#scrub").evaluate("(n, v) => { n.value = v; n.dispatchEvent(new Event('input')); }", seq)


def test_the_slider_shows_the_session_as_it_was(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    whole = timeline(page)
    third = [e for e in finished["events"] if e["kind"] == "trial.proposed"][2]
    scrub(page, third["seq"])
    expect(page.locator("#timeline .trial")).to_have_count(3)
    expect(page.locator('#timeline .trial[data-trial="3"]')).to_have_attribute("data-state", "running")
    scrub(page, 1)
    expect(page.locator("#timeline .trial")).to_have_count(0)
    scrub(page, len(finished["events"]))
    expect(page.locator("#timeline .trial")).to_have_count(len(whole))


def test_play_goes_to_the_end_by_itself(open_page, finished):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    scrub(page, len(finished["events"]) - 6)
    page.locator("#play").click()
    expect(page.locator("#play")).to_contain_text("Replay", timeout=30_000)
    assert page.locator("#scrub").input_value() == str(len(finished["events"]))
