"""The tab Words: a description becomes a module that the reader confirms; the second Ctrl-Enter runs it."""

import contextlib
import json
import re
import sqlite3

import pytest
from playwright.sync_api import expect

from engine.llm.rehearse.player import Player
from tests.browser.conftest import no_sideways_scroll


def test_words_become_a_module_that_is_confirmed_and_run(open_page, complaints, app):
    page = open_page("/", width=360, height=780, color_scheme="dark")
    page.get_by_role("tab", name="Words").click()
    expect(page.locator("#run")).to_be_disabled()
    field = page.get_by_label("What the module computes, in English")
    expect(page.locator("#words-examples button")).to_have_count(3)
    expect(page.locator("#words-pane")).to_contain_text("can go to a language model, if you press its button")

    # Empty, then words that no rule knows: each has its message, and nothing is written.
    field.press("Control+Enter")
    expect(page.locator("#words-error")).to_contain_text("There is no description yet.")
    field.fill("frobnicate <b>it</b>")
    field.press("Control+Enter")
    expect(page.locator("#words-error")).to_contain_text("no operation that the rules know")
    expect(page.locator("#words-error")).to_contain_text("“frobnicate <” (line 1, column 1)")
    assert page.locator("#words-error > b, #words-error > p b").count() == 0
    expect(page.locator("#words-pane")).to_be_visible()
    assert [c for c in complaints if "422" not in c] == []
    complaints.clear()

    # An example, with a word of one's own. Ctrl-Enter writes the module and starts nothing.
    page.locator("#words-examples button").first.click()
    expect(field).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.insert_text(", wibbly")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("tab", name="PyTorch module")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#editor")).to_contain_text("nn.Linear(1024, 4096, dtype=torch.float16)")
    report = page.locator("#words-report")
    expect(report).to_contain_text("a linear layer from 1024 to 4096")
    expect(report).to_contain_text("layers have a bias")
    expect(report).to_contain_text("“wibbly”")
    assert page.url == f"{app.url}/"
    no_sideways_scroll(page)

    # Back to the words, which are kept; and the module again.
    page.get_by_role("button", name="Change the words").click()
    expect(field).to_have_value(re.compile("wibbly$"))
    expect(report).to_be_hidden()
    page.get_by_role("tab", name="PyTorch module").click()
    expect(report).to_be_visible()
    page.locator("#editor .cm-content").focus()
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/c/"))
    assert not complaints, complaints


# ---- words that go to a model ----

WORDS = "frobnicate 512 into 768 for 64 rows"
OFFER = "#words-error .words-offer"


@pytest.fixture
def words(open_page):
    """The tab with words that no rule reads, after their refusal."""
    page = open_page("/", width=360, height=780)
    page.get_by_role("tab", name="Words").click()
    page.get_by_label("What the module computes, in English").fill(WORDS)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#words-error")).to_contain_text("no operation that the rules know")
    return page


@pytest.fixture
def asked(words):
    """Every request to the model's address, by method."""
    methods = []
    words.on("request", lambda r: methods.append(r.method) if "/api/words/model" in r.url else None)
    return methods


@pytest.fixture
def slow(rehearsal, monkeypatch):
    monkeypatch.setattr(rehearsal, "pace", 1.0)


def test_a_model_writes_after_a_press_and_the_reader_confirms(words, asked, rehearsal, complaints, app):
    page = words
    consent = page.locator(f"{OFFER} .consent")
    expect(consent).to_contain_text(rehearsal.url.split("/")[2])
    expect(consent).to_contain_text("for the model rehearsed, and nothing else is sent")
    assert not asked, "nothing is sent before the press"
    page.get_by_role("button", name="Let the model write it").click()
    expect(page.get_by_role("tab", name="PyTorch module")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#editor")).to_contain_text("return [512, 768]")
    report = page.locator("#words-report")
    expect(report).to_contain_text("Written by a rehearsal: rules, and no model.")
    expect(report).to_contain_text("Rehearsed: a linear layer from 512 to 768.")
    expect(report).to_contain_text("a rule read the sizes in their order")
    assert page.url == f"{app.url}/" and asked[0] == "POST"
    no_sideways_scroll(page)

    # The reader edits the module and runs it.
    page.locator("#editor .cm-content").focus()
    page.keyboard.press("Control+Home")
    page.keyboard.insert_text("# mine\n")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/c/"))
    assert [c for c in complaints if "422" not in c] == []


def test_words_that_the_rules_read_in_part_are_offered_to_the_model_too(open_page, complaints):
    page = open_page("/")
    page.get_by_role("tab", name="Words").click()
    page.get_by_label("What the module computes, in English").fill("linear layer, 128 in, 256 out, wibbly")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#editor")).to_contain_text("nn.Linear(128, 256")
    page.locator("#words-report .words-offer button", has_text="Let the model write it").click()
    expect(page.locator("#words-report")).to_contain_text("Written by a rehearsal")
    expect(page.locator("#editor")).to_contain_text("return [128, 256]")
    page.locator("#editor .cm-content").focus()
    page.keyboard.press("Control+z")
    expect(page.locator("#editor")).to_contain_text("nn.Linear(128, 256")
    assert not complaints


def test_words_that_the_rules_read_are_offered_to_nobody(open_page):
    page = open_page("/")
    page.get_by_role("tab", name="Words").click()
    page.locator("#words-examples button").first.click()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#words-report")).to_contain_text("Written from your words.")
    assert page.locator(".words-offer").count() == 0


def test_a_press_on_cancel_stops_the_model(words, asked, slow):
    page = words
    page.get_by_role("button", name="Let the model write it").click()
    expect(page.locator(f"{OFFER} .words-state")).to_contain_text("a rehearsal: rules, and no model writes …")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(f"{OFFER} .words-state")).to_have_text("Stopped. Nothing was written.")
    expect(page.locator("#words-error")).to_contain_text("no operation that the rules know")
    assert asked[-1] == "DELETE"
    expect(page.get_by_role("button", name="Let the model write it")).to_be_visible()


def test_a_model_that_writes_no_module_leaves_the_rules_message(words, rehearsal, monkeypatch):
    monkeypatch.setattr(rehearsal, "player", Player(skill=0.0))
    monkeypatch.setattr("engine.llm.rehearse.mistakes.OF_PROGRAMS", ("refusal",))
    page = words
    page.get_by_role("button", name="Let the model write it").click()
    expect(page.locator(f"{OFFER} .words-state")).to_contain_text("The model wrote no module that can be read.")
    expect(page.locator("#words-error")).to_contain_text("no operation that the rules know")
    expect(page.locator("#words-pane")).to_be_visible()


@pytest.fixture
def no_model(app):
    """The engine says that it has no model for words."""
    with contextlib.closing(sqlite3.connect(app.var / "playground.sqlite3", isolation_level=None)) as database:
        ((name, device),) = database.execute("SELECT id, device FROM playground_engine").fetchall()
        without = json.dumps(json.loads(device) | {"words": {"missing": "This engine has no model to ask."}})
        change = "UPDATE playground_engine SET device = ? WHERE id = ?"
        database.execute(change, (without, name))
        yield
        database.execute(change, (device, name))


def test_without_a_model_the_page_says_what_one_would_add(no_model, open_page):
    page = open_page("/")
    page.get_by_role("tab", name="Words").click()
    expect(page.locator("#words-help")).to_contain_text("With a language model set on the server, words beyond these")
    page.get_by_label("What the module computes, in English").fill(WORDS)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#words-error")).to_contain_text("no operation that the rules know")
    assert page.locator(".words-offer").count() == 0
