"""The test of a room as its people do it: new modules before and after the lessons, no verdict before, and the report
on the wall, with names or without."""

import contextlib
import csv
import io
import json
import re
import sqlite3

from playwright.sync_api import expect

from playground.rooms.exam import asked
from tests.browser.conftest import no_sideways_scroll
from tests.browser.test_rooms import join, opened


def right(app, code: str, seat: int, part: str, skill: str) -> str:
    """The right answer of a seat, as `sol` computes it."""
    with contextlib.closing(sqlite3.connect(app.var / "playground.sqlite3", timeout=30)) as database:
        (plan,) = database.execute("select plan from playground_room where code = ?", (code,)).fetchone()
    return str(asked.lesson(json.loads(plan), seat, part).step(skill).question.right.value())


def give(page, key: str, answer: str) -> None:
    item = page.locator(f'.quiz-item[data-step="{key}"]')
    if item.locator("input[type=radio]").count():
        item.locator(f'input[value="{answer}"]').check()
    else:
        item.locator(".number-row input").fill(answer)
    item.locator("button[type=submit]").press("Enter")
    expect(item.locator(".outcome .notice")).to_be_visible()


def test_the_wall_shows_what_moved_between_the_two_tests(app, open_page, complaints):
    wall = open_page("/w/new")
    wall.get_by_label("Ask about new modules before and after the lessons").check()
    wall.get_by_label("Which level to work at").check()  # its question has a program, which is wider than a phone
    opens = wall.get_by_role("button", name="Open the room")
    expect(opens).to_be_enabled()
    opens.press("Enter")
    code = wall.locator(".wall-join .code").text_content()
    expect(wall.locator("#moved-all")).to_have_text("Nobody has answered a question both times yet.")

    ada = join(open_page, code, "Ada", width=360, height=740, color_scheme="dark")
    expect(ada.locator(".quiz-item .lesson-code").first).to_contain_text("linear(x, w)")
    no_sideways_scroll(ada)
    module = ada.locator(".quiz-item .lesson-code").first.text_content()
    expect(ada.locator(".quiz-intro")).to_contain_text("Each question can be answered once. Nobody sees a verdict")
    expect(ada.get_by_role("button", name="Send the answer").first).to_be_enabled()
    give(ada, "before:limit", "12345")
    expect(ada.locator(".outcome").first).to_have_text(
        "Your answer is stored. The test before the lessons says no verdict."
    )
    wrong = {"memory": "matrix", "matrix": "memory"}[right(app, code, 1, "before", "binds")]
    give(ada, "before:binds", wrong)
    ada.get_by_role("button", name="Go on: What a roofline is").click()
    expect(ada.locator(".step-title")).to_have_text("Two speeds of a chip")
    ada.get_by_role("button", name="Test after").click()
    expect(ada.locator('[data-step="after:limit"] .lesson-code')).not_to_have_text(module)
    give(ada, "after:limit", right(app, code, 1, "after", "limit"))
    expect(ada.locator(".outcome").first).to_contain_text("Right.")
    give(ada, "after:binds", right(app, code, 1, "after", "binds"))
    no_sideways_scroll(ada)

    korean = open_page(f"/w/{code}?lang=ko")
    korean.get_by_label("별명").fill("지은")
    korean.keyboard.press("Enter")
    item = korean.locator(".quiz-item").first
    expect(item.locator(".ask")).to_contain_text("몇 ms가 걸립니까?")
    expect(item.locator(".lesson-code")).not_to_have_text(module)  # a neighbour has the other form
    give(korean, "before:limit", right(app, code, 2, "before", "limit"))
    expect(item.locator(".outcome")).to_contain_text("답을 저장했습니다.")

    expect(wall.locator("#moved-all")).to_contain_text("2 questions that were answered both times, 0 were right before")
    expect(wall.locator("#moved-table table").first.locator("tbody tr").first).to_contain_text(
        re.compile(r"How fast can a layer be\?\s*1\s*0\s*1\s*1\s*0")
    )
    expect(wall.locator("#moved-table table").nth(1).locator("tbody tr").first).to_contain_text(
        re.compile(r"Ada\s*2\s*0\s*2\s*2\s*0")
    )
    wall.locator("body").press("a")
    expect(wall.locator("#moved-table table").nth(1)).to_contain_text("Seat 1")
    with wall.expect_download() as download:
        wall.get_by_role("button", name="What moved (CSV)").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig"))))
    assert [(row["name"], row["gained"]) for row in rows if row["of"] == "seat"] == [("seat 1", "2"), ("seat 2", "0")]
    wall.locator("#questions summary").press("Enter")
    expect(wall.locator("#forms section")).to_have_count(3)
    expect(wall.locator("#forms section").first.locator(".lesson-code")).to_have_count(2)
    expect(wall.locator("#forms .right-answer").first).to_contain_text(re.compile(r"\d ms"))
    for width in (1440, 360):
        wall.set_viewport_size({"width": width, "height": 800})
        no_sideways_scroll(wall)
    assert not complaints, complaints


def test_a_paced_test_opens_question_by_question_and_keeps_what_is_typed(app, open_page, complaints):
    room = opened(app, title="Monday", lessons=["ridge-point"], test=True, paced=True)
    wall = open_page(room["teacher_url"].removeprefix(app.url))
    ada = join(open_page, room["code"], "Ada")
    items = ada.locator(".quiz-item")
    expect(items.nth(1)).to_contain_text("Wait for the teacher")
    field = items.first.locator(".number-row input")
    field.fill("171")
    wall.locator("body").press("n")
    expect(items.nth(1).locator("input[type=checkbox]")).to_have_count(4)
    expect(field).to_have_value("171")
    expect(ada.locator(".next-part")).to_have_count(0)
    expect(wall.locator("#now-text")).to_contain_text("Step 2 of 12")
    wall.locator("body").press("n")
    expect(ada.locator(".next-part")).to_have_text("Go on: The ridge point")
    assert not complaints, complaints
