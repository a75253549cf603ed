"""A session is scrubbed through with the same page, after its end or while it runs: earlier events, earlier view."""

from playwright.sync_api import expect

from tests.browser.conftest import timeline, until


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
    expect(page.locator("#play")).to_contain_text("Replay", timeout=90_000)
    assert page.locator("#scrub").input_value() == str(len(finished["events"]))


def test_the_past_of_a_session_that_runs_is_shown_while_it_goes_on(app, open_page, complaints):
    session = app.submit(trials=60, eps=0.0, window=60)
    page = open_page(f"/s/{session['id']}?eps=3&w=24")
    page.wait_for_selector('#timeline .trial[data-trial="3"]', timeout=90_000)
    scrub(page, 5)
    expect(page.locator("#timeline .trial")).to_have_count(0)
    expect(page.locator("#what-if")).to_contain_text("once a trial has ended")
    expect(page.locator("#back-live")).to_be_visible()
    most = int(page.locator("#scrub").get_attribute("max"))
    until(page, f"Number(document.getElementById('scrub').max) > {most}", 60)  # the session went on
    assert page.locator("#scrub").input_value() == "5"
    expect(page.locator("#timeline .trial")).to_have_count(0)
    page.locator("#back-live").press("Enter")
    expect(page.locator("#timeline .trial")).not_to_have_count(0)
    expect(page.locator("#what-if .stairs")).not_to_have_count(0)
    expect(page.locator("#back-live")).to_be_hidden()
    until(page, "document.getElementById('scrub').value === document.getElementById('scrub').max")
    assert not complaints


def test_the_address_holds_the_event_that_is_shown(open_page, finished, app, complaints):
    page = open_page(finished["view"])
    page.wait_for_selector("#replay:not([hidden])")
    third = [e for e in finished["events"] if e["kind"] == "trial.proposed"][2]["seq"]
    scrub(page, third)
    until(page, f"location.search === '?at={third}'")
    page.reload()
    expect(page.locator("#timeline .trial")).to_have_count(3)
    assert page.locator("#scrub").input_value() == str(third)
    scrub(page, len(finished["events"]))
    until(page, "location.search === ''")
    for wrong in ("?at=99999", "?at=x", "?at=-1"):
        page.goto(app.url + finished["view"] + wrong)
        expect(page.locator("#state")).to_contain_text("Ended")
        expect(page.locator("#scrub")).to_have_value(str(len(finished["events"])))
    assert not complaints, complaints
