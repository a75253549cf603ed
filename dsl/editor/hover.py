"""Hover: the meaning of the word at a place of a text, by its context, or a name with its type."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dsl.check.families import FAMILIES
from dsl.check.program import partial
from dsl.editor.completion import MAX_CHARS
from dsl.editor.vocabulary import ENTRIES, Entry, entry
from dsl.ir import Span

_TOKEN = re.compile(r"#[^\n]*|[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z_.]*|->|\S")
# The kinds to try, in this order, if the context does not determine the kind of a word.
_VALUES = ("value", "type", "keyword", "axis")


@dataclass(frozen=True)
class Hover:
    """The entry of a word, and its span. For a name of the program `entry.kind` is `name` and `entry.use` its type."""

    entry: Entry
    span: Span

    def to_json(self) -> dict:
        s = self.span
        place = {"line": s.line, "col": s.col, "end_line": s.end_line, "end_col": s.end_col}
        return {**self.entry.to_json(), **place}


def hover(text: str, line: int, col: int) -> Hover | None:
    """The meaning of the word at a place (1-based); None if there is no word or it has no entry.

    A value such as `128x256x64` is explained by its clause. It raises nothing.
    """
    text = text[:MAX_CHARS]
    lines = text.split("\n")
    if not 1 <= line <= len(lines) or col < 1:
        return None
    start = sum(len(x) + 1 for x in lines[: line - 1])
    at = start + col - 1
    tokens = [m for m in _TOKEN.finditer(text) if not m.group().startswith("#")]
    i = next((i for i, m in enumerate(tokens) if m.start() <= at < m.end()), None)
    if i is None or at > start + len(lines[line - 1]):
        return None
    meaning = _meaning(text, [m.group() for m in tokens], i)
    if meaning is None:
        return None
    first = tokens[i].start() - start + 1
    return Hover(meaning, Span(line, first, line, first + len(tokens[i].group())))


def _meaning(text: str, words: list[str], i: int) -> Entry | None:
    word, before, after = words[i], words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
    if before == "." and word == "T":
        return Entry("T", "keyword", "gemm(x, w.T)", "the last two axes swapped")
    if word[0].isdigit():
        return entry(before, "clause")
    if not (word[0].isalpha() or word[0] == "_"):
        return None
    inside = _brackets(words, i)
    if inside.endswith("{{[") or (inside.endswith("{{") and _list_of(words, i) == "over"):
        return entry(word, "axis")
    if after == "(":
        return entry(word, "stage") if inside == "{" and before == "=" else entry(word, "function", "value")
    if before == ":" or before == "->" or inside.endswith("("):
        type_entry = entry(word, "type") if "{" not in inside else None
        if type_entry:
            return type_entry
    if inside == "{{" and before not in ("let", "also", "="):
        clause = entry(before, "clause")
        if clause and (word in clause.values or before == "store"):
            return entry(word, "value", "type") or clause
        if ("clause", word) in ENTRIES and before not in "=+-*/(,[":
            return entry(word, "clause")
    if word in ("acc", "acc2") and inside.startswith("{{"):
        return entry(word, "keyword")
    return _name(text, words, i) or entry(word, "keyword", "clause", "stage", *_VALUES, "function")


def _brackets(words: list[str], i: int) -> str:
    """The brackets that are open before a word, outermost first."""
    brackets: list[str] = []
    for w in words[:i]:
        if w in "([{":
            brackets.append(w)
        elif w in ")]}" and brackets:
            brackets.pop()
    return "".join(brackets)


def _list_of(words: list[str], i: int) -> str:
    """The word before the comma-separated list that contains words[i]: `over` for `over m, n`."""
    i -= 1
    while i > 0 and words[i] == ",":
        i -= 2
    return words[i] if i >= 0 else ""


def _name(text: str, words: list[str], i: int) -> Entry | None:
    """The entry of a name of this program with its type, or of a let."""
    types, stages = partial(text)
    word = words[i]
    if types.get(word) is not None:
        description = "parameter"
        for s in stages:
            if word == s.name:
                op = next(
                    (w for a, b, w in zip(words, words[1:], words[2:], strict=False) if a == word and b == "="), ""
                )
                description = f"result of a {op}" if op in FAMILIES else "result of a stage"
            elif any(word == a.name for a in s.also):
                description = f"second result of {s.name}"
        return Entry(word, "name", f"{word}: {types[word]}", description)
    for s in stages:
        if any(x.name == word for x in getattr(s, "lets", ())):
            return Entry(word, "name", word, f"a part of {s.name}")
    return None
