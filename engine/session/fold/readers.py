"""Readers of the JSON values of a log.

Another version of the engine may have written the JSON. A field that is missing or has another type gets its empty
value ("" for a text, None for a number, {} or [] for a container); an unknown field is dropped.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeVar

Object = dict[str, Any]
T = TypeVar("T")

MOST = 2**53 - 1  # the largest integer that JSON in a browser holds exactly


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """A finite number. An integer that a browser cannot hold becomes the nearest float, as in the browser."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) <= MOST:
        return value
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    value = number(value)
    return int(value) if value is not None and abs(value) <= MOST and value == int(value) else None


def flag(value: Any) -> bool:
    return value is True


def obj(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list | tuple) else []


def objects(value: Any) -> list[Object]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list | tuple) else []


def wholes(value: Any) -> list[int]:
    return [n for v in value if (n := whole(v)) is not None] if isinstance(value, list | tuple) else []


def numbers(value: Any) -> dict[str, float]:
    return {k: n for k, v in obj(value).items() if (n := number(v)) is not None}


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": text, "float | None": number, "int | None": whole, "bool": flag, "Object": obj, "list[str]": texts,
    "list[Object]": objects, "list[int]": wholes, "dict[str, float]": numbers,
}  # fmt: skip


def read(cls: type[T], data: Object, **known: Any) -> T:
    """The dataclass with its fields read from `data` by their types, except the fields in `known`."""
    fields = (f for f in dataclasses.fields(cls) if f.name not in known)  # type: ignore[arg-type]
    return cls(**{f.name: _READERS[f.type](data.get(f.name)) for f in fields}, **known)
