"""Catalogues of translations: `django.po` as people edit it, `django.mo` as gettext reads it, without gettext's tools.

`manage.py lessons translate` writes the `.mo` files anew. Both are in the repository, and a test compares them.
"""

from __future__ import annotations

import ast
import re
import struct
from pathlib import Path

ROOMS = Path(__file__).resolve().parents[1]
_LINE = re.compile(r'(msgid|msgstr)?\s*("(?:[^"\\]|\\.)*")$')


class CatalogueError(ValueError):
    """A line of a catalogue that cannot be read."""


def files() -> list[Path]:
    """Every catalogue of the app: playground/*/locale/LANGUAGE/LC_MESSAGES/django.po."""
    return sorted(ROOMS.glob("*/locale/*/LC_MESSAGES/django.po"))


def read(text: str) -> dict[str, str]:
    """Message -> translation; the head under "". Plural forms and contexts are not used here. Raises CatalogueError."""
    messages: dict[str, str] = {}
    parts = {"msgid": "", "msgstr": ""}
    key = ""
    for number, line in enumerate([*text.split("\n"), ""], 1):
        line = line.strip()
        if line.startswith("#"):
            continue
        match = _LINE.match(line)
        if line and not match:
            raise CatalogueError(f"line {number}: {line[:40]!r} is neither msgid, msgstr nor a text in quotes")
        if not line or (match and match[1] == "msgid"):
            if key:
                messages[parts["msgid"]] = parts["msgstr"]
            parts, key = {"msgid": "", "msgstr": ""}, ""
        if match:
            key = match[1] or key
            if not key:
                raise CatalogueError(f"line {number}: a text without msgid or msgstr")
            parts[key] += ast.literal_eval(match[2])
    return messages


def compiled(messages: dict[str, str]) -> bytes:
    """The `.mo` form (GNU gettext manual, "The Format of GNU MO Files"): sorted messages, little-endian, no hash
    table. Messages without a translation are left out, so they fall back to English."""
    rows = sorted((k.encode(), v.encode()) for k, v in messages.items() if v)
    count, start = len(rows), 28
    at = start + 16 * count
    keys, values, body = [], [], b""
    for column, index in ((keys, 0), (values, 1)):
        for row in rows:
            column.append((len(row[index]), at + len(body)))
            body += row[index] + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, count, start, start + 8 * count, 0, at)
    return head + b"".join(struct.pack("<2I", *pair) for pair in [*keys, *values]) + body


def compile_all() -> list[Path]:
    """Write the `.mo` file beside each catalogue; returns those that changed."""
    changed = []
    for path in files():
        target, content = path.with_suffix(".mo"), compiled(read(path.read_text(encoding="utf-8")))
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)
            changed.append(target)
    return changed
