"""What is wrong on the playground is told in one message, in the page's words, before anything is sent."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import MODULE, paste


@pytest.fixture
def page(open_page):
    return open_page("/")


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("trials", "0", "“Trials” takes a whole number from 1 to"),
        ("trials", "1.5", "“Trials” takes a whole number from 1 to"),
        ("trials", "99999", "“Trials” takes a whole number from 1 to"),
        ("eps", "-5", "“Stop within” takes a number from 0 to 10000 %. Write a percentage, for example 25"),
        ("eps", "1e9", "“Stop within” takes a number from 0 to 10000 %."),
        ("window", "0", "“or after” takes a whole number from 1 to 1000."),
    ],
)
def test_a_number_out_of_range_is_told_with_the_label_and_the_unit_of_its_field(page, field, text, message):
    """The API's message says 0.25 for 25%: who types that into a field in percent asks for a hundredth of it."""
    page.locator(f"#{field}").fill(text)
    page.locator("#run").click()
    expect(page.locator("#form-error")).to_contain_text(message)
    assert page.evaluate("document.activeElement.id") == field
    assert page.url.endswith("/")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#include <cuda.h>\n__global__ void f() {}\n", "This is CUDA C++. Paste the PyTorch module that it computes"),
        ('// adds\nextern "C" int run() { return 0; }\n', "This is CUDA C++."),
        ("a linear layer, 1024 in, 4096 out, then GELU", "These are words. Choose “Words” above"),
    ],
)
def test_a_text_that_is_no_module_is_told_where_it_belongs(page, text, message):
    paste(page, text)
    expect(page.locator("#check-state")).to_contain_text(message)
    expect(page.locator("#diagnostics")).to_be_hidden()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#form-error")).to_contain_text(message)


@pytest.mark.parametrize("text", ["import torch", "# a linear layer then gelu\nimport torch", "x = 1", "class Model"])
def test_python_that_is_being_typed_is_not_taken_for_words(page, text):
    paste(page, text)
    page.wait_for_timeout(100)
    expect(page.locator("#check-state")).to_have_text("")


def test_a_mistake_is_told_once_and_not_after_it_is_mended(page):
    """The pane of the limit repeated it, and kept it while the mended text was traced."""
    paste(page, MODULE.replace("self.linear(x)", "self.lin(x)"))
    mistake, limit = page.locator("#diagnostics .diagnostic"), page.locator("#limit")
    expect(mistake).to_contain_text("has no attribute 'lin'", timeout=90_000)
    assert mistake.inner_text().lower().count("line ") == 1, "the line is named once"
    expect(limit).to_contain_text("No limit yet: the module has a mistake in line")
    expect(limit).not_to_contain_text("attribute")
    page.route("**/api/limits", lambda route: None)  # an engine that does not answer
    paste(page, MODULE)
    expect(limit).not_to_contain_text("No limit yet")


def test_the_options_leave_no_empty_room_below_them(page):
    expect(page.locator("#limit .sentence")).to_be_visible(timeout=90_000)
    low = page.evaluate("""() => { scrollTo(0, 0); const of = (s) => document.querySelector(s).getBoundingClientRect();
      return of("#form").bottom - Math.max(of(".options").bottom, of("#limit").bottom) }""")
    assert low < 2


def test_the_first_visit_shows_a_recorded_search(recordings, open_page):
    page = open_page("/", width=360, height=740)
    seen = page.get_by_role("complementary", name="A recorded search")
    expect(seen).to_contain_text("measured")
    expect(seen).to_contain_text("of the speed of light")
    seen.get_by_role("link").click()
    page.wait_for_url("**/s/**")


def test_a_budget_that_is_not_raised_is_told_what_raises_it(app, open_page):
    session = app.submit(trials=30, eps=0.0, window=30)
    page = open_page(session["control_url"])
    page.get_by_role("button", name="Raise budget").click()
    for text in ("", "-5", "30", "40.5"):
        page.get_by_label("Trials in all (30 now)").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator("#dialog")).to_contain_text("“Trials in all” takes a whole number above 30.")


def test_a_room_without_a_lesson_is_told_what_to_tick(open_page):
    page = open_page("/w/new")
    page.get_by_label("Title").fill("Monday")
    page.locator("[name=lesson]:checked").uncheck()
    page.locator("#new-room [type=submit]").click()
    expect(page.locator("#error")).to_have_text("No lesson is chosen. Tick at least one, or choose a file of your own.")


def test_a_link_to_a_trial_that_is_not_there_says_so(open_page, finished):
    page = open_page(f"{finished['view']}?trial=99")
    expect(page.locator("#toast")).to_have_text("There is no trial 99 in this session.")


def test_an_export_without_the_server_is_told_in_words(page):
    page.get_by_role("tab", name="μCUTLASS program").click()
    page.locator("#examples button").first.click()
    page.route("**/api/export", lambda route: route.abort())
    page.get_by_role("button", name="Export").click()
    expect(page.locator("#toast")).to_contain_text("The server does not answer.")


def test_why_a_session_was_refused_stands_in_the_first_view_of_a_telephone(app, open_page):
    session = app.submit("import torch\nimport nothing_here\n")
    app.wait_ended(session["id"])
    page = open_page(f"/s/{session['id']}", 360, 740)
    expect(page.locator("#refusal-reason")).to_contain_text("nothing_here")
    box = page.locator("#refusal-reason").bounding_box()
    assert box["y"] + box["height"] <= 740
