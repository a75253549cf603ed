"""Recorded sessions are listed with where their numbers are from, filtered, and replayed through the session page."""

import json
import re
import urllib.request

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll, timeline


def recorded(app, session_id: str, events: list[dict], folder) -> None:
    """Save a finished session as a recording, from what the API gives anybody, and load it."""
    blobs = {}
    digests = {e["data"]["digest"] for e in events if e["data"].get("digest")}  # of verbs: they name no blob
    for name in set(re.findall(r'"([0-9a-f]{64})"', json.dumps(events))) - digests:
        with urllib.request.urlopen(f"{app.url}/api/sessions/{session_id}/blobs/{name}") as reply:
            blobs[name] = reply.read().decode()
    lines = [*map(json.dumps, events), json.dumps({"blobs": blobs})]
    (folder / "linear.jsonl").write_text("\n".join(lines) + "\n")
    app.manage("load_recordings", str(folder), "-v", "0")


@pytest.fixture(scope="module")
def gallery(app, finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    recorded(app, finished["id"], finished["events"], folder)
    yield
    (folder / "linear.jsonl").unlink()
    app.manage("load_recordings", str(folder), "-v", "0")


def test_a_card_says_what_was_reached_and_where(open_page, gallery, complaints):
    page = open_page("/gallery")
    card = page.locator("#cards .card:visible")
    expect(card).to_have_count(1)
    expect(card.locator(".badge")).to_have_text("predicted")
    expect(card).to_contain_text(re.compile(r"\d\.\d\d×"))
    expect(card).to_contain_text("over PyTorch eager")
    for fact in ("Device", "Date", "Command", "H200"):
        expect(card).to_contain_text(fact)
    assert not complaints, complaints


def test_filters_narrow_the_cards(open_page, gallery):
    page = open_page("/gallery")
    page.locator("#filter-kind").select_option("measured")
    expect(page.locator("#cards .card:visible")).to_have_count(0)
    expect(page.locator("#filter-count")).to_have_text("None fits the filter.")
    page.locator("#filter-kind").select_option("")
    page.locator("#filter-text").fill("LINEAR")
    expect(page.locator("#cards .card:visible")).to_have_count(1)


def test_a_card_opens_the_replay(open_page, gallery, finished):
    page = open_page("/gallery")
    page.locator("#cards .card a").click()
    expect(page.locator("#replay")).to_be_visible()
    expect(page.locator("#owner")).to_be_hidden()
    assert timeline(page) == [e["data"]["trial"] for e in finished["events"] if e["kind"] == "trial.proposed"]


def test_what_is_worth_seeing_comes_first_and_opens_with_the_keyboard(open_page, recordings, complaints):
    page = open_page("/gallery", width=360, height=740)
    first = page.locator(".worth .card").first
    expect(first).to_contain_text(re.compile(r"\d\.\d\d×\s+over PyTorch eager \(TF32\) · TF32 · "))
    expect(first.locator(".badge")).to_have_text("measured")
    no_sideways_scroll(page)
    tops = [page.locator(name).first.bounding_box()["y"] for name in (".worth", "#suite", "#cards")]
    assert tops == sorted(tops)
    title = first.locator("a").inner_text()
    first.locator("a").press("Enter")
    expect(page.locator("#title")).to_have_text(title)
    assert not complaints, complaints


def test_on_a_phone_ours_stand_below_what_the_studies_published(open_page, complaints):
    page = open_page("/gallery", width=360, height=800)
    boxes = page.locator("#studies tbody tr").evaluate_all(
        """rows => rows.map((row) => ["Published", "Ours"].map((head) => {
          const { top, right } = row.querySelector(`td[data-head="${head}"]`).getBoundingClientRect();
          return { top, right };
        }))"""
    )
    assert len(boxes) == 4
    for published, ours in boxes:
        assert ours["top"] > published["top"] and ours["right"] <= 360, (published, ours)
    assert not complaints
