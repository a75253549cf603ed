"""Reads a model's reply as a pydantic model, although models wrap, decorate and bend JSON.

    value, error = read(text, Plan)

The reply may be the JSON alone, or JSON in a fence or between sentences. Trailing commas and line ends inside strings
are accepted. If several objects of a reply fit the model, the last one counts, because models write drafts first. An
object inside of another one that is JSON is never taken.

`read` is a function of its arguments alone, so a replayed session reads the same value from its log. Its time is linear
in the length of the text: at most MOST_STARTS places are tried, and at most WORK times the text is scanned. This module
imports nothing of the engine (engine.strategies.api imports it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, RootModel, ValidationError

M = TypeVar("M", bound=BaseModel)

MOST_STARTS = 2000  # places of the text that may begin an object
WORK = 4  # how often the text's length may be scanned
DEEPEST = 64  # levels of brackets
_TOKEN = re.compile(r'["{}\[\]]')
_QUOTE = re.compile(r'["\\]')


def read(text: str, model: type[M]) -> tuple[M | None, str]:
    """The reply as `model`, and "" or its first error in words: where, and what is wrong."""
    try:
        return model.model_validate_json(text), ""
    except ValidationError as e:
        error = _words(e)
    opening = "[" if issubclass(model, RootModel) and model.model_json_schema().get("type") == "array" else "{"
    value, wrong = None, ""
    for candidate in _values(text, opening):
        try:
            value = model.model_validate_json(candidate)
        except ValidationError as e:
            wrong = _words(e)
    if value is not None:
        return value, ""
    if wrong:
        return None, wrong
    if not text.strip():
        return None, "the reply: it is empty"
    return None, error if text.lstrip().startswith(opening) else f"the reply: it holds no JSON {_KIND[opening]}"


_KIND = {"{": "object", "[": "list"}


def _words(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the reply"
    return f"{where}: {first['msg']}"[:500]


def _values(text: str, opening: str) -> Iterator[str]:
    """The outermost JSON values of the text that begin with `opening`, each as strict JSON."""
    at, left = text.find(opening), WORK * len(text) + 1
    for _ in range(MOST_STARTS):
        if at < 0 or left <= 0:
            return
        whole, end, closers = _balanced(text, at)
        left -= end - at
        candidate = _strict(text, at, end, closers) if whole else None
        if candidate is not None:
            yield candidate
        at = text.find(opening, end if candidate is not None else at + 1)


def _balanced(text: str, start: int) -> tuple[bool, int, list[int]]:
    """Whether the brackets that open at `start` are all closed, the position where the scan ended, and the positions of
    the closing brackets."""
    closers: list[int] = []
    depth, at = 0, start
    while (token := _TOKEN.search(text, at)) is not None:
        at, char = token.end(), token.group()
        if char == '"':
            at = _after_string(text, at)
            if at < 0:
                return False, len(text), []
        elif char in "{[":
            depth += 1
            if depth > DEEPEST:
                return False, at, []
        else:
            depth -= 1
            closers.append(token.start())
            if depth == 0:
                return True, at, closers
    return False, len(text), []


def _after_string(text: str, at: int) -> int:
    """The position after the string whose first character is at `at`; -1 if nothing closes it."""
    while (mark := _QUOTE.search(text, at)) is not None:
        if mark.group() == '"':
            return mark.end()
        at = mark.end() + 1  # what a backslash escapes
    return -1


def _strict(text: str, start: int, end: int, closers: list[int]) -> str | None:
    """text[start:end] as strict JSON, or None if it is not even tolerable JSON."""
    parts, at = [], start
    for closer in closers:  # leave out a comma that stands before a closing bracket
        part = text[at:closer].rstrip()
        parts.append(part.removesuffix(",") if part.endswith(",") else text[at:closer])
        at = closer
    parts.append(text[at:end])
    try:
        value: Any = json.loads("".join(parts), strict=False)
        return json.dumps(value)
    except (ValueError, RecursionError):
        return None
