"""Texts to begin with, read from the rooms they belong to. Modules are read as text and never imported here."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from playground import conf
from playground.requests import title_of

PLACES = (("program", "dsl/examples", "*.ucutlass"), ("module", "engine/problems", "*.py"))


@functools.cache
def all_examples(root: Path = conf.ROOT) -> list[dict[str, Any]]:
    """[{id, kind, title, text}], programs first, in the order of their file names."""
    found = []
    for kind, folder, pattern in PLACES:
        for path in sorted((root / folder).glob(pattern)):
            if path.name.startswith("_"):
                continue
            text = path.read_text(encoding="utf-8")
            found.append({"id": path.stem, "kind": kind, "title": title_of(text, kind), "text": text})
    return found
