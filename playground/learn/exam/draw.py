"""Two forms of the test, drawn from the templates: the same skills, other modules.

A form is plain data, {skill: {variant, values}}, so that a room keeps what it asks. `sol` computes the answers each
time that one is checked, as in every lesson.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable
from typing import Any

from playground.learn.exam import bank
from playground.learn.model import Lesson
from playground.learn.writing.questions import near
from playground.learn.writing.reader import read

Form = dict[str, dict[str, Any]]
SLUG = "test"
DRAWS = 50  # at most, until two forms differ in their number


def forms(wanted: Iterable[str], seed: int) -> tuple[Form, Form]:
    """Two forms that ask for the skills, in the order of the templates. Each form has a variant of its own where the
    skill has several, other values wherever there are several, and another number as its answer."""
    rng = random.Random(seed)
    wanted = set(wanted)
    pairs: tuple[Form, Form] = ({}, {})
    for skill in (one for one in bank.skills() if one in wanted):
        for _ in range(DRAWS):
            first, second = _pair(skill, rng)
            if not _same_number(lesson({skill: first}), lesson({skill: second})):
                break
        pairs[0][skill], pairs[1][skill] = first, second
    return pairs


def _pair(skill: str, rng: random.Random) -> list[dict[str, Any]]:
    names = [name for of, name in bank.variants() if of == skill]
    pair: list[dict[str, Any]] = []
    values: dict[tuple[str, str], list[str]] = {}  # (variant, name) -> in the order in which they are taken
    for variant in _two(rng, names):
        chosen = {}
        for name, choices in bank.variants()[skill, variant].draws.items():
            row = values.setdefault((variant, name), rng.sample(choices, len(choices)))
            chosen[name] = row.pop(0) if len(row) > 1 else row[0]
        pair.append({"variant": variant, "values": chosen})
    return pair


def _same_number(first: Lesson, second: Lesson) -> bool:
    one, other = first.steps[0].question, second.steps[0].question
    assert one is not None and other is not None  # of a step that predicts
    return one.kind == other.kind == "number" and near(one.right.number(), other.right.number(), one.within)


def _two(rng: random.Random, names: list[str]) -> list[str]:
    return rng.sample(names, 2) if len(names) > 1 else names * 2


def lesson(form: Form, language: str = "en") -> Lesson:
    """The questions of a form as a lesson, one step a skill. Raises ValueError for a form that asks nothing, or whose
    variants are no longer there."""
    return _lesson(json.dumps(form), language)


@functools.lru_cache(maxsize=64)
def _lesson(form: str, language: str) -> Lesson:
    rows = json.loads(form)
    try:
        text = _filled(rows, "en")
        translation = _filled(rows, language) if language != "en" else ""
    except KeyError as e:
        raise ValueError(f"the test has no question {e.args[0]!r} any more") from None
    test, mistakes = read(text, SLUG, source="drawn", translation=translation, language=language)
    if test is None or mistakes:
        raise ValueError("; ".join(f"line {m.line}: {m.text}" for m in mistakes) or "the form asks nothing")
    return test


def _filled(form: Form, language: str) -> str:
    variants = bank.variants(language)
    steps = [variants[skill, row["variant"]].filled(row["values"]) for skill, row in form.items()]
    return bank.head(language) + "".join(steps)
