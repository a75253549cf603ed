"""A description as tokens: words, numbers, sizes (1024x8192, (8, 512)), signs and breaks, each with its place."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

LARGEST = 10**8  # of one number; a tensor has a limit of its own

_TOKEN = re.compile(
    r"(?P<by>(?<=\d)[x×*](?=\d))"
    r"|(?P<nd>(?<![\d.])[123]-?[dD](?![^\W_]))"
    r"|(?P<num>\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,2})?)"
    r"|(?P<arrow>->|=>|→)"
    r"|(?P<word>[^\W\d_][^\W_]*)"
    r"|(?P<sign>\S)|(?P<line>\n)"
)
_JOINERS = "-_‐‑'’`\"“”"
_ENDS = {".", ";", "\n", "|"}


class Unclear(Exception):
    """No module can be written. `fix`: the way out. `places`: the words concerned, [{text, line, col}]."""

    def __init__(self, error: str, fix: str, places: list[dict[str, Any]] | None = None):
        super().__init__(error)
        self.fix, self.places = fix, places or []


@dataclass(frozen=True)
class Token:
    """`kind`: word | num | size | arrow | sign | comma | end. `value`: of a number, or a size's tuple. `start`, `stop`:
    its characters. `glued`: no space stands before it."""

    kind: str
    text: str
    start: int
    stop: int
    value: Any = None
    glued: bool = False


def place(text: str, start: int, stop: int) -> dict[str, Any]:
    """{text, line, col} of a part, 1-based."""
    line = text.count("\n", 0, start) + 1
    return {"text": text[start:stop], "line": line, "col": start - (text.rfind("\n", 0, start) + 1) + 1}


def tokens(text: str) -> list[Token]:
    """Every token in order. Linear in the length of the text."""
    return _sizes(_brackets(_negatives(_raw(text))))


def _raw(text: str) -> list[Token]:
    out: list[Token] = []
    last = -1
    for match in _TOKEN.finditer(text):
        kind, part = str(match.lastgroup), match[0]
        start, stop, glued = match.start(), match.end(), match.start() == last
        last = stop
        if kind == "num":
            value = float(part)
            if value > LARGEST:
                raise Unclear(f"The number {part} is too large.", f"Sizes go up to {LARGEST:,}.", [
                    place(text, start, stop)])  # fmt: skip
            out.append(Token("num", part, start, stop, int(value) if value.is_integer() and "." not in part else value,
                             glued))  # fmt: skip
        elif kind in ("word", "nd"):
            word = unicodedata.normalize("NFKC", part).lower().replace("-", "")
            out.append(Token("word", word, start, stop, None, glued))
        elif kind == "line" or part in _ENDS:
            out.append(Token("end", part, start, stop, None, glued))
        elif part == ",":
            out.append(Token("comma", part, start, stop, None, glued))
        else:
            out.append(Token({"by": "by", "arrow": "arrow"}.get(kind, "sign"), part, start, stop, None, glued))
    return out


def _negatives(row: list[Token]) -> list[Token]:
    """A minus that touches its number is the number's sign; one that touches a word joins; commas part thousands."""
    out: list[Token] = []
    for i, token in enumerate(row):
        after = row[i + 1] if i + 1 < len(row) else None
        if token.kind == "sign" and token.text in _JOINERS:
            if token.text == "-" and after is not None and after.kind == "num" and after.glued and not token.glued:
                continue  # the number takes it
            if token.text == "-" and not token.glued and (after is None or not after.glued):
                out.append(token)  # x - y
            continue
        before = row[i - 1] if i else None
        if token.kind == "num" and before is not None and before.text == "-" and token.glued and not before.glued:
            token = Token("num", "-" + token.text, before.start, token.stop, -token.value)
        out.append(token)
    return out


def _brackets(row: list[Token]) -> list[Token]:
    """(8, 512, 1024) and [0, 6] become one size; 8,192 outside of brackets one number."""
    out: list[Token] = []
    i = 0
    while i < len(row):
        token = row[i]
        if token.text in ("(", "[") and (stop := _closing(row, i)) is not None:
            values = tuple(t.value for t in row[i + 1 : stop] if t.kind == "num")
            out.append(Token("size", "[]", token.start, row[stop].stop, values, token.glued))
            i = stop + 1
        elif token.kind == "num" and "." not in token.text and len(token.text.lstrip("-")) <= 3 and _thousands(row, i):
            digits, start = token.text, i
            while i + 2 < len(row) and _thousands(row, i):
                digits, i = digits + row[i + 2].text, i + 2
            value = int(digits) if len(digits) < 12 else LARGEST
            out.append(Token("num", digits, row[start].start, row[i].stop, value, token.glued))
            i += 1
        else:
            out.append(token)
            i += 1
    return out


def _thousands(row: list[Token], i: int) -> bool:
    if i + 2 >= len(row) or row[i + 1].kind != "comma" or row[i + 2].kind != "num":
        return False
    return row[i + 1].glued and row[i + 2].glued and len(row[i + 2].text) == 3 and row[i + 2].text.isdigit()


def _closing(row: list[Token], i: int) -> int | None:
    """The index of the bracket that closes a list of two to five numbers; None if this is none."""
    j, numbers = i + 1, 0
    while j < len(row) and j < i + 12:
        token = row[j]
        if token.text in (")", "]"):
            return j if numbers >= 2 else None
        if token.kind == "num":
            numbers += 1
        elif token.kind not in ("comma",):
            return None
        j += 1
    return None


def _sizes(row: list[Token]) -> list[Token]:
    """1024x8192, 1024 x 8192, 224 by 224 become one size."""
    out: list[Token] = []
    i = 0
    while i < len(row):
        token = row[i]
        if token.kind == "num":
            values, j = [token.value], i
            joiner = row[i + 1] if i + 1 < len(row) else token
            alike = (joiner.text == "by", joiner.glued)
            while j + 2 < len(row) and _is_by(row[j + 1]) and row[j + 2].kind == "num" and len(values) < 6:
                if (row[j + 1].text == "by", row[j + 1].glued) != alike or (alike[0] and _tight(row, j + 3)):
                    break  # 64x32 by 32x16 are two sizes
                values.append(row[j + 2].value)
                j += 2
            if j > i:
                out.append(Token("size", "", token.start, row[j].stop, tuple(values), token.glued))
                i = j + 1
                continue
        out.append(Token("sign", token.text, token.start, token.stop) if token.kind == "by" else token)
        i += 1
    return out


def _tight(row: list[Token], i: int) -> bool:
    return i < len(row) and row[i].kind == "by"


def _is_by(token: Token) -> bool:
    return token.kind == "by" or token.text in ("x", "×", "by")
