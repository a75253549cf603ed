"""The page of `two_stage`: template, limits, search, effects, spread and feedback, live and replayed from the log."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.walk import walking

WRONG = {
    "text": "program {n}(", "cls": "f16", "change": "no program", "inequalities": [],
    "parameters": [{"name": "n", "values": [1, 2], "default": 1}],
}  # fmt: skip


@pytest.fixture(scope="module")
def study(app):
    """A session of two rounds."""
    options = {"rounds": 2, "evaluations": 3, "screened": 1}
    session = app.submit(strategy="two_stage", trials=9, classes=["f16"], title="Two stages", options=options)
    app.wait_ended(session["id"])
    return session


def part(page, title):
    """One part of the strategy's section, opened."""
    details = page.locator(".two-stage .turns-part", has=page.locator("summary", has_text=title))
    if not details.evaluate("d => d.open"):
        details.locator("summary").click()
    return details


def test_a_reader_finds_every_part_of_the_study_or_why_it_is_empty(study, open_page, complaints):
    page = open_page(f"/s/{study['id']}")
    page.locator(".two-stage").wait_for()
    assert "arXiv 2601.12698" in page.locator(".two-stage > p").inner_text()
    page.get_by_role("button", name="Round 1").click()
    template = part(page, "Template")
    assert template.locator("mark", has_text="{tile_m}").count() == 1 and "right" in template.inner_text()
    limits = part(page, "Limits").inner_text()
    assert "keep every limit" in limits and "shared_block" in limits and "template" in limits
    search = part(page, "Search")
    assert search.locator("tbody tr").count() == 3 and "used its 3 evaluations" in search.inner_text()
    effects = part(page, "Effects").inner_text()
    assert re.search("Best: (tile_m|the default instance)", effects) and "evaluated" in effects
    assert "a prediction does not vary" in part(page, "Spread").inner_text()
    assert "The plan answers: template" in part(page, "Back to the plan").inner_text()
    shapes = part(page, "Group of shapes")
    assert "one shape of its module" in shapes.inner_text()
    assert shapes.get_by_role("link", name="the gallery").get_attribute("href") == "/gallery#shapes"
    search.get_by_role("button", name="trial 2").click()
    assert "trial=2" in page.url
    page.get_by_role("button", name="Round 2").click()
    assert "Nothing went back" in part(page, "Back to the plan").inner_text()
    assert not complaints


def test_a_preset_template_shows_its_parts_although_no_model_is_asked(app, open_page, complaints):
    preset = {"preset": json.dumps({"template": WRONG, "configurations": [{"n": 2}]})}
    session = app.submit(strategy="two_stage", trials=3, classes=["f16"], title="Preset", options=preset)
    ended = app.wait_ended(session["id"])
    reason = ended["summary"]["end"]["reason"]
    assert "expected a name. No trial gave a correct result." in reason, reason
    page = open_page(f"/s/{session['id']}", width=360)
    expect(page.locator("#turns h2")).to_have_text("Strategy")
    expect(page.locator("#turns .turns-sum").first).to_have_text("No model was asked in this session.")
    assert "not right: trial 1 failed at check" in part(page, "Template").inner_text()
    assert "no template was right, so nothing was tuned" in part(page, "Limits").inner_text()
    assert page.locator("#turns summary", has_text="Transcript").count() == 0 and not complaints


def test_a_copied_preset_starts_a_session_that_asks_no_model(app, study, open_page, complaints):
    page = open_page(f"/s/{study['id']}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Round 1").click()
    part(page, "Template").get_by_role("button", name="Copy the template and its configurations").click()
    expect(page.locator("#toast")).to_contain_text("Paste it into the option Preset")
    preset = page.evaluate("navigator.clipboard.readText()")
    tried = json.loads(preset)["configurations"]
    assert len(tried) == 3 and set(tried[0]) == {p["name"] for p in json.loads(preset)["template"]["parameters"]}

    page.goto(f"{app.url}/")
    page.locator("input[value=two_stage]").check()
    page.get_by_text("What the options mean").click()
    expect(page.locator("#strategy-options dl")).to_contain_text("a round's search evaluates at most")
    page.locator("#option-preset").fill(preset)
    assert page.locator("#option-preset").input_value() == preset  # longer than a line, and whole
    again = app.submit(strategy="two_stage", trials=6, classes=["f16"], title="Again", options={"preset": preset})
    app.wait_ended(again["id"])
    log = app.get(f"/api/sessions/{again['id']}/events?limit=2000")["events"]
    shown = [e["data"]["facts"] for e in log if e["kind"] == "script.shown" and e["data"]["topic"] == "search"]
    assert [facts["settings"] for facts in shown] == tried and not [e for e in log if e["kind"] == "turn.asked"]
    assert not complaints


def test_its_parts_fit_both_themes_and_a_phone_and_their_tables_take_the_keyboard(app, study, browser):
    with walking(browser) as walk:
        walk.page.goto(f"{app.url}/s/{study['id']}")
        walk.page.locator(".two-stage").wait_for()
        walk.page.evaluate("document.querySelectorAll('#turns .turns-part').forEach((d) => (d.open = true))")
        walk.fits()
        assert not walk.complained()
