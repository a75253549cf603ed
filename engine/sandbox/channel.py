"""JSON lines between the engine and a confined child, over two inherited pipes, each line bounded."""

from __future__ import annotations

import json
import os

MAX_REQUEST = 4 << 20
MAX_REPLY = 32 << 20
PASTED = "module.py"  # the file name of pasted text in tracebacks


class Garbled(Exception):
    """The other side sent a message that is too long or no JSON object."""


def encode(message: dict, limit: int) -> bytes:
    line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    if len(line) > limit:
        raise Garbled(f"a message of {len(line)} bytes is over the limit of {limit}")
    return line


def decode(line: bytes) -> dict:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise Garbled(f"not JSON: {e}") from None
    if not isinstance(message, dict):
        raise Garbled("not a JSON object")
    return message


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
