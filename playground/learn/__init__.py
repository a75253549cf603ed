"""Lessons: read from Markdown, shown by a browser, checked by `sol`. Only `views` and `api` import Django."""

from playground.learn.checking import NoQuestion, answer_json, check
from playground.learn.forms import lesson_json, listed
from playground.learn.model import Lesson, Mistake, Option, Outcome, Question, Step
from playground.learn.shelf import lesson, library
from playground.learn.writing.reader import LANGUAGES, read

__all__ = [
    "LANGUAGES", "Lesson", "Mistake", "NoQuestion", "Option", "Outcome", "Question", "Step", "answer_json", "check",
    "lesson", "lesson_json", "library", "listed", "read",
]  # fmt: skip
