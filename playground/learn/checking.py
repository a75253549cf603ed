"""Checks of answers: the right one is computed at each check, by `sol` or from a recording."""

from __future__ import annotations

import math
import re
from typing import Any

from playground.learn.model import Outcome, Question, Step, Wrong
from playground.learn.writing import markdown
from playground.learn.writing.expressions import ExpressionError
from playground.learn.writing.questions import near

LONGEST = 200  # characters of an answer
_NUMBER = re.compile(r"([-+]?(?:\d[\d ,_']*)?(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)\s*(.*)$")
# How much one unit is, so that a student may answer 312 µs where ms are asked.
_UNITS = {
    "ms": {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "μs": 1e-3},
    "MB": {"GB": 1e3, "MB": 1.0, "kB": 1e-3, "B": 1e-6, "bytes": 1e-6},
}
_WORDS = {
    "en": {
        "broken": "The answer cannot be computed here.",
        "number": "Write a number{unit}, for example 12.5.",
        "choice": "Choose one of the options.",
        "multi": "Choose from the options.",
    },
    "ko": {
        "broken": "여기서는 정답을 계산할 수 없습니다.",
        "number": "숫자{unit}를 쓰십시오. 예: 12.5",
        "choice": "보기 중 하나를 고르십시오.",
        "multi": "보기에서 고르십시오.",
    },
}  # what a check says in the step's language


class NoQuestion(ValueError):
    """The step asks nothing."""


def check(step: Step, answer: Any, show: bool = False) -> Outcome:
    """What to say to an answer: a code (choice), a number or its text (number), or a list of codes (multi).

    `show`: give the right answer even if this one is wrong. Raises NoQuestion; an answer that cannot be read has the
    outcome `unreadable`.
    """
    question = step.question
    if question is None:
        raise NoQuestion(f"The step {step.id} asks nothing.")
    try:
        right = question.right.number() if question.kind == "number" else question.right.value()
    except ExpressionError as e:
        return Outcome(False, markdown.escaped(f"{_WORDS[step.language]['broken']} {e}"), "unreadable")
    value = _answer(question, answer)
    if value is None:
        return Outcome(
            False, _unreadable(question, step.language), "unreadable", answer=_words(question, right) if show else ""
        )
    if _right(question, value, right):
        return Outcome(True, question.because_html, "right", True, _words(question, right))
    wrong = _explained(question, value)
    return Outcome(
        False, wrong.html if wrong else "", "wrong", wrong is not None, _words(question, right) if show else ""
    )


def answer_json(step: Step, answer: Any) -> Any:
    """The answer in the form in which it is stored, or None if it cannot be read."""
    return None if step.question is None else _answer(step.question, answer)


def _answer(question: Question, answer: Any) -> Any:
    codes = {o.code for o in question.options}
    if question.kind == "choice":
        return answer if isinstance(answer, str) and answer in codes else None
    if question.kind == "multi":
        if not isinstance(answer, list) or not all(isinstance(a, str) and a in codes for a in answer):
            return None
        return sorted(set(answer))
    return number(answer, question.unit)


def number(answer: Any, unit: str = "") -> float | None:
    """A number, or one written as people write it: `1,024`, `0.31 ms`, `12%`, `1.5e3`. None if it is none."""
    if isinstance(answer, bool):
        return None
    if isinstance(answer, (int, float)):
        return float(answer) if math.isfinite(answer) else None
    if not isinstance(answer, str) or len(answer) > LONGEST:
        return None
    match = _NUMBER.match(answer.strip())
    digits = re.sub(r"[ ,_']", "", match[1]) if match else ""
    if not match or not re.search(r"\d", digits) or not math.isfinite(float(digits)):
        return None
    rest = match[2].strip()
    if rest == "%":
        return float(digits) if unit == "%" else float(digits) / 100
    factor = _UNITS.get(unit, {}).get(rest, 1.0 if rest in ("", unit, "x", "×") else None)
    return None if factor is None else float(digits) * factor


def _right(question: Question, value: Any, right: Any) -> bool:
    if question.kind == "number":
        return near(value, right, question.within)
    if question.kind == "multi":  # `right` is no list in a lesson with a mistake
        return isinstance(right, list) and all(code in right for code in value) and all(code in value for code in right)
    return value == right


def _explained(question: Question, value: Any) -> Wrong | None:
    """The common mistake that an answer is, if it is one. Of several picks the first with a reason counts."""
    for wrong in question.wrongs:
        if wrong.value is not None:
            try:
                if near(value, wrong.value.number(), question.within):
                    return wrong
            except ExpressionError:
                continue
        elif wrong.code in (value if isinstance(value, list) else [value]):
            return wrong
    return None


def _words(question: Question, right: Any) -> str:
    if question.kind == "number":
        return " ".join(filter(None, [markdown.shown(float(right)), markdown.escaped(question.unit)]))
    words = {o.code: o.html for o in question.options}
    return "; ".join(words[code] for code in _codes(right) if code in words) or "-"


def _codes(right: Any) -> list[str]:
    """The options of a right answer; none for one that names no option, in a lesson with a mistake."""
    return [code for code in (right if isinstance(right, list) else [right]) if isinstance(code, str)]


def _unreadable(question: Question, language: str) -> str:
    words = _WORDS[language]
    if question.kind == "number":
        return markdown.escaped(words["number"].format(unit=f" ({question.unit})" if question.unit else ""))
    return markdown.escaped(words[question.kind])
