"""The form for a new session says what the form of the candidates means on the chosen device, and the way out."""

import pytest
from playwright.sync_api import expect

from engine.strategies.forms import meanings
from tests.browser.conftest import LINEAR, no_sideways_scroll, until


def test_a_raw_kernel_on_a_modelled_device_is_warned_of_before_the_start(open_page, complaints):
    page = open_page("/")
    note = page.locator(".form-note")
    page.locator("input[name=strategy][value=cutegen]").check()
    expect(page.locator("#option-form")).to_have_value("auto")
    expect(note).to_have_text(
        "This device is modelled, so the form auto is programs here. On a GPU it is raw kernels."
    )  # fmt: skip
    page.locator("#option-form").select_option("kernel")
    expect(note).to_contain_text("a raw kernel gets no time on it")
    expect(note).to_contain_text("Choose the form program, or a GPU.")
    page.locator("input[name=strategy][value=flat]").check()
    expect(note).to_be_hidden()
    page.locator("#option-form").select_option("kernel")
    expect(note).to_be_visible()
    page.locator("input[name=strategy][value=planner]").check()
    expect(note).to_have_count(0)
    assert not complaints, complaints


def test_the_words_follow_the_device(open_page):
    page = open_page("/")
    script = """async ([form, device]) => {
      const { formNote } = await import("/static/js/playground/strategies.js");
      return formNote(form, device);
    }"""
    assert page.evaluate(script, ["kernel", "cuda"]) == page.evaluate(script, ["program", "modelled:h200"]) == ""
    assert "raw kernels on a GPU, and programs on a modelled" in page.evaluate(script, ["auto", "cuda"])


def test_the_session_says_which_form_it_takes(app, open_page):
    options = {"depths": 1, "fixes": 0, "regenerations": 0}
    session = app.submit(LINEAR, strategy="cutegen", trials=2, title="Auto", options=options, classes=["f16"])
    app.wait_ended(session["id"])
    page = open_page(f"/s/{session['id']}")
    expect(page.locator("#turns .form-note")).to_contain_text('The form "auto" is programs of the language here')
    expect(page.locator("#turns .evolving")).to_contain_text("Form: what evolves is a program of μCUTLASS")
    until(page, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_page_takes_the_meaning_of_a_form_from_the_server(app, open_page):
    page = open_page("/")
    assert page.evaluate("JSON.parse(document.getElementById('boot').textContent).forms") == meanings()
    other = meanings() | {"measured": meanings()["predicted"]}
    script = """async (forms) => {
      const { boot } = await import("/static/js/page.js");
      const { formNote } = await import("/static/js/playground/strategies.js");
      boot.forms = forms;
      return [formNote("auto", "cuda"), formNote("auto", "modelled:h200")];
    }"""
    assert page.evaluate(script, other) == ["", ""]


@pytest.mark.parametrize("width", [1280, 360])
def test_the_note_has_the_whole_width_of_the_options(open_page, width):
    page = open_page("/", width)
    page.locator("input[name=strategy][value=cutegen]").check()
    note, consent = page.locator(".form-note").bounding_box(), page.locator("#strategy-options .consent").bounding_box()
    assert note["width"] == consent["width"]
    no_sideways_scroll(page)
