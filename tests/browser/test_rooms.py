"""A workshop as its people do it: a room opened, three seats joined, a lesson answered, the wall seen to move, a seat
projected, paused and reset; homework with a deadline; in Korean; by keyboard, at 360 px, in both themes."""

import contextlib
import json
import re
import sqlite3
import urllib.request
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from playwright.sync_api import expect

from playground import learn
from tests.browser.conftest import no_sideways_scroll
from tests.browser.test_learn import drop
from tests.browser.test_manners import luminance

NICKNAME = '<b>Ada</b>"=1'


def opened(app, **fields) -> dict[str, str]:
    """A new room, as the API gives it."""
    asked = urllib.request.Request(
        f"{app.url}/api/rooms", json.dumps(fields).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=20) as reply:
        return json.load(reply)


def join(open_page, code: str, name: str, **how):
    page = open_page(f"/w/{code}", **how)
    page.get_by_label("Nickname").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator("#room")).to_be_visible()
    expect(page.locator("#link-state")).to_have_text("Live")
    return page


def tile(wall, number: int):
    return wall.locator(f'[data-seat="{number}"]')


def pick(page, value: str) -> None:
    page.locator(f'.lesson-step input[value="{value}"]').check()
    page.locator(".lesson-step").get_by_role("button", name="Check").click()


def test_a_room_from_its_opening_to_its_end(app, open_page, complaints):
    # the teacher opens a paced room, by keyboard
    wall = open_page("/w")
    wall.get_by_role("link", name="Open a room").press("Enter")
    wall.get_by_label("Title").fill("Monday")
    wall.get_by_label("I open each step for all").check()
    wall.get_by_label("Trials of one session at most").fill("3")
    opens = wall.get_by_role("button", name="Open the room")
    expect(opens).to_be_enabled()  # it waits for its script
    opens.press("Enter")
    expect(wall.locator("#wall")).to_be_visible()
    code = wall.locator(".wall-join .code").text_content()
    assert wall.url == f"{app.url}/w/{code}/wall", "the teacher's token leaves the address"
    expect(wall.locator(".qr svg")).to_be_visible()

    # three students join: one types the code, one has a dark theme on a small screen
    ada = open_page("/w")
    ada.get_by_label("Code of the room").fill(f"{code[:3].lower()} {code[3:].lower()}")
    ada.keyboard.press("Enter")
    ada.get_by_label("Nickname").fill(NICKNAME)
    ada.keyboard.press("Enter")
    expect(ada.locator("#who")).to_have_text(NICKNAME)
    grace = join(open_page, code, "Grace", width=360, height=740, color_scheme="dark")
    assert luminance(grace) < 0.3
    lin = join(open_page, code, "Lin")
    expect(tile(wall, 1).locator(".tile-name")).to_have_text(NICKNAME)
    expect(wall.locator("#present")).to_contain_text("3 here of 3 joined")

    # the teacher's pace
    expect(grace.locator(".step-link").nth(2)).to_be_disabled()
    for _ in range(2):
        place = wall.locator("#now-text").text_content()
        wall.locator("body").press("n")
        expect(wall.locator("#now-text")).not_to_have_text(place)
    for page in (ada, grace, lin):
        expect(page.locator(".step-link").nth(2)).to_be_enabled()
        page.locator('[data-step="which"]').press("Enter")
    no_sideways_scroll(grace)
    pick(grace, "sum")
    expect(grace.locator(".outcome")).to_contain_text("The sum holds for a kernel that waits")
    expect(tile(wall, 2).locator(".mark.wrong")).to_have_count(1)
    pick(grace, "longer")
    expect(tile(wall, 2).locator(".mark.right")).to_have_count(1)
    expect(wall.locator("#now-text")).to_contain_text("1 of 3 answered, 1 right")
    wall.locator("body").press("h")
    expect(lin.locator("#hints")).to_contain_text("parcel")

    # paused, and on again
    wall.locator("body").press("p")
    expect(ada.locator("#state")).to_contain_text("paused")
    pick(ada, "sum")
    expect(ada.locator(".outcome")).to_contain_text("The teacher paused the room.")
    wall.locator("body").press("p")
    expect(ada.locator("#state")).to_be_hidden()

    # a session on the seat's account, projected
    assert app.get(f"/api/rooms/{code}")["trials"] == 3
    lin.locator("#run summary").press("Enter")
    lin.get_by_role("button", name="Run").click()
    expect(lin.locator("#my-session a")).to_be_visible()
    expect(tile(wall, 3).locator(".tile-gap")).to_be_visible()
    tile(wall, 3).get_by_role("button", name="Project").press("Enter")
    frame = wall.frame_locator("#projected iframe")
    expect(frame.locator("#title")).to_be_visible()
    expect(frame.locator("header.site")).to_be_hidden()
    wall.locator("body").press("a")
    expect(tile(wall, 1).locator(".tile-name")).to_have_text("Seat 1")
    expect(wall.locator("#projected h2")).to_have_text("On the projector: Seat 3")

    # a seat is reset; another browser takes it again
    tile(wall, 2).get_by_role("button", name="Reset").click()
    wall.get_by_role("button", name="Keep the answers").press("Enter")
    expect(grace.locator("#join-error")).to_contain_text("reset this seat")
    again = join(open_page, code, "grace")
    expect(again.locator('.step-link[data-step="which"]')).to_have_class(re.compile("right"))

    # a browser without the token sees nothing; the wall on a small dark screen
    stranger = open_page(f"/w/{code}/wall")
    expect(stranger.get_by_role("heading", name="This is a teacher's wall")).to_be_visible()
    assert "Grace" not in stranger.content()
    wall.set_viewport_size({"width": 360, "height": 740})
    wall.emulate_media(color_scheme="dark")
    assert luminance(wall) < 0.3
    no_sideways_scroll(wall)

    # the results, the end and the deletion
    wall.locator("body").press("a")  # with names
    with wall.expect_download() as download:
        wall.get_by_role("button", name="Results (CSV)").click()
    text = download.value.path().read_text(encoding="utf-8-sig")
    assert "'=1" not in text and "Grace" in text.title() and '"right"' in text
    wall.get_by_role("button", name="End…").click()
    wall.get_by_role("button", name="End the room").click()
    expect(again.locator("#state")).to_contain_text("ended this room")
    wall.get_by_role("button", name="Delete…").click()
    wall.get_by_label(f"Type the code {code}").fill(code)
    wall.get_by_role("button", name="Delete everything").click()
    expect(wall).to_have_url(f"{app.url}/w")
    expect(again.locator("#error")).to_contain_text("deleted")
    ours = [c for c in complaints if "status of 4" not in c]  # refused requests, which the page explains
    assert not ours, ours


