"""A session led by a model shows each turn, what was decided by it, and what it cost; before it, what is sent where."""

import pytest

from tests.browser.conftest import MODULE, paste


@pytest.fixture(scope="module")
def rehearsed(app):
    session = app.submit(strategy="mucutlass", trials=2, title="Rehearsed", options={"iterations": 1, "attempts": 1})
    app.wait_ended(session["id"])
    return f"/s/{session['id']}"


def test_a_person_reads_what_is_sent_where_before_the_first_call(open_page, rehearsal):
    page = open_page("/")
    page.locator("input[value=planner]").check()
    assert page.locator(".consent").count() == 0
    page.locator("input[value=mucutlass]").check()
    text = page.locator(".consent").inner_text()
    assert rehearsal.url.split("/")[2] in text and "rehearsed" in text
    box = page.locator("#option-triage")
    assert box.is_checked()
    box.uncheck()
    page.wait_for_timeout(500)  # the draft is stored a moment after the last change
    assert page.evaluate("JSON.parse(Object.values(localStorage).find(v => v.includes('strategyOptions')))")


def test_the_session_shows_triage_hypotheses_tokens_and_the_transcript(open_page, rehearsed, complaints):
    page = open_page(rehearsed)
    page.locator("#turns h2").wait_for()
    assert page.locator("#turns h2").inner_text() == "Rehearsed turns"
    summary = page.locator(".turns-sum").inner_text()
    assert "tokens in" in summary and "No model wrote these replies" in summary and "after integrity checks" in summary
    table = page.locator(".turns-part", has=page.locator("summary", has_text="Triage"))
    assert table.locator("tbody tr").count() >= 2 and "exponent" in table.inner_text()
    assert table.locator("tr.rejected").count() == table.locator("tbody tr").count() - 2
    page.locator("summary", has_text="Transcript").click()
    turn = page.locator(".turn").nth(1)
    turn.locator("summary").click()
    turn.locator("pre").nth(1).wait_for()
    sent, received = turn.locator("pre").nth(0).inner_text(), turn.locator("pre").nth(1).inner_text()
    assert "# The speed-of-light report" in sent and "hypotheses" in received
    page.locator("summary", has_text="Hypotheses").click()
    page.locator("#turns .place").first.click()
    assert "trial=" in page.url
    assert not complaints


def test_the_page_says_that_the_planner_refined_the_best_program(app, open_page, complaints):
    options = {"attempts": 2, "refine": True}
    session = app.submit(strategy="flat", trials=4, title="Refined", options=options)
    app.wait_ended(session["id"])
    page = open_page(f"/s/{session['id']}")
    page.locator("#turns .refinement", has_text="The planner refines trial").wait_for()
    page.locator("#timeline .trial").nth(3).click()
    page.get_by_text("the planner refines trial").first.wait_for()
    assert not complaints


def test_a_session_without_a_model_has_no_such_section(open_page, finished):
    page = open_page(finished["view"])
    page.locator("#timeline .trial").first.wait_for()
    assert page.locator("#turns").is_hidden()


KERNEL = "import torch\n\n\ndef kernel(x, *rest):\n    return torch.nn.functional.leaky_relu(x)\n"


def test_a_session_starts_from_a_kernel_of_the_person(app, open_page):
    page = open_page("/")
    paste(page, MODULE)
    page.locator("#kernel-first summary").click()
    page.locator("#kernel").fill("nothing that runs")
    page.locator("#run").click()
    page.locator("#form-error:not([hidden])").wait_for()
    assert "Your kernel" in page.locator("#form-error").inner_text()
    page.locator("#kernel").fill(KERNEL)
    page.locator("#run").click()
    page.locator("#timeline .trial").first.wait_for(timeout=90_000)
    assert "kernel" in page.locator("#timeline .trial").first.inner_text()
    page.get_by_role("button", name="Stop").click()
