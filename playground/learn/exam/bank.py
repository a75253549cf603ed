"""The questions of the test as templates: questions.md, in the form of a lesson, with the sizes left to a draw.

A step `## predict SKILL-VARIANT: Title` begins with a block `draw` of lines `name = value, value, ...`. `$name` stands
for the value that is drawn, `$name_1`, `$name_2` for the words of it. A skill has one variant or several.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

FOLDER = Path(__file__).resolve().parent
_HEADING = re.compile(r"^## predict ([a-z]+)-([a-z]+): (.+)$", re.M)
_DRAW = re.compile(r"\A```draw\n(.*?)^```\n+", re.M | re.S)


@dataclass(frozen=True)
class Variant:
    """One way to ask for a skill. `draws`: the values of each name; `text`: what follows the heading, a template."""

    skill: str
    name: str
    title: str
    draws: dict[str, tuple[str, ...]]
    text: str

    def filled(self, values: dict[str, str]) -> str:
        """The step of a lesson, its name the skill's. Raises KeyError for a name without a value."""
        words = {f"{name}_{i}": word for name, text in values.items() for i, word in enumerate(text.split(), 1)}
        return f"## predict {self.skill}: {self.title}\n\n{Template(self.text).substitute(values | words)}"


@functools.cache
def head(language: str = "en") -> str:
    """The head of the test as a lesson."""
    return _text(language)[: _HEADING.search(_text(language)).start()]


@functools.cache
def variants(language: str = "en") -> dict[tuple[str, str], Variant]:
    """(skill, name) -> variant, in the order of the file. A translation has the original's without draws."""
    text, rows = _text(language), {}
    headings = list(_HEADING.finditer(text))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : after.start() if after else None].strip("\n") + "\n\n"
        draw = _DRAW.match(body)
        draws = {} if draw is None else dict(map(_line, draw[1].splitlines()))
        skill, name, title = heading.groups()
        rows[skill, name] = Variant(skill, name, title, draws, body[draw.end() :] if draw else body)
    return rows


def _line(line: str) -> tuple[str, tuple[str, ...]]:
    name, _, values = line.partition("=")
    return name.strip(), tuple(value.strip() for value in values.split(","))


@functools.cache
def skills() -> tuple[str, ...]:
    """The skills that the test can ask for, in order."""
    return tuple(dict.fromkeys(skill for skill, _ in variants()))


def _text(language: str) -> str:
    name = "questions.md" if language == "en" else f"questions.{language}.md"
    return (FOLDER / name).read_text(encoding="utf-8")