def test_three_seats_finish_a_lesson_and_the_wall_moves(app, open_page, complaints, recordings):
    """By keyboard alone: each student answers every question of a lesson, one of them wrongly at first."""
    lesson = learn.lesson("tiles-and-waves")
    asked = [step for step in lesson.steps if step.question]
    room = opened(app, title="Monday", lessons=[lesson.slug], trials=1)
    wall = open_page(room["teacher_url"].removeprefix(app.url))
    names = {"Ada": {}, "Grace": {"width": 360, "height": 740, "color_scheme": "dark"}, "Lin": {}}
    pages = [join(open_page, room["code"], name, **how) for name, how in names.items()]
    for step in lesson.steps:
        for page in pages:
            expect(page.locator('.step-link[aria-current="step"]')).to_have_attribute("data-step", step.id)
            if step.question:
                question = page.locator(".question")
                right = step.question.right.value()
                if page is pages[1] and step is asked[0]:
                    question.locator("input").fill("12345")
                    page.keyboard.press("Enter")
                    expect(question.locator('[data-code="wrong"]')).to_be_visible()
                if step.question.kind == "number":
                    question.locator("input").fill(str(right))
                else:
                    question.locator(f'input[value="{right}"]').press("Space")
                page.keyboard.press("Enter")
                expect(question.locator('[data-code="right"]')).to_be_visible()
                expect(page.locator("#tally")).to_contain_text("How the room answered")
                no_sideways_scroll(page)
            if step is not lesson.steps[-1]:
                page.locator(".lesson-buttons .next").press("Enter")
    for page in pages:
        expect(page.locator(".lesson-end")).to_be_visible()
        expect(page.locator("#sections [aria-current]")).to_contain_text(f"{len(asked)} of {len(asked)}")
    for number in (1, 2, 3):
        expect(tile(wall, number).locator(".mark.right")).to_have_count(len(asked))
    expect(tile(wall, 2).locator(".mark").first).to_have_attribute("title", re.compile("right, 2 tries"))

    # what the room answered: hidden on the wall until the teacher shows it, and hidden again at the next step
    for page in pages:
        page.locator(f'[data-step="{asked[0].id}"]').press("Enter")
    expect(wall.locator("#now-title")).to_have_text(asked[0].title)
    expect(wall.locator("#tally")).to_be_hidden()
    wall.locator("body").press("r")
    expect(wall.locator("#tally li")).to_have_count(2)
    expect(wall.locator("#tally li.right")).to_contain_text(re.compile(r"256 tiles\s*2 of 3"))
    expect(wall.locator("#tally")).to_contain_text("12345 tiles")
    wall.set_viewport_size({"width": 360, "height": 740})
    no_sideways_scroll(wall)
    for page in pages:
        page.locator(f'[data-step="{asked[1].id}"]').press("Enter")
    expect(wall.locator("#tally")).to_be_hidden()
    assert not complaints, complaints


