"""A lesson's text becomes a Lesson, or a list of mistakes with their lines: `read(text, slug)`.

A translation has the same steps with the same names: its titles, texts, questions' words and hints replace the
original's, and what it leaves out stays in the original's language. Values, work, programs, figures and right answers
are written once, in the original; a translation names a block to say where it stands.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import Any

import dsl.check
from playground.learn import facts, figures
from playground.learn.exam import bank
from playground.learn.model import Lesson, Mistake, Step
from playground.learn.writing import blocks, markdown, work
from playground.learn.writing.blocks import Block, Part, Raw, RawStep
from playground.learn.writing.expressions import ExpressionError, Scope
from playground.learn.writing.expressions import read as read_expression
from playground.learn.writing.questions import Asked, QuestionError, ask

LONGEST = 60_000  # characters
MOST_STEPS = 40
MOST_BLOCKS = 60  # works, programs, modules and figures
MOST_CALLS = 3000  # of functions, while a text is read
MOST_MISTAKES = 200  # that are told at once: a text of 60,000 characters may have one in every third
LANGUAGES = ("en", "ko")
_NAMED = ("work", "program", "module")  # blocks that define a name
_VALUE = re.compile(r"^([A-Za-z_]\w{0,63})\s{0,20}=\s{0,20}(\S.*)$")


@dataclass
class _Original:
    """What a translation takes from the original: its blocks by name, its scope and its questions by step."""

    scope: Scope = field(default_factory=lambda: Scope(facts.FUNCTIONS, cost=facts.cost))
    texts: dict[str, str] = field(default_factory=dict)
    drawn: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: dict[str, tuple[str, figures.Rows, int]] = field(default_factory=dict)
    questions: dict[str, Asked] = field(default_factory=dict)


class _Reader:
    def __init__(self, raw: Raw, original: _Original, translated: bool, drawn: bool):
        self.raw, self.original, self.translated, self.drawn = raw, original, translated, drawn
        self.mistakes = raw.mistakes
        self.scope = original.scope

    def wrong(self, line: int, text: str, fix: str = "") -> None:
        self.mistakes.append(Mistake(line, text, fix))

    # ---- blocks that define names ----

    def define(self, part: Part) -> None:
        """Read the values, works, programs and modules of a part into the scope."""
        block = part.block
        if block is None or block.name not in ("values", *_NAMED) or not block.text.strip():
            return
        if self.translated:
            self.wrong(block.line, f"A translation has no {block.name} of its own.", "Leave the block empty.")
        elif block.name == "values":
            self._values(block)
        elif not block.words or not block.words[0].isidentifier():
            self.wrong(
                block.line - 1, f"This {block.name} block has no name.", f"Write for example `{block.name} layer`."
            )
        elif block.words[0] in self.scope:
            self.wrong(block.line - 1, f"The name {block.words[0]!r} is used twice.", "Choose another name.")
        elif block.name == "work":
            self._work(block)
        elif block.name == "module":
            self._module(block)
        else:
            self._program(block)

    def _values(self, block: Block) -> None:
        for number, line in enumerate(block.text.split("\n"), block.line):
            if not line.split("#")[0].strip():
                continue
            match = _VALUE.match(line.strip())
            if not match:
                self.wrong(number, f"`{line.strip()[:60]}` defines no value.", "Write `name = expression`.")
            elif match[1] in self.scope:
                self.wrong(number, f"The name {match[1]!r} is used twice.", "Choose another name.")
            else:
                try:
                    self.scope.values[match[1]] = read_expression(match[2], self.scope)
                    self.scope.get(match[1])
                except ExpressionError as e:
                    self.wrong(number, str(e))

    def _work(self, block: Block) -> None:
        name = block.words[0]
        try:
            self.scope.objects[name] = work.read(block.text)
        except work.WorkError as e:
            self.wrong(block.line + e.line, e.text, e.fix)
            return
        self.original.texts[name] = block.text
        if "hidden" not in block.words:
            self.original.drawn[name] = {"kind": "work", "name": name, "text": block.text.strip()}

    def _module(self, block: Block) -> None:
        """A PyTorch module for a session. It is parsed here, and run only in an engine's sandbox."""
        try:
            tree = ast.parse(block.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
            line = getattr(e, "lineno", None) or 1
            self.wrong(block.line + line - 1, f"This is no Python: {getattr(e, 'msg', None) or 'it cannot be parsed'}.")
            return
        if not any(isinstance(node, ast.ClassDef) and node.name == "Model" for node in tree.body):
            self.wrong(block.line, "The module has no class Model.", "Write `class Model(nn.Module):`.")
            return
        name = block.words[0]
        self.scope.objects[name] = figures.Module(block.text.strip() + "\n")
        if "hidden" not in block.words:
            self.original.drawn[name] = {"kind": "module", "name": name, "text": block.text.strip()}

    def _program(self, block: Block) -> None:
        name, checked = block.words[0], dsl.check.check(block.text)
        if checked.program is None:
            for d in (diagnostic.to_json() for diagnostic in checked.diagnostics):
                self.wrong(block.line + max(1, d["line"]) - 1, f"{d['code']}: {d['message']}", d["help"] or "")
            return
        self.scope.objects[name] = checked.program
        if "hidden" not in block.words:
            drawn = {"kind": "program", "name": name, "text": block.text.strip() + "\n", "run": "run" in block.words}
            self.original.drawn[name] = drawn

    # ---- steps ----

    def step(self, raw: RawStep, language: str) -> Step:
        html: list[str] = []
        drawn: list[dict[str, Any]] = []
        hints: list[str] = []
        question = self.original.questions.get(raw.id)
        for part in raw.parts:
            block = part.block
            if block is None:
                html.append(markdown.block(part.text, self.scope, self.wrong, part.line))
            elif block.name == "hint":
                hints.append(markdown.inline(" ".join(block.text.split()), self.scope, self.wrong, block.line))
            elif block.name == "question":
                question = self._question(raw, block, question)
            elif shown := self._shown(block):
                html.append(f'<div data-block="{len(drawn)}"></div>')
                drawn.append(shown)
        asked = self.original.questions.get(raw.id) if question is None else question
        if asked is not None:
            self.original.questions.setdefault(raw.id, asked)
            hints += asked.hints
        if raw.kind == "predict" and asked is None:
            self.wrong(
                raw.line, f"The step {raw.id!r} predicts nothing.", "Add a question block, or make it a read step."
            )
        built = asked.question if asked else None
        return Step(raw.id, raw.kind, raw.title, "\n".join(html), tuple(drawn), built, tuple(hints), language, raw.line)

    def _question(self, raw: RawStep, block: Block, asked: Asked | None) -> Asked | None:
        if asked is not None and not self.translated:
            self.wrong(block.line - 1, "A step has one question; this is the second.", "Begin another step.")
            return asked
        rows = blocks.fields(block.text, block.line)
        try:
            first = asked if self.translated else None
            return ask(block.words, rows, self.scope, self.wrong, block.line - 1, first, self.drawn)
        except QuestionError as e:
            self.wrong(e.line, e.text, e.fix)
            return asked

    def _shown(self, block: Block) -> dict[str, Any] | None:
        """What a page draws for a block; None for one that only defines names."""
        name = block.words[0] if block.words else ""
        if block.name == "yours":
            return {"kind": "yours", "step": name}
        if block.name == "figure":
            return self._figure(block, name)
        return self.original.drawn.get(name)

    def _plain(self, text: str, line: int) -> str:
        return markdown.plain(text, self.scope, self.wrong, line)

    def _figure(self, block: Block, name: str) -> dict[str, Any] | None:
        rows = blocks.fields(block.text, block.line)
        line = block.line - 1
        if self.translated:
            if name not in self.original.figures:
                self.wrong(line, f"The original has no figure {name!r}.", f"It has {', '.join(self.original.figures)}.")
                return None
            kind, first, _ = self.original.figures[name]
            words = {key for key, _, _ in rows}
            rows = _renamed(rows, [row for row in first if row[0] not in words])
        elif len(block.words) != 2:
            self.wrong(line, "A figure has a name and a kind.", "Write for example `figure roofs roofline`.")
            return None
        else:
            kind = block.words[1]
            self.original.figures[name] = (kind, rows, line)
        rows = [(k, self._plain(v, n) if k in ("title", "caption") else v, n) for k, v, n in rows]
        try:
            return figures.build(kind, name, rows, self.scope, self.original.texts, line)
        except figures.FigureError as e:
            self.wrong(e.line, e.text, e.fix)
        return None


def _renamed(rows: figures.Rows, first: figures.Rows) -> figures.Rows:
    """The original's rows with a translation's words: `rename PyTorch: 파이토치` gives a label in its language."""
    labels = {key.split(" ", 1)[1]: value for key, value, _ in rows if key.startswith("rename ")}
    kept_rows = [row for row in rows if not row[0].startswith("rename ")]
    for key, value, line in first:
        word, _, label = key.partition(" ")
        kept_rows.append((f"{word} {labels[label]}" if label in labels else key, value, line))
    return kept_rows


def read(
    text: str, slug: str = "own", *, source: str = "own", translation: str = "", language: str = ""
) -> tuple[Lesson | None, list[Mistake]]:
    """The lesson of a text, and its mistakes with their lines. With mistakes there is a lesson only if it has a title
    and a step, so that a teacher can see what stands already.

    `translation`: the text of its translation into `language`. Then the mistakes are the translation's. `source`:
    shipped | own | drawn (playground.learn.exam).
    """
    original = _Original()
    original.scope.left = MOST_CALLS
    try:
        return _both(text, slug, source, translation, language, original)
    finally:
        original.scope.left = None


def _both(
    text: str, slug: str, source: str, translation: str, language: str, original: _Original
) -> tuple[Lesson | None, list[Mistake]]:
    if len(text) > LONGEST:
        return None, [Mistake(1, f"A lesson has at most {LONGEST:,} characters; this one has {len(text):,}.")]
    lesson, mistakes = _read(text, slug, source, original, None)
    if not translation or lesson is None or mistakes:
        return lesson, mistakes
    return _read(translation, slug, source, original, replace(lesson, language=language))


def _read(
    text: str, slug: str, source: str, original: _Original, first: Lesson | None
) -> tuple[Lesson | None, list[Mistake]]:
    raw = blocks.split(text)
    reader = _Reader(raw, original, first is not None, source == "drawn")
    _few_blocks(raw)
    parts = [*raw.opening, *(part for step in raw.steps for part in step.parts)]
    for part in sorted(parts, key=lambda p: p.block is not None and p.block.name == "values"):  # they use the others
        reader.define(part)
    language = first.language if first else raw.head.get("language", ("en", 0))[0]
    if language not in LANGUAGES:
        reader.wrong(raw.head["language"][1], f"There is no language {language!r}.", f"Use {' or '.join(LANGUAGES)}.")
        language = "en"
    if len(raw.steps) > MOST_STEPS:
        reader.wrong(raw.steps[MOST_STEPS].line, f"A lesson has at most {MOST_STEPS} steps.", "Make two lessons of it.")
        raw.steps = raw.steps[:MOST_STEPS]
    steps = [reader.step(step, language) for step in raw.steps]
    if first is not None:
        steps = _merged(first, steps, reader)
    title, minutes = _head(raw, reader, first)
    if not raw.steps:
        reader.wrong(1, "The lesson has no step.", "Begin one with `## read start: Two roofs`.")
    for step in steps:
        for block in step.blocks:
            if block["kind"] == "yours" and not any(s.id == block["step"] and s.question for s in steps):
                reader.wrong(
                    step.line, f"`yours` names {block['step']!r}, which asks nothing.", "Name a step with a question."
                )
    if not title or not steps:
        return None, _sorted(reader.mistakes)
    summary = raw.head.get("summary", (first.summary if first else "", 0))[0]
    terms = tuple(t.strip() for t in raw.head.get("terms", ("", 0))[0].split(",") if t.strip())
    languages = ("en",) if first is None else ("en", language)
    skills = first.skills if first else _skills(raw, reader)
    lesson = Lesson(slug, title, minutes, language, tuple(steps), summary, terms, skills, source, languages, text)
    return lesson, _sorted(reader.mistakes)


def _skills(raw: Raw, reader: _Reader) -> tuple[str, ...]:
    """What a test may ask after the lesson."""
    text, line = raw.head.get("skills", ("", 0))
    named = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in named:
        if name not in bank.skills():
            reader.wrong(line, f"There is no skill {name[:40]!r}.", f"Use {', '.join(bank.skills())}.")
    return tuple(name for name in named if name in bank.skills())


def _few_blocks(raw: Raw) -> None:
    """Leave out what is beyond MOST_BLOCKS: a text from anybody is read while its author waits."""
    count = 0
    for holder in [raw.opening, *(step.parts for step in raw.steps)]:
        for part in list(holder):
            if part.block is None or part.block.name not in (*_NAMED, "figure"):
                continue
            count += 1
            if count > MOST_BLOCKS:
                holder.remove(part)
                if count == MOST_BLOCKS + 1:
                    text = f"A lesson has at most {MOST_BLOCKS} works, programs, modules and figures."
                    raw.mistakes.append(Mistake(part.line, text, "Make two lessons of it."))


def _sorted(mistakes: list[Mistake]) -> list[Mistake]:
    return sorted(dict.fromkeys(mistakes), key=lambda m: m.line)[:MOST_MISTAKES]


def _head(raw: Raw, reader: _Reader, first: Lesson | None) -> tuple[str, int]:
    title, line = raw.head.get("title", ("", 1))
    if not title and raw.head:
        reader.wrong(line, "The lesson has no title.", "Write `title: ...` in its head.")
    if first is not None:
        return title or first.title, first.minutes
    minutes, line = raw.head.get("minutes", ("", 1))
    if not re.fullmatch(r"\d{1,2}", minutes) or not 1 <= int(minutes) <= 60:
        if raw.head:
            reader.wrong(line, "The lesson does not say how long it takes.", "Write `minutes: 8`, from 1 to 60.")
        return title, 10
    return title, int(minutes)


def _merged(first: Lesson, steps: list[Step], reader: _Reader) -> list[Step]:
    """The original's steps, each replaced by its translation where there is one."""
    by_id = {step.id: step for step in steps}
    for step in steps:
        if not any(step.id == s.id for s in first.steps):
            reader.wrong(step.line, f"The original has no step {step.id!r}.", "Take the names of the original's steps.")
    merged = []
    for step in first.steps:
        words = by_id.get(step.id)
        if words is None:
            merged.append(step)
        else:
            merged.append(replace(words, kind=step.kind, hints=words.hints or step.hints))
    return merged
