"""Lessons over HTTP: the list, one lesson, a check of an answer, and a check of a teacher's own text."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import ConfigDict, Field

from playground import conf
from playground.access import limits
from playground.access.answers import Refused, too_many
from playground.learn import checking, forms, shelf
from playground.learn.model import Lesson
from playground.learn.writing.reader import read

router = Router(tags=["lessons"])
Language = Literal["en", "ko"]


class AnswerIn(Schema):
    """An answer to a step's question: an option's name, a list of names, or a number or its text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    step: str = Field(max_length=64)
    answer: str | float | list[str] = Field(description="by the kind of question: choice, number or multi")
    show: bool = Field(False, description="give the right answer too")


class OwnAnswerIn(AnswerIn):
    text: str = Field(description="the text of the lesson")


class OwnIn(Schema):
    text: str = Field(description="the text of the lesson")


class OutcomeOut(Schema):
    """`known`: the lesson explains this mistake; `answer`: in words, if the answer is right or was asked for."""

    right: bool
    code: Literal["right", "wrong", "unreadable"]
    known: bool
    html: str = Field(description="the reason, as safe HTML")
    answer: str


class LessonRow(Schema):
    slug: str
    title: str
    summary: str
    minutes: int
    language: str = Field(description="of its words; English where it has no translation")
    languages: list[str]
    source: Literal["shipped", "own", "drawn"]
    steps: list[str]
    questions: list[str] = Field(description="the steps that ask something")


class LessonOut(LessonRow):
    steps: list[dict[str, Any]] = Field(description="each {id, kind, title, language, html, blocks, question, hints}")


class MistakeOut(Schema):
    line: int
    text: str
    fix: str


class OwnOut(Schema):
    mistakes: list[MistakeOut] = Field(description="in the order of the text")
    lesson: LessonOut | None = Field(description="the lesson as far as it can be read")


def _slow(request: HttpRequest) -> None:
    if wait := limits.checks.wait(limits.address(request)):
        raise too_many("checks", wait)


def _lesson(slug: str, language: str) -> Lesson:
    try:
        return shelf.lesson(slug, language)
    except KeyError:
        raise Refused(404, f"There is no lesson {slug[:64]!r}.", "GET /api/lessons lists them.") from None


def _outcome(lesson: Lesson, body: AnswerIn) -> dict[str, Any]:
    try:
        return checking.check(lesson.step(body.step), body.answer, body.show).to_json()
    except KeyError:
        raise Refused(404, f"The lesson has no step {body.step!r}.", "The lesson's `steps` name them.") from None
    except checking.NoQuestion as e:
        raise Refused(422, str(e), "Answer a step of `questions`.") from None


def _text(body: OwnIn | OwnAnswerIn) -> str:
    most = conf.get("UCUTLASS_SOURCE_KIB")
    if len(body.text.encode()) > most * 1024:
        raise Refused(413, f"The text is larger than {most} KiB.", "Make two lessons of it.")
    return body.text


@router.get("/lessons", response=list[LessonRow], summary="Every lesson, in the order that builds up")
def lessons(request: HttpRequest, lang: Language = "en"):
    return [forms.listed(lesson) for lesson in shelf.library(lang)]


@router.get("/lessons/{slug}", response=LessonOut, summary="One lesson, without its answers")
def lesson(request: HttpRequest, slug: str, lang: Language = "en"):
    return forms.lesson_json(_lesson(slug, lang))


@router.post("/lessons/{slug}/answers", response=OutcomeOut, summary="Check an answer; nothing is stored")
def answer(request: HttpRequest, slug: str, body: AnswerIn, lang: Language = "en"):
    _slow(request)
    return _outcome(_lesson(slug, lang), body)


@router.post("/own-lesson", response=OwnOut, summary="Check a lesson of your own; nothing is stored")
def own(request: HttpRequest, body: OwnIn):
    _slow(request)
    lesson, mistakes = read(_text(body))
    rows = [{"line": m.line, "text": m.text, "fix": m.fix} for m in mistakes]
    return {"mistakes": rows, "lesson": None if lesson is None else forms.lesson_json(lesson)}


@router.post("/own-lesson/answers", response=OutcomeOut, summary="Check an answer to a lesson of your own")
def own_answer(request: HttpRequest, body: OwnAnswerIn):
    _slow(request)
    lesson, _ = read(_text(body))
    if lesson is None:
        raise Refused(422, "This text is no lesson yet.", "POST /api/own-lesson names its mistakes.")
    return _outcome(lesson, body)
