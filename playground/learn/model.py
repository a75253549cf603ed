"""A lesson as data: steps of text, blocks that a page draws, and questions whose answers are computed when checked.

Plain dataclasses without Django. The answers stay expressions (playground.learn.writing.expressions), so nothing here
holds a number that a person typed as the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playground.learn.writing.expressions import Expression

KINDS = ("read", "predict", "run", "replay", "compare", "why")
QUESTIONS = ("choice", "number", "multi")


@dataclass(frozen=True)
class Mistake:
    """A mistake in a lesson's text: its line from 1, what is wrong, and what to write instead."""

    line: int
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Option:
    """One option of a choice. `code` is what an answer holds; `html` what a person reads."""

    code: str
    html: str


@dataclass(frozen=True)
class Wrong:
    """A common wrong answer: a number computed by `value`, or the option `code`, with the reason why it is wrong."""

    html: str
    code: str = ""
    value: Expression | None = None


@dataclass(frozen=True)
class Question:
    """A question of a step. `kind`: choice (one option) | number (within `within` of the right one) | multi (all that
    apply). `right`: computed at each check: an option's code, a number in `unit`, or a list of codes."""

    kind: str
    ask_html: str
    right: Expression
    options: tuple[Option, ...] = ()
    unit: str = ""
    within: float = 0.05
    wrongs: tuple[Wrong, ...] = ()
    because_html: str = ""


@dataclass(frozen=True)
class Step:
    """One step. `body_html` is safe HTML; each `<div data-block="N">` in it stands for `blocks[N]`, which a page draws:
    {kind: figure | program | work | yours, ...}. `language`: of its words, which may differ from the lesson's."""

    id: str
    kind: str
    title: str
    body_html: str
    blocks: tuple[dict[str, Any], ...] = ()
    question: Question | None = None
    hints: tuple[str, ...] = ()
    language: str = "en"
    line: int = 0


@dataclass(frozen=True)
class Lesson:
    """A lesson. `source`: shipped | own | drawn; `terms`: the words that it explains; `skills`: what a test may ask
    after it (playground.learn.exam); `languages`: those with a text."""

    slug: str
    title: str
    minutes: int
    language: str
    steps: tuple[Step, ...]
    summary: str = ""
    terms: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    source: str = "shipped"
    languages: tuple[str, ...] = ("en",)
    text: str = field(default="", repr=False)

    def step(self, step_id: str) -> Step:
        """Raises KeyError for a step that the lesson does not have."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)


@dataclass(frozen=True)
class Outcome:
    """What a check says. `code`: right | wrong (a mistake that the lesson explains: `known`) | unreadable; `html`: the
    reason in words; `answer`: the right answer in words, only if it is right or was asked for."""

    right: bool
    html: str
    code: str
    known: bool = False
    answer: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "right": self.right,
            "code": self.code,
            "known": self.known,
            "html": self.html,
            "answer": self.answer,
        }
