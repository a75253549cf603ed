"""The test before and after the lessons: the same skills with other modules, no verdict before, a report of what
moved."""

import csv
import io

import pytest

from playground.models import Room
from playground.rooms.exam import asked

pytestmark = pytest.mark.django_db
LIMIT = "limit"


@pytest.fixture
def tested(visit):
    """A room with a test; `right(seat, part, skill)`: the right answer, as `sol` computes it."""
    room = visit(test=True)
    plan = Room.objects.get(code=room.code).plan
    room.right = lambda seat, part, skill=LIMIT: asked.lesson(plan, seat, part).step(skill).question.right.value()
    return room


def test_each_skill_of_the_lessons_is_asked_before_and_after_with_other_modules(tested):
    ada, grace = tested.seat("Ada"), tested.seat("Grace")
    steps = tested.client.get(f"/api/rooms/{tested.code}").json()["steps"]
    keys = [step["key"] for step in steps if step["part"] != "lesson"]
    assert keys == ["before:limit", "before:binds", "after:limit", "after:binds"]
    forms = {
        (name, part): str(tested.get(f"test/{part}", seat).json()["steps"])
        for name, seat in (("Ada", ada), ("Grace", grace)) for part in ("before", "after")
    }  # fmt: skip
    assert forms["Ada", "before"] != forms["Ada", "after"]
    assert forms["Ada", "before"] == forms["Grace", "after"], "the two forms change places with each seat"
    assert forms["Grace", "before"] == forms["Ada", "after"]
    for text in forms.values():
        assert "because_html" not in text and "'right'" not in text and "linear(x, w)" in text
    korean = tested.get("test/before?lang=ko", ada).json()
    assert korean["title"] == "시험" and all(step["language"] == "ko" for step in korean["steps"])


def test_a_room_without_a_test_has_no_questions_of_one(visit):
    room = visit()
    ada = room.seat("Ada")
    assert room.get("test/before", ada).status_code == 404 and room.get("test/sideways", ada).status_code == 422
    assert room.get("test/before", {}).status_code == 403
    assert room.answer(ada, "before:limit", 1).status_code == 404
    assert room.results()["test"] == {"skills": [], "seats": [], "forms": []}


def test_a_test_needs_a_lesson_that_names_skills(visit, client):
    own = "---\ntitle: Mine\nminutes: 5\n---\n\n## read a: A\n\nText.\n"
    body = {"title": "t", "own": [own], "test": True}
    reply = client.post("/api/rooms", body, content_type="application/json")
    assert reply.status_code == 422 and reply.json()["field"] == "test" and "skill" in reply.json()["fix"]
    named = own.replace("minutes: 5", "minutes: 5\nskills: waves, roi")
    steps = visit(lessons=[], own=[named], test=True).results()["steps"]
    assert [s["key"] for s in steps] == ["before:waves", "before:roi", "own-1/a", "after:waves", "after:roi"]


def test_the_teacher_sees_both_forms_with_their_answers(tested):
    forms = tested.get("test", tested.teacher).json()["forms"]
    assert [[row["skill"] for row in form] for form in forms] == [["limit", "binds"]] * 2
    assert forms[0][0]["blocks"] != forms[1][0]["blocks"]
    for number, form in enumerate(forms):  # seat 2 has the first form before the lessons, seat 1 the second
        right = tested.right(2 - number, "before")
        assert float(form[0]["answer"].split()[0]) == pytest.approx(right, rel=0.01) and form[0]["because"]
    assert "아무리" in tested.get("test?lang=ko", tested.teacher).json()["forms"][0][0]["ask"]


