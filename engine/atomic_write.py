"""A file that is written whole or not at all: who reads it beside the writer, or after a crash, finds the old text or
the new one, never a part."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """The folder exists. The part beside it is this thread's own, so that writers may race; the last one stands."""
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def write_results(path: Path, told: dict[str, Any]) -> None:
    """JSON as the files of engine/results are: a line a value."""
    write_text(path, json.dumps(told, indent=1) + "\n")
