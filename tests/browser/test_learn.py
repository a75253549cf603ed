"""A lesson alone to its end by keyboard, in both languages, at 360 px; a teacher's own lesson with two mistakes."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

pytestmark = pytest.mark.usefixtures("recordings")
OWN = """---
title: Mine
minutes: 5
---

```work small
x: f16[64, 4096] input
w: f16[4096, 4096] parameter
y = lineer(x, w)
return y
```

## predict bound: What binds it?

<b onclick=alert(1)>It</b> moves {{bytes(small, "f16") | bites}}.

```question choice
ask: What binds it on an H200?
option memory: The memory
option matrix: The matrix units
right: binds(small, "f16")
wrong matrix: Few rows do few FLOP.
hint: Divide.
```
"""


def drop(page, place: str, name: str, text: str) -> None:
    """Drop a file on a place of the page."""
    files = page.evaluate_handle(
        "([name, text]) => { const all = new DataTransfer(); all.items.add(new File([text], name)); return all; }",
        [name, text],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event(place, event, {"dataTransfer": files})


def step(page) -> str:
    return page.locator('.step-link[aria-current="step"]').get_attribute("data-step")


def test_a_lesson_alone_to_its_end(open_page, complaints):
    page = open_page("/learn", color_scheme="dark")
    assert page.locator(".lesson-card").count() >= 11
    page.get_by_role("link", name="What a roofline is").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".lesson-step")
    for name in ("the-work", "which"):
        page.keyboard.press("Alt+ArrowRight")
        assert step(page) == name
    page.get_by_role("button", name="Show a hint").press("Enter")
    expect(page.locator(".lesson-hints li")).to_have_count(1)
    page.locator("input[value=sum]").press("Space")
    page.get_by_role("button", name="Check").press("Enter")
    expect(page.locator('.outcome [data-code="wrong"]')).to_contain_text("waits for all numbers")
    page.locator("input[value=longer]").press("Space")
    page.keyboard.press("Enter")
    expect(page.locator('.outcome [data-code="right"]')).to_contain_text("0.139 ms")
    page.get_by_role("button", name="Next").press("Enter")
    assert step(page) == "roofline"
    page.keyboard.press("Alt+ArrowRight")
    slider = page.get_by_role("slider", name="Shape")
    words = page.locator(".figure-roofline .figure-words")
    expect(words).to_contain_text("memory-bound")
    for _ in range(9):
        slider.press("ArrowRight")
    expect(words).to_contain_text("compute-bound")
    before = words.inner_text()
    page.get_by_label("GPU").select_option("l40s")
    expect(words).not_to_have_text(before)
    page.keyboard.press("Alt+ArrowRight")
    page.locator("input[value=memory]").check()
    page.get_by_role("button", name="Check").click()
    expect(page.locator('.outcome [data-code="right"]')).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".yours")).to_contain_text("In the sum of both times")
    answer = page.get_by_label("How long does moving")
    for text, code in (("x", "unreadable"), ("0.0629", "wrong"), ("70 µs", "right")):
        answer.fill(text)
        answer.press("Enter")
        expect(page.locator(f'.outcome [data-code="{code}"]')).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".lesson-end")).to_be_visible()
    expect(page.get_by_role("link", name="Go on: The ridge point")).to_have_attribute(
        "href", "/learn/ridge-point?lang=en"
    )
    page.reload()
    assert step(page) == "summary" and page.locator(".step-link.right").count() == 3
    page.get_by_role("link", name="한국어").click()
    expect(page.locator("h1")).to_have_text("루프라인이란 무엇인가")
    assert step(page) == "summary" and page.locator(".step-link.right").count() == 3
    page.goto(page.url.split("/learn")[0] + "/learn?lang=ko")
    expect(page.locator("[data-slug=roofline] progress")).to_have_js_property("value", 3)
    assert not complaints, complaints


def test_every_kind_of_figure_at_360_px(open_page, complaints):
    page = open_page("/learn/tiles-and-waves?step=last-wave", width=360, height=740)
    for address, figure in (
        ("/learn/tiles-and-waves?step=last-wave", ".waves rect.idle"),
        ("/learn/ridge-point?step=chips", "svg.roofline"),
        ("/learn/memory-bound?step=gate-replay", ".bars.trials .bar.measured"),
        ("/learn/when-to-stop?step=rules", ".bar.skipped"),
        ("/learn/split-k?step=measured-split", ".bar.limit"),
        ("/learn/own?lang=ko", ".lesson-step"),
    ):
        page.goto(page.url.split("/learn")[0] + address)
        page.wait_for_selector(figure)
        no_sideways_scroll(page)
    expect(page.locator("#text")).to_have_value(re.compile("나의 첫 수업"))
    page.get_by_label("수업의 글").fill(OWN)
    korean = "y = lineer(...): 작업 블록에는 'lineer' 연산이 없습니다. 피연산자의 모양을 비교해 보십시오."
    expect(page.locator(".mistakes li").first).to_have_text(f"9번째 줄: {korean}")
    expect(page.locator("#verdict [lang=en]")).to_have_count(0)
    no_sideways_scroll(page)
    page.goto(page.url.split("/learn")[0] + "/learn/fused-epilogue?step=write-it")
    page.get_by_role("button", name="Predict its time").click()
    expect(page.locator(".predicted-time")).to_contain_text("µs")
    page.get_by_role("textbox", name="Program", exact=True).fill("program p(")
    page.get_by_role("textbox", name="Program", exact=True).press("Control+Enter")
    expect(page.locator(".program-result .notice.bad").first).to_contain_text("E0")
    assert not complaints, complaints


def test_a_teachers_own_lesson_with_two_mistakes(open_page, complaints):
    page = open_page("/learn/own")
    text = page.get_by_label("Text of the lesson")
    expect(page.locator("#verdict .good")).to_be_visible()
    page.locator("#file").set_input_files({"name": "mine.md", "mimeType": "text/markdown", "buffer": OWN.encode()})
    lines = page.locator(".mistakes button")
    expect(lines.first).to_have_text("Line 9")
    lines.first.press("Enter")
    assert text.evaluate("n => n.value.slice(n.selectionStart, n.selectionEnd)") == "y = lineer(x, w)"
    text.fill(OWN.replace("lineer", "linear"))
    expect(lines).to_have_count(1)
    expect(lines).to_have_text("Line 15")
    text.fill(OWN.replace("lineer", "linear").replace("| bites", "| bytes"))
    expect(page.locator("#verdict .good")).to_be_visible()
    expect(page.locator("#lesson .lesson-text")).to_contain_text("<b onclick=alert(1)>It</b> moves 34.6 MB.")
    page.locator("input[value=matrix]").check()
    page.get_by_role("button", name="Check").click()
    expect(page.locator('.outcome [data-code="wrong"]')).to_contain_text("Few rows do few FLOP.")
    page.reload()
    expect(page.locator("#lesson .lesson-text")).to_contain_text("34.6 MB")
    drop(page, ".intro", "other.md", OWN)
    expect(page.locator("#verdict strong")).to_have_text("3 mistakes")
    drop(page, "#lesson", "other.md", OWN.replace("lineer", "linear"))
    expect(page.locator("#verdict strong")).to_have_text("1 mistake")
    assert not complaints, complaints