def test_the_teacher_reads_a_seats_answers_in_words(app, open_page, complaints):
    room = opened(app, title="Monday", lessons=["roofline"], test=True)
    wall = open_page(room["teacher_url"].removeprefix(app.url))
    ada = join(open_page, room["code"], "Ada")
    expect(tile(wall, 1)).to_be_visible()
    tile(wall, 1).get_by_role("button", name="Project").click()
    expect(wall.locator("#projected")).to_contain_text("This seat has no answer yet.")
    ada.locator(".next-part").click()
    ada.locator('[data-step="which"]').click()
    for value in ("sum", "longer"):
        pick(ada, value)
        expect(ada.locator(f'.outcome [data-code="{"right" if value == "longer" else "wrong"}"]')).to_be_visible()
    projected = wall.locator("#projected .seat-answers")
    expect(projected).to_contain_text("In the longer of both times, 0.139 ms – right, 2 tries")
    expect(projected).to_contain_text("First answer: In the sum of both times")
    tile(wall, 1).get_by_role("button", name="Answers").press("Enter")
    dialog = wall.locator("#dialog")
    expect(dialog.get_by_role("heading", name="Answers of Ada")).to_be_visible()
    expect(dialog.locator("dd")).to_have_count(1)
    wall.set_viewport_size({"width": 360, "height": 740})
    no_sideways_scroll(wall)
    dialog.get_by_role("button", name="Close").press("Enter")
    expect(dialog).to_be_hidden()
    assert not complaints, complaints


def test_a_student_leaves_the_seat_on_purpose_alone(app, open_page, complaints):
    room = opened(app, title="Monday", lessons=["roofline"])
    ada = join(open_page, room["code"], "Ada", width=360, height=740, color_scheme="dark")
    leaving = ada.locator("#leaving")
    for key, name in (("Escape", ""), ("Enter", "Stay")):
        ada.get_by_role("button", name="Leave the seat").click()
        expect(leaving).to_contain_text("ask your teacher to reset the seat")
        (leaving.get_by_role("button", name=name) if name else leaving).press(key)
        expect(leaving).to_be_hidden()
        expect(ada.locator("#room")).to_be_visible()
    ada.get_by_role("button", name="Leave the seat").click()
    leaving.get_by_role("button", name="Leave the seat").press("Enter")
    expect(ada.get_by_label("Nickname")).to_be_visible()
    ada.get_by_label("Nickname").fill("Ada")
    ada.keyboard.press("Enter")
    expect(ada.locator("#join-error")).to_contain_text("ask the teacher to free the seat")
    assert all("409" in complaint for complaint in complaints), complaints


def test_a_room_of_own_lessons_names_the_file_with_a_mistake(app, open_page):
    def file(name: str, text: str) -> dict:
        return {"name": name, "mimeType": "text/markdown", "buffer": text.encode()}

    head = "---\ntitle: {}\nminutes: 5\n---\n\n## read a: A step\n\n{}\n"
    good, wrong = head.format("Good", "Two and two are {{2 + 2}}."), head.format("Wrong", "Two and two are {{2 + }}.")
    wall = open_page("/w/new", width=360, height=740)
    wall.get_by_label("What a roofline is").uncheck()
    wall.get_by_label("Files").set_input_files([file("good.md", good), file("second.md", wrong)])
    expect(wall.locator("#own-list li")).to_have_count(2)
    wall.get_by_role("button", name="Open the room").press("Enter")
    expect(wall.locator("#error")).to_contain_text("the lesson second.md has a mistake in line 8")
    wall.locator("#own-list li").nth(1).get_by_role("button", name="Remove").press("Enter")
    drop(wall, "main", "second.md", wrong.replace("2 + }}", "2 + 3}}"))
    wall.get_by_role("button", name="Open the room").press("Enter")
    code = wall.locator(".wall-join .code").text_content()
    ada = join(open_page, code, "Ada")
    expect(ada.locator(".lesson-text")).to_contain_text("Two and two are 4.")
    expect(ada.locator("#sections button")).to_have_text([re.compile("Good"), re.compile("Wrong")])


