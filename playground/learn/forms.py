"""Lessons as JSON for a browser. No right answer and no reason of a wrong one is in it: those come from a check."""

from __future__ import annotations

from typing import Any

from playground.learn.model import Lesson, Question, Step


def listed(lesson: Lesson) -> dict[str, Any]:
    """A row of the list: {slug, title, summary, minutes, language, languages, source, steps, questions}."""
    return {
        "slug": lesson.slug,
        "title": lesson.title,
        "summary": lesson.summary,
        "minutes": lesson.minutes,
        "language": lesson.language,
        "languages": list(lesson.languages),
        "source": lesson.source,
        "steps": [step.id for step in lesson.steps],
        "questions": [step.id for step in lesson.steps if step.question is not None],
    }


def lesson_json(lesson: Lesson) -> dict[str, Any]:
    """`listed` with `steps` in full: {id, kind, title, language, html, blocks, question, hints}."""
    return listed(lesson) | {"steps": [_step(step) for step in lesson.steps]}


def _step(step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "kind": step.kind,
        "title": step.title,
        "language": step.language,
        "html": step.body_html,
        "blocks": list(step.blocks),
        "question": None if step.question is None else _question(step.question),
        "hints": list(step.hints),
    }


def _question(question: Question) -> dict[str, Any]:
    return {
        "kind": question.kind,
        "html": question.ask_html,
        "options": [{"code": o.code, "html": o.html} for o in question.options],
        "unit": question.unit,
        "within": question.within,
    }
