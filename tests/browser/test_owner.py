"""What the owner may do, from the page: pause, go on, raise the budget, try a program, stop; and what a reader may."""

import re

from playwright.sync_api import expect


def control(session) -> str:
    return re.sub(r"^https?://[^/]+", "", session["control_url"])


def test_pause_resume_budget_try_stop(app, open_page, complaints):
    session = app.submit(trials=60, eps=0.0, window=60)
    page = open_page(control(session))
    page.wait_for_selector('#timeline .trial[data-state="judged"]', timeout=90_000)

    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Resume")
    expect(page.locator("#state")).to_contain_text("Paused")
    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Pause")

    page.locator("#raise").click()
    page.locator("#raise-to").fill("77")
    page.get_by_role("button", name="Raise", exact=True).click()
    expect(page.locator("#used")).to_contain_text("of 77")

    page.locator("#try").click()
    expect(page.locator("#dialog .cm-content")).to_contain_text("program ")
    page.get_by_role("button", name="Evaluate").click()
    expect(
        page.locator("#timeline .trial", has_text="yours").or_(page.locator("#timeline .why-failed")).first
    ).to_be_visible(timeout=90_000)
    events = app.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"]
    assert any(e["kind"] == "trial.proposed" and e["data"]["by"] == "owner" for e in events)

    page.locator("#stop").click()
    expect(page.locator("#dialog")).to_contain_text("Stop this session?")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    assert app.get(f"/api/sessions/{session['id']}")["state"] != "ended"
    page.locator("#stop").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#link-state")).not_to_have_text("Ended")
    page.locator("#stop").press("Enter")
    page.get_by_role("button", name="Stop the session").press("Enter")
    expect(page.locator("#link-state")).to_have_text("Ended", timeout=90_000)
    expect(page.locator("#state")).to_contain_text("Stopped")
    expect(page.locator("#owner")).to_be_hidden()
    assert not complaints, complaints


def test_a_reader_forks_and_disturbs_nobody(open_page, finished):
    page = open_page(f"{finished['view']}?trial=1")
    page.wait_for_selector('#timeline .trial[aria-current="true"]')
    page.locator("#fork").click()
    expect(page.locator("#editor .cm-content")).to_contain_text("program ")
    expect(page.get_by_role("tab", name="μCUTLASS program")).to_have_attribute("aria-selected", "true")


def test_the_view_link_carries_what_is_on_the_screen(open_page, finished):
    page = open_page(finished["control"], permissions=["clipboard-read", "clipboard-write"])
    page.locator('#timeline .trial[data-trial="2"]').click()
    page.locator("#copy-view").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith(f"{finished['view']}?trial=2")
    assert "/c/" not in copied
