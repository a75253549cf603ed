"""A question block: what is asked, the expression of its right answer, common wrong answers with their reasons.

ask: How many waves are needed?          option memory: The memory
right: waves(1024, 8192, "128x256x64")   wrong tiles_count: This counts tiles, not waves.
within: 2%                               because: 256 tiles on 132 SMs need two rounds.
hint: Divide, then round up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from playground.learn.model import QUESTIONS, Option, Question, Wrong
from playground.learn.writing import markdown
from playground.learn.writing.expressions import Expression, ExpressionError, Scope, listing, read

KEYS = ("ask", "right", "within", "because", "hint")
LABELLED = ("option", "wrong")
UNITS = 20  # characters
Say = Callable[..., None]


@dataclass(frozen=True)
class Asked:
    """A question with its hints, and the texts of its `wrong` lines in order, for a translation to match."""

    question: Question
    hints: tuple[str, ...]
    keys: tuple[str, ...]


class QuestionError(ValueError):
    """A question that cannot be asked: its line, the fault and the fix."""

    def __init__(self, line: int, text: str, fix: str = ""):
        super().__init__(text)
        self.line, self.text, self.fix = line, text, fix


def ask(
    words: list[str], rows: list[tuple[str, str, int]], scope: Scope, wrong: Say, line: int,
    first: Asked | None = None, drawn: bool = False,
) -> Asked:  # fmt: skip
    """The question of a block. `first`: the original's, if this is a translation. `drawn`: its numbers were drawn, so
    that each option may be the right one, and each has its reason. Raises QuestionError."""
    kind = words[0] if words else (first.question.kind if first else "")
    if kind not in QUESTIONS:
        raise QuestionError(line, f"There is no kind of question {kind!r}.", f"Use one of {', '.join(QUESTIONS)}.")
    reader = _Rows(rows, scope, wrong)
    original = first.question if first else None
    unit = " ".join(words[1:])[:UNITS] or (original.unit if original else "")
    right = original.right if original else reader.right(line)
    options = reader.options(original)
    wrongs, keys = reader.wrongs(kind, dict.fromkeys(o.code for o in options), first)
    hints = reader.many("hint") or (first.hints if first else ())
    question = Question(
        kind,
        reader.one("ask") or (original.ask_html if original else ""),
        right,
        options,
        unit,
        original.within if original else reader.within(),
        wrongs,
        reader.one("because") or (original.because_html if original else ""),
    )
    if not question.ask_html:
        raise QuestionError(line, "The question asks nothing.", "Add a line `ask: ...`.")
    reader.unknown()
    if original is None:
        _answerable(question, wrong, reader.line("right", line), drawn)
    return Asked(question, hints, keys)


class _Rows:
    def __init__(self, rows: list[tuple[str, str, int]], scope: Scope, wrong: Say):
        self.rows, self.scope, self.wrong = rows, scope, wrong

    def line(self, key: str, default: int) -> int:
        return next((line for name, _, line in self.rows if name == key), default)

    def html(self, text: str, line: int) -> str:
        return markdown.inline(text, self.scope, self.wrong, line)

    def many(self, key: str) -> tuple[str, ...]:
        return tuple(self.html(value, line) for name, value, line in self.rows if name == key)

    def one(self, key: str) -> str:
        return " ".join(self.many(key))

    def right(self, line: int) -> Expression:
        text = next((value for name, value, _ in self.rows if name == "right"), "")
        if not text:
            raise QuestionError(line, "The question has no right answer.", "Add `right: EXPRESSION`; sol computes it.")
        try:
            return read(text, self.scope)
        except ExpressionError as e:
            raise QuestionError(self.line("right", line), str(e)) from None

    def within(self) -> float:
        text, line = next(((v, n) for name, v, n in self.rows if name == "within"), ("5%", 0))
        match = re.fullmatch(r"(\d{1,2}(?:\.\d+)?)\s*%", text)
        if not match:
            self.wrong(line, f"`within: {text}` is no share.", "Write for example `within: 5%`.")
            return 0.05
        return float(match[1]) / 100

    def options(self, original: Question | None) -> tuple[Option, ...]:
        given_rows = [(k.split(None, 1)[1], v, n) for k, v, n in self.rows if re.match(r"option\s+\S", k)]
        words = {}
        for code, text, line in given_rows:
            if not re.fullmatch(r"[A-Za-z_]\w*", code):
                self.wrong(
                    line, f"{code!r} is no name of an option.", "Use letters, digits and _: `option memory: ...`."
                )
            elif code in words:
                self.wrong(line, f"Two options are called {code!r}.", "Give each a name of its own.")
            elif original and not any(o.code == code for o in original.options):
                self.wrong(line, f"The original has no option {code!r}.", "Take the names of the original.")
            else:
                words[code] = self.html(text, line)
        if original is None:
            return tuple(Option(code, html) for code, html in words.items())
        return tuple(Option(o.code, words.get(o.code, o.html)) for o in original.options)

    def wrongs(
        self, kind: str, codes: dict[str, None], first: Asked | None
    ) -> tuple[tuple[Wrong, ...], tuple[str, ...]]:
        words: dict[str, tuple[str, int]] = {}
        for name, value, line in self.rows:
            if match := re.match(r"wrong\s+(\S.*)$", name):
                words[match[1]] = (self.html(value, line), line)
        if first is not None:
            for key, (_, line) in words.items():
                if key not in first.keys:
                    self.wrong(line, f"The original explains no wrong answer `{key}`.", "Copy its line `wrong ...`.")
            pairs = zip(first.keys, first.question.wrongs, strict=True)
            return tuple(Wrong(words.get(k, (w.html, 0))[0], w.code, w.value) for k, w in pairs), first.keys
        wrongs = []
        for key, (html, line) in words.items():
            if kind == "number":
                try:
                    value = read(key, self.scope)
                    value.number()
                    wrongs.append((key, Wrong(html, value=value)))
                except ExpressionError as e:
                    self.wrong(line, str(e))
            elif key in codes:
                wrongs.append((key, Wrong(html, code=key)))
            else:
                self.wrong(line, f"No option is called {key!r}.", f"The options are {listing(codes)}.")
        return tuple(w for _, w in wrongs), tuple(key for key, _ in wrongs)

    def unknown(self) -> None:
        for name, _, line in self.rows:
            word, _, label = name.partition(" ")
            if not (name in KEYS or (word in LABELLED and label.strip())):
                fix = f"A question has the lines {', '.join(KEYS)}, `option NAME: ...` and `wrong ANSWER: ...`."
                self.wrong(line, f"A question has no line `{name[:40]}`.", fix)


def _answerable(question: Question, wrong: Say, line: int, drawn: bool) -> None:
    """Report a right answer that cannot be computed, or that no option offers."""
    codes = [o.code for o in question.options]
    if question.kind != "number" and len(codes) < 2:
        wrong(line, "A choice has at least two options.", "Add `option NAME: ...`.")
        return
    try:
        value = question.right.number() if question.kind == "number" else question.right.value()
    except ExpressionError as e:
        wrong(line, str(e))
        return
    if question.kind == "choice" and value not in codes:
        wrong(line, f"The right answer is {value!r}, which no option is.", f"The options are {listing(codes)}.")
    if question.kind == "multi" and not (isinstance(value, list) and all(code in codes for code in value)):
        wrong(line, f"The right answer is {value!r}; it must be a list of options.", "Use those(a=..., b=...).")
    if question.kind == "choice" and not drawn and value in [w.code for w in question.wrongs]:
        wrong(line, f"The right answer {value!r} is explained as a wrong one.", "Remove that line `wrong`.")
    for w in question.wrongs:
        if w.value is not None and isinstance(value, (int, float)) and _near(w.value.number(), value, question.within):
            wrong(line, f"The wrong answer `{w.value.text}` lies within the right one.", "Choose a smaller `within`.")


def _near(a: float, b: float, within: float) -> bool:
    return abs(a - b) <= within * abs(b) + 1e-12


near = _near
