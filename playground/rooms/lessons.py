"""The lessons as a room needs them: found by name, or read from the teacher's own text, and answers checked."""

from __future__ import annotations

import functools
from typing import Any

from playground import learn
from playground.access.answers import Refused
from playground.access.requests import limit_text
from playground.learn import Lesson, NoQuestion, Outcome, Step

__all__ = ["Lesson", "Outcome", "Step", "checked_answer", "known", "own", "shown"]


def known(slug: str, language: str = "en") -> Lesson | None:
    """A shipped lesson, or one of the folder of this server; None if there is none of the name."""
    try:
        return learn.lesson(slug, language)
    except KeyError:
        return None


def own(text: str, slug: str) -> Lesson:
    """A lesson that the teacher wrote. Raises Refused(422) with the first mistake, its line and its fix."""
    limit_text(text, "The lesson", "Split it into two lessons.")
    lesson, mistakes = _read(text, slug)
    if lesson is None or mistakes:
        first = mistakes[0]
        error = f"own: the lesson {slug} has a mistake in line {first.line}: {first.text}"
        raise Refused(422, error, first.fix or "The form of a lesson is in playground/lessons/README.md.", field="own")
    return lesson


@functools.lru_cache(maxsize=32)
def _read(text: str, slug: str):
    return learn.read(text, slug, source="own")


def shown(lesson: Lesson) -> dict[str, Any]:
    """A lesson for a page, without its answers."""
    return learn.lesson_json(lesson)


def checked_answer(lesson: Lesson | None, step: str, answer: Any, show: bool = False) -> Outcome | None:
    """The verdict on an answer to a step; None for a step that is not there or asks nothing. `show`: it gives the right
    answer too."""
    try:
        return None if lesson is None else learn.check(lesson.step(step), answer, show)
    except (KeyError, NoQuestion):
        return None
