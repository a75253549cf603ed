"""What the test of a room asks: one question for each skill of its lessons, about modules that no lesson shows.

The room keeps two forms. Seats with an even number have the first before the lessons and the second after them, the
others the second first: a form that is harder than the other moves no report.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from playground.access.answers import Refused
from playground.learn import check
from playground.learn.exam import draw
from playground.learn.exam.draw import Form
from playground.rooms.events import AFTER, BEFORE
from playground.rooms.lessons import Lesson, Step

PARTS = (BEFORE, AFTER)


def forms(lessons: Iterable[Lesson]) -> list[Form]:
    """Two forms for the skills that the lessons name. Raises Refused(422) if they name none."""
    skills = [skill for lesson in lessons for skill in lesson.skills]
    if not skills:
        error = "test: the chosen lessons name no skill that a test can ask for."
        raise Refused(422, error, "Choose a shipped lesson too, or name `skills` in the head of yours.", field="test")
    return list(draw.forms(skills, secrets.randbits(32)))


def lesson(plan: dict[str, Any], seat: int, part: str, language: str = "en") -> Lesson | None:
    """The questions of a seat in a part of the test, as a lesson with a step a skill; None in a room without a test."""
    if part not in PARTS or not plan.get("forms"):
        return None
    return draw.lesson(plan["forms"][(seat + (part == AFTER)) % 2], language)


def titles(plan: dict[str, Any], language: str = "en") -> dict[str, str]:
    """{skill: its title} in a language."""
    return {step.id: step.title for step in draw.lesson(plan["forms"][0], language).steps} if plan.get("forms") else {}


def answered(plan: dict[str, Any], language: str = "en") -> list[list[dict[str, Any]]]:
    """Both forms with their answers, for the teacher: of each question {skill, title, html, blocks, ask, answer,
    because}, all as safe HTML but `skill`, `title` and `blocks`."""
    return [[_answered(step) for step in draw.lesson(form, language).steps] for form in plan.get("forms", [])]


def _answered(step: Step) -> dict[str, Any]:
    assert step.question is not None  # of a step that predicts
    outcome = check(step, step.question.right.value())
    return {
        "skill": step.id, "title": step.title, "html": step.body_html, "blocks": list(step.blocks),
        "ask": step.question.ask_html, "answer": outcome.answer, "because": outcome.html,
    }  # fmt: skip
