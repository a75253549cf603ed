"""A place in a row of tokens, and what stands around it."""

from __future__ import annotations

from typing import Any

from playground.words.tokens import Token
from playground.words.vocabulary import STEMS

LONGEST = 5  # words of a phrase
_LINKS = frozenset(("of", "is", "=", ":", "are", "size", "equal", "equals"))
_ARTICLES = frozenset(("a", "an", "the", "its", "each", "every", "some", "all", "two", "one", "of"))


class Cursor:
    """`i`: the index of the token to read next. Words are compared by their stems."""

    def __init__(self, row: list[Token]):
        self.row, self.i = row, 0
        self._stems = [STEMS.get(t.text, t.text) if t.kind == "word" else "" for t in row]

    def _at(self, i: int) -> Token | None:
        return self.row[i] if 0 <= i < len(self.row) else None

    def _is(self, i: int, *words: str) -> bool:
        token = self._at(i)
        return token is not None and (token.text in words or self._stems[i] in words)

    def _kind(self, i: int) -> str:
        token = self._at(i)
        return token.kind if token else ""

    def _phrase(self, table: dict, i: int) -> tuple[int, Any]:
        """(words, entry) of the longest phrase of a table at i; (0, None) if there is none."""
        words = []
        for stem in self._stems[i : i + LONGEST]:
            if not stem:
                break
            words.append(stem)
        for n in range(len(words), 0, -1):
            if tuple(words[:n]) in table:
                return n, table[tuple(words[:n])]
        return 0, None

    def _after_link(self, i: int) -> int:
        """The index behind "of", "=" and the like."""
        for _ in range(2):
            if self._is(i, *_LINKS):
                i += 1
        return i

    def _skip(self, i: int, words: frozenset[str] = _ARTICLES) -> int:
        for _ in range(3):
            if self._is(i, *words):
                i += 1
        return i

    def _chained(self, k: int) -> bool:
        return (self._is(k + 1, "to") or self._kind(k + 1) == "arrow") and self._kind(k + 2) == "num"
