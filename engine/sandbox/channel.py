"""JSON lines between the engine and a confined child, over two inherited pipes, each line bounded.

The engine writes requests and trusts them. A reply is untrusted in every byte: `decode_reply` bounds the time and the
memory of reading it, and removes what a terminal or a page would interpret.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

MAX_REQUEST = 4 << 20
MAX_REPLY = 32 << 20
MAX_ELEMENTS = 1 << 20  # values and keys of a reply: 150 MB as Python objects. A graph of 5,000 operations has 200,000.
MAX_DEPTH = 64
MAX_DIGITS = 40  # of a number; a 64-bit integer has 19, a float64 at most 24 characters
PASTED = "module.py"  # the file name of pasted text in tracebacks

# C0 without tab and newline, DEL, C1, the controls of text direction, line separators, lone surrogates, and what takes
# no room: soft hyphens, spaces of no width, word joiners, fillers, variation selectors, tags. Marks of Arabic, Syriac
# and Kaithi that Unicode calls controls too (U+0600) are seen, and stay.
_UNPRINTABLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Joiners change how letters of scripts from Arabic to Khmer are written, and join emoji. Elsewhere nobody sees them.
_JOINS = "\u0620-\u10ff\u1200-\u17af\u2600-\u27bf\U0001f000-\U0001faff"
_LONE_JOINERS = re.compile(f"(?<![{_JOINS}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINS}])")


class Garbled(Exception):
    """The other side sent a message that is too long, too large or no JSON object."""


def encode(message: dict, limit: int) -> bytes:
    line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    if len(line) > limit:
        raise Garbled(f"a message of {len(line)} bytes is over the limit of {limit}")
    return line


def decode(line: bytes) -> dict:
    """A request of the engine, as it is: pasted text may contain any character."""
    return _object(json.loads, line)


def decode_reply(line: bytes) -> dict:
    """A reply of a child, without unprintable characters in its strings and keys. Raises Garbled for a reply that is no
    JSON object, has more than MAX_ELEMENTS elements or MAX_DEPTH levels, a number that is not finite or has more than
    MAX_DIGITS characters, or the same key twice."""
    if sum(map(line.count, (b",", b":", b"[", b"{"))) > MAX_ELEMENTS:  # also those inside strings
        raise Garbled(f"more than {MAX_ELEMENTS} elements")
    message = _object(lambda text: _reply.decode(text.decode().strip()), line)
    _clean(message)
    return message


def printable(text: str) -> str:
    """The text without control characters (except tab and newline), controls of text direction, lone surrogates, and
    characters that nobody sees."""
    if text.isascii():
        return text if text.isprintable() else _UNPRINTABLE.sub("", text)
    if "\u200c" in text or "\u200d" in text:
        text = _LONE_JOINERS.sub("", text)
    return _UNPRINTABLE.sub("", text)


def _object(read: Any, line: bytes) -> dict:
    try:
        message = read(line)
    except (ValueError, RecursionError) as e:
        raise Garbled(f"not JSON: {printable(str(e))[:200]}") from None
    if not isinstance(message, dict):
        raise Garbled("not a JSON object")
    return message


def _clean(message: dict) -> None:
    """Clean every string value in place, level by level: the depth of a reply is not the depth of our stack."""
    level: list[Any] = [message]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            for key, value in container.items() if isinstance(container, dict) else enumerate(container):
                if isinstance(value, str):
                    container[key] = printable(value)
                elif isinstance(value, (dict, list)):
                    below.append(value)
        if not below:
            return
        level = below
    raise Garbled(f"more than {MAX_DEPTH} levels")


def _pairs(pairs: list[tuple[str, Any]]) -> dict:
    unique = {printable(key): value for key, value in pairs}
    if len(unique) != len(pairs):
        raise Garbled("the same key twice")
    return unique


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Garbled(f"an integer of {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits) if len(digits) <= MAX_DIGITS else math.inf
    if not math.isfinite(value):
        raise Garbled("a number that is not finite, or is too long")
    return value


def _constant(name: str) -> float:
    raise Garbled(f"the number {name}")


_reply = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_real, parse_constant=_constant
)  # fmt: skip


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