def test_homework_ends_at_its_deadline(app, open_page):
    wall = open_page("/w/new")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    wall.get_by_label("Deadline").fill(tomorrow.strftime("%Y-%m-%dT%H:%M"))
    opens = wall.get_by_role("button", name="Open the room")
    expect(opens).to_be_enabled()
    opens.press("Enter")
    code = wall.locator(".wall-join .code").text_content()
    page = join(open_page, code, "Ada")
    for one in (page, wall):
        expect(one.locator("#until")).to_contain_text(re.compile(r"Answers until \w+, .*\d\d:\d\d"))
    page.locator('[data-step="which"]').click()
    with contextlib.closing(sqlite3.connect(app.var / "playground.sqlite3", timeout=30)) as database, database:
        database.execute("update playground_room set deadline = '2026-01-01 00:00:00' where code = ?", (code,))
    pick(page, "sum")
    expect(page.locator(".outcome")).to_contain_text("it takes no more answers")
    page.reload()
    expect(page.locator("#state")).to_contain_text("The deadline was")
    expect(page.locator("#until")).to_be_hidden()


def test_a_room_in_korean(open_page, complaints):
    wall = open_page("/w?lang=ko")
    wall.get_by_role("link", name="방 열기").press("Enter")
    wall.get_by_label("제목").fill("월요일")
    wall.get_by_role("button", name="방 열기").press("Enter")
    expect(wall.locator("#link-state")).to_have_text("실시간")
    code = wall.locator(".wall-join .code").text_content()
    assert wall.url.endswith(f"/w/{code}/wall?lang=ko")

    student = open_page(f"/w/{code}?lang=ko")
    student.get_by_label("별명").fill("지은")
    student.keyboard.press("Enter")
    student.locator('[data-step="which"]').press("Enter")
    student.locator('.lesson-step input[value="sum"]').check()
    student.locator(".lesson-step").get_by_role("button", name="확인").click()
    expect(student.locator(".outcome")).to_contain_text(re.compile("[가-힣]{2}"))
    expect(wall.locator("#present")).to_contain_text("참가 1명 중 1명 접속 중")
    expect(tile(wall, 1).locator(".mark.wrong .sr")).to_contain_text("틀림")

    # a refusal, and what the wall still says in English
    wall.locator("body").press("p")
    expect(student.locator("#state")).to_contain_text("멈췄습니다")
    student.locator('.lesson-step input[value="longer"]').check()
    student.locator(".lesson-step").get_by_role("button", name="확인").click()
    expect(student.locator(".outcome")).to_contain_text("선생님이 방을 잠시 멈췄습니다.")
    left = set(re.findall(r"[A-Za-z]{4,}", wall.locator("#wall").inner_text()))
    assert left <= {"JSON", "README", "http", *re.findall("[A-Za-z]+", code)}, left

    # a session that the wall projects
    wall.locator("body").press("p")
    student.locator("#run summary").press("Enter")
    student.locator("#run").get_by_role("button", name="실행").click()
    expect(student.locator("#my-session a")).to_be_visible()
    tile(wall, 1).locator("[data-act=project]").press("Enter")
    frame = wall.frame_locator("#projected iframe")
    expect(frame.locator(".panes-nav, .pane-trials h2, #chart-history h2")).to_have_text(
        ["시도 코드 차트", "시도", "속도 향상 기록"]
    )
    expect(frame.locator("#link-state")).to_have_text(re.compile("^(실시간|끝남)$"))
    ours = [c for c in complaints if "status of 4" not in c]
    assert not ours, ours


def test_the_apis_page_is_in_the_sites_theme(open_page, complaints):
    page = open_page("/api/docs", color_scheme="dark", width=360, height=740)
    assert luminance(page) < 0.3
    no_sideways_scroll(page)
    expect(page.get_by_role("heading", name="The API")).to_be_visible()
    page.get_by_role("link", name="Answer a step (seat)").press("Enter")
    expect(page.get_by_role("heading", name="Answer a step (seat)")).to_be_in_viewport()
    ids = page.locator("[id]").evaluate_all("nodes => nodes.map((n) => n.id)")
    assert len(ids) == len(set(ids))
    broken = page.locator('a[href^="#"]').evaluate_all(
        "links => links.filter((a) => !document.getElementById(a.hash.slice(1))).map((a) => a.hash)"
    )
    levels = page.locator("h1, h2, h3, h4").evaluate_all("nodes => nodes.map((n) => Number(n.tagName[1]))")
    assert not broken and max(b - a for a, b in pairwise(levels)) <= 1
    assert not complaints, complaints
