"""What a teacher chooses when opening a room, and the steps that the room then has, in order.

A step's key is LESSON/STEP. With the test, a question for each skill of the lessons comes first, as before:SKILL and
without a verdict, and again with another module at the end, as after:SKILL (playground.rooms.exam).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from playground import conf
from playground.access.answers import Refused
from playground.rooms import names
from playground.rooms.events import AFTER, BEFORE, LESSON
from playground.rooms.exam import asked as exam
from playground.rooms.lessons import Lesson, known, own

MOST_LESSONS = 20
MOST_OWN = 5  # lessons that the teacher wrote
FURTHEST = timedelta(days=30)  # a deadline
TRIALS = 12  # of a seat's session, if the teacher does not choose


def checked(asked: dict[str, Any]) -> tuple[dict[str, Any], datetime | None]:
    """(plan, deadline) of a request; with the test the plan has its `forms`. Raises Refused with the field."""
    if not asked["lessons"] and not asked["own"]:
        raise Refused(422, "lessons: choose at least one.", "GET /api/lessons lists them.", field="lessons")
    if len(set(asked["lessons"])) > MOST_LESSONS:
        raise Refused(422, f"lessons: at most {MOST_LESSONS}.", "Open a second room for the rest.", field="lessons")
    if len(asked["own"]) > MOST_OWN:
        raise Refused(422, f"own: at most {MOST_OWN} lessons of your own.", "Open a second room.", field="own")
    most = conf.get("UCUTLASS_ROOM_SEATS")
    if not 1 <= asked["seats"] <= most:
        fix = f"Write for example 30; this server allows {most}."
        raise Refused(422, f"seats: a whole number from 1 to {most}.", fix, field="seats")
    plan = {
        "title": names.title(asked["title"]), "lessons": list(dict.fromkeys(asked["lessons"])), "own": asked["own"],
        "paced": asked["paced"], "test": asked["test"], "seats": asked["seats"], "trials": asked["trials"],
    }  # fmt: skip
    lessons = lessons_of(plan)
    if plan["test"]:
        plan["forms"] = exam.forms(lessons.values())
    return plan, _deadline(asked["deadline"])


def _deadline(at: float | None) -> datetime | None:
    if at is None:
        return None
    now = timezone.now()
    if not now.timestamp() < at < (now + FURTHEST).timestamp():
        error = f"deadline: a time within the next {FURTHEST.days} days, in seconds since the epoch."
        raise Refused(422, error, "Choose a later time, or leave it out.", field="deadline")
    return datetime.fromtimestamp(at, now.tzinfo)


def lessons_of(plan: dict[str, Any], language: str = "en") -> dict[str, Lesson]:
    """{slug: lesson} of a plan, in order, in a language where it has a translation. Raises Refused(422) for a lesson
    that is not there, or has mistakes."""
    lessons: dict[str, Lesson] = {}
    for slug in plan["lessons"]:
        lesson = known(slug, language)
        if lesson is None:
            raise Refused(422, f"There is no lesson {slug[:40]!r}.", "GET /api/lessons lists them.", field="lessons")
        lessons[slug] = lesson
    for number, text in enumerate(plan["own"], 1):
        lesson = own(text, f"own-{number}")
        lessons[lesson.slug] = lesson
    return lessons


def titles(plan: dict[str, Any], language: str) -> dict[str, str]:
    """{LESSON, LESSON/STEP or test:SKILL: its title} in a language. Empty in English, and for a lesson that is no
    longer there."""
    if language == "en":
        return {}
    try:
        lessons = lessons_of(plan, language)
    except Refused:
        return {}
    steps = {f"{slug}/{step.id}": step.title for slug, lesson in lessons.items() for step in lesson.steps}
    skills = {f"test:{skill}": title for skill, title in exam.titles(plan, language).items()}
    return steps | skills | {slug: lesson.title for slug, lesson in lessons.items()}


def outline(lessons: dict[str, Lesson]) -> list[dict[str, Any]]:
    """The lessons for a list: {slug, title, minutes}."""
    return [{"slug": slug, "title": lesson.title, "minutes": lesson.minutes} for slug, lesson in lessons.items()]


def steps_of(lessons: dict[str, Lesson], plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The room's steps: {key, part, lesson, step, kind, title, question}. In the test, `step` is a skill and `lesson`
    the first one that teaches it."""
    rows = [
        {
            "key": f"{slug}/{step.id}", "part": LESSON, "lesson": slug, "step": step.id, "kind": step.kind,
            "title": step.title, "question": step.question is not None,
        }
        for slug, lesson in lessons.items() for step in lesson.steps
    ]  # fmt: skip
    before, after = ([_asked(part, *row, lessons) for row in exam.titles(plan).items()] for part in (BEFORE, AFTER))
    return [*before, *rows, *after]


def _asked(part: str, skill: str, title: str, lessons: dict[str, Lesson]) -> dict[str, Any]:
    teaches = next(slug for slug, lesson in lessons.items() if skill in lesson.skills)
    return {"key": f"{part}:{skill}", "part": part, "lesson": teaches, "step": skill, "kind": "predict",
            "title": title, "question": True}  # fmt: skip
