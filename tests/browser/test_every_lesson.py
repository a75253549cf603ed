"""Every lesson can be taken alone to its end, on a small screen, in each language: each question answered as `sol` or a
recording answers it."""

import re

import pytest
from playwright.sync_api import expect

from playground import learn
from tests.browser.conftest import no_sideways_scroll

pytestmark = pytest.mark.usefixtures("recordings")


def give(page, question) -> None:
    right = question.right.value()
    if question.kind == "number":
        page.locator(".question input").fill(str(right))
    for code in [right] if question.kind == "choice" else right if question.kind == "multi" else []:
        page.locator(f'.question input[value="{code}"]').check()
    page.locator(".question button[type=submit]").press("Enter")
    expect(page.locator('.outcome [data-code="right"]')).to_be_visible()


@pytest.mark.parametrize("language, scheme", [("en", "light"), ("ko", "dark")])
def test_every_lesson_is_walked_to_its_end(open_page, complaints, app, language, scheme):
    page = open_page("/learn", width=360, height=740, color_scheme=scheme)
    for lesson in learn.library(language):
        page.goto(f"{app.url}/learn/{lesson.slug}?lang={language}")
        for step in lesson.steps:
            expect(page.locator('.step-link[aria-current="step"]')).to_have_attribute("data-step", step.id)
            if step.question:
                give(page, step.question)
            for frame in page.locator(".session-pane iframe").all():
                expect(frame).to_have_attribute("src", re.compile(f"lang={language}"))
            no_sideways_scroll(page)
            if step is not lesson.steps[-1]:
                page.locator(".lesson-buttons .next").press("Enter")
        expect(page.locator(".lesson-end")).to_be_visible()
        expect(page.locator(".next-part")).to_have_count(0 if lesson.slug == "which-next" else 1)
        assert page.locator(".step-link.wrong").count() == 0
    page.goto(f"{app.url}/learn?lang={language}")
    expect(page.locator(".lesson-card progress")).to_have_count(len(learn.library()))
    for bar in page.locator(".lesson-card progress").all():
        assert bar.evaluate("(bar) => bar.value === bar.max")
    assert not complaints, complaints
