"""The outer form of a lesson's text: its head, its steps and the fenced blocks in them, each with its line.

Nothing is computed here, so a mistake of form is reported with its line even where the rest makes no sense.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from playground.learn.model import KINDS, Mistake

BLOCKS = ("values", "work", "program", "module", "question", "figure", "yours", "hint")
HEAD = ("title", "minutes", "summary", "terms", "skills", "language")
_STEP = re.compile(r"##\s+(\w+)\s+([a-z][a-z0-9-]*)\s*:\s*(\S.*)$")
# Controls, and signs that turn or break a line: what a reader sees would not be what the text says.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_FENCE = re.compile(r"^(`{3,40})(?!`)\s{0,20}([a-z]{0,40})(.*)$")


@dataclass
class Block:
    """A fenced block of ours. `words`: what stands after its name; `line`: of its first inner line, from 1."""

    name: str
    words: list[str]
    text: str
    line: int


@dataclass
class Part:
    """A piece of a step: Markdown (`block` None) or a block."""

    text: str
    line: int
    block: Block | None = None


@dataclass
class RawStep:
    kind: str
    id: str
    title: str
    line: int
    parts: list[Part] = field(default_factory=list)


@dataclass
class Raw:
    """A lesson's text by its form. `opening`: blocks before the first step."""

    head: dict[str, tuple[str, int]] = field(default_factory=dict)
    opening: list[Part] = field(default_factory=list)
    steps: list[RawStep] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)


def split(text: str) -> Raw:
    """The parts of a text; its mistakes of form are in `mistakes`."""
    raw = Raw()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff").split("\n")
    for number, line in enumerate(lines, 1):
        if sign := _UNSEEN.search(line):
            text = f"The line holds a character that cannot be seen, U+{ord(sign[0]):04X}."
            raw.mistakes.append(Mistake(number, text, "Delete it, or type the line again."))
    at = _head(lines, raw)
    parts, start = raw.opening, at
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence and fence[2] in BLOCKS:
            _text(parts, lines, start, at)
            at = start = _block(parts, lines, at, fence, raw)
            continue
        if fence:  # a plain code block stays in the Markdown
            end = _end(lines, at, fence[1])
            if end == len(lines):
                raw.mistakes.append(Mistake(at + 1, "A code block has no end.", f"Add a line `{fence[1]}` after it."))
            at = end + 1
            continue
        if line.startswith("## ") or line.strip() == "##":
            _text(parts, lines, start, at)
            step = _step(line, at + 1, raw)
            raw.steps.append(step)
            parts, start = step.parts, at + 1
        elif re.match(r"#\s", line):
            raw.mistakes.append(
                Mistake(at + 1, "A heading of one # stands in the text.", "Write the title in the head.")
            )
        at += 1
    _text(parts, lines, start, at)
    for part in raw.opening:
        if part.block is None:
            fix = "Put text into a step: a line such as `## read start: Two roofs` begins one."
            raw.mistakes.append(Mistake(part.line, "Text stands before the first step.", fix))
    return raw


def _head(lines: list[str], raw: Raw) -> int:
    """Read the head between two lines `---`; returns the index after it."""
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if not lines or lines[first].strip() != "---":
        raw.mistakes.append(
            Mistake(1, "The lesson has no head.", "Begin with `---`, `title: ...`, `minutes: 8`, `---`.")
        )
        return first
    for at in range(first + 1, len(lines)):
        line = lines[at]
        if line.strip() == "---":
            return at + 1
        key, colon, value = line.partition(":")
        if line.strip() and (not colon or key.strip() not in HEAD):
            fix = f"The head has the lines {', '.join(HEAD)}, each as `name: text`."
            raw.mistakes.append(Mistake(at + 1, f"The head has no line `{line.strip()[:60]}`.", fix))
        elif line.strip():
            raw.head[key.strip()] = (value.strip(), at + 1)
    raw.mistakes.append(Mistake(first + 1, "The head has no end.", "Add a line `---` after it."))
    return len(lines)


def _text(parts: list[Part], lines: list[str], start: int, end: int) -> None:
    while start < end and not lines[start].strip():
        start += 1
    text = "\n".join(lines[start:end]).rstrip()
    if text:
        parts.append(Part(text, start + 1))


def _end(lines: list[str], at: int, fence: str) -> int:
    return next((i for i in range(at + 1, len(lines)) if lines[i].strip() == fence), len(lines))


def _block(parts: list[Part], lines: list[str], at: int, fence: re.Match[str], raw: Raw) -> int:
    end = _end(lines, at, fence[1])
    if end == len(lines):
        raw.mistakes.append(
            Mistake(at + 1, f"The block `{fence[2]}` has no end.", f"Add a line `{fence[1]}` after it.")
        )
    text = "\n".join(lines[at + 1 : end])
    parts.append(Part(text, at + 2, Block(fence[2], fence[3].split(), text, at + 2)))
    return end + 1


def _step(line: str, number: int, raw: Raw) -> RawStep:
    match = _STEP.match(line)
    if not match:
        fix = "Write the kind, a short name and a title: `## predict ridge: Where do the roofs meet?`."
        raw.mistakes.append(Mistake(number, f"`{line.strip()[:60]}` begins no step.", fix))
        return RawStep("read", f"step-{number}", line.strip("# "), number)
    kind, name, title = match.groups()
    if kind not in KINDS:
        raw.mistakes.append(Mistake(number, f"There is no kind of step {kind!r}.", f"Use one of {', '.join(KINDS)}."))
        kind = "read"
    if any(step.id == name for step in raw.steps):
        raw.mistakes.append(Mistake(number, f"Two steps are called {name!r}.", "Give each step a name of its own."))
    return RawStep(kind, name, title.strip(), number)


def fields(text: str, line: int) -> list[tuple[str, str, int]]:
    """The lines `key: value` of a block as (key, value, line); an indented line continues the one above."""
    rows: list[tuple[str, str, int]] = []
    for number, raw in enumerate(text.split("\n"), line):
        if not raw.strip():
            continue
        if raw[0] in " \t" and rows:
            key, value, first = rows[-1]
            rows[-1] = (key, f"{value} {raw.strip()}", first)
            continue
        at = _colon(raw)
        rows.append((raw[:at].strip(), raw[at + 1 :].strip(), number))
    return rows


def _colon(text: str) -> int:
    """The index of the first colon outside of quotes and brackets, or the text's length."""
    quote, depth = "", 0
    for at, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'" and depth:
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == ":" and depth <= 0:
            return at
    return len(text)