def test_the_test_before_says_no_verdict_and_is_answered_once(tested):
    ada, late = tested.seat("Ada"), tested.seat("Late")
    reply = tested.answer(ada, "before:limit", 12345, show=True)
    assert reply.status_code == 201 and set(reply.json()) == {"step", "tries", "answer"}
    assert tested.answer(ada, "before:limit", 1).status_code == 409
    assert tested.get("answers?step=before:limit", ada).status_code == 403
    own = tested.get("seat", ada).json()["seat"]["answers"]["before:limit"]
    for text in (own, tested.get("events", ada).json()["events"][-1]):
        assert "right" not in str(text) and "why" not in str(text)
    tested.answer(late, "roofline/which", "sum")
    assert tested.answer(late, "before:limit", 1).status_code == 409, "after a lesson it is no test before"
    tested.answer(ada, "after:limit", 1)
    assert tested.answer(ada, "before:binds", "memory").status_code == 409, "after a verdict it is none either"
    assert tested.answer(ada, "before:limit/x", 1).status_code == 404
    assert tested.answer(late, "after:limit", "many").status_code == 422, "it is no number"


def test_an_answer_is_checked_against_the_form_of_its_seat(tested):
    ada, grace = tested.seat("Ada"), tested.seat("Grace")
    assert tested.right(1, "after") != tested.right(2, "after")
    assert tested.answer(ada, "after:limit", tested.right(1, "after")).json()["right"] is True
    assert tested.answer(grace, "after:limit", tested.right(1, "after")).json()["right"] is False


def move(room):
    """Ada gains the limit and keeps what binds; Grace loses the limit; Late answers the test after alone."""
    seats = [room.seat(name) for name in ("Ada", "=Grace", "Late")]
    for part, rights in (("before", (False, True)), ("after", (True, False))):
        for number, right in enumerate(rights, 1):
            room.answer(seats[number - 1], f"{part}:limit", room.right(number, part) if right else 12345)
        room.answer(seats[0], f"{part}:binds", room.right(1, part, "binds"))
    room.answer(seats[2], "after:limit", room.right(3, "after"))


def test_the_report_says_what_moved_for_each_skill_and_each_seat(tested):
    move(tested)
    test = tested.results()["test"]
    limit, binds = test["skills"]
    assert limit | {"title": ""} == {
        "skill": "limit", "lesson": "roofline", "title": "", "before": 2, "after": 3, "both": 2, "right_before": 1,
        "right_after": 1, "gained": 1, "lost": 1,
    }  # fmt: skip
    assert (binds["both"], binds["right_before"], binds["right_after"], binds["gained"]) == (1, 1, 1, 0)
    ada, grace, late = test["seats"]
    assert ada == {"seat": 1, "name": "Ada", "both": 2, "right_before": 1, "right_after": 2, "gained": ["limit"],
                   "lost": []}  # fmt: skip
    assert grace["lost"] == ["limit"] and late["both"] == 0
    assert len(test["forms"]) == 2 and test["forms"][0]["limit"] != test["forms"][1]["limit"]


def test_the_report_is_a_table_for_a_spreadsheet_with_names_or_without(tested):
    move(tested)

    def rows(path: str) -> list[dict[str, str]]:
        reply = tested.get(path, tested.teacher)
        assert reply.status_code == 200 and reply["Content-Type"].startswith("text/csv")
        return list(csv.DictReader(io.StringIO(reply.content.decode("utf-8-sig"))))

    table = rows("moved.csv")
    assert [(row["of"], row["name"]) for row in table] == [
        ("room", "all answers"), ("skill", "limit"), ("skill", "binds"), ("seat", "Ada"), ("seat", "'=Grace"),
        ("seat", "Late"),
    ]  # fmt: skip
    assert [table[0][c] for c in ("answered both", "right before", "right after", "gained", "lost")] == list("32211")
    assert table[3]["gained skills"] == "limit" and table[4]["lost skills"] == "limit"
    assert {r["moved"] for r in rows("results.csv") if r["part"] == "test after"} == {
        "gained",
        "lost",
        "right both",
        "",
    }
    for path in ("moved.csv", "results.csv", "results"):
        secret = tested.get(f"{path}?anonymous=true", tested.teacher).content.decode()
        assert "Grace" not in secret and "Ada" not in secret and "limit" in secret
    assert rows("moved.csv?anonymous=true")[3]["name"] == "seat 1"
    assert tested.get("moved.csv", {}).status_code == 403
