"""Write a file whole or not at all: a reader beside the writer, or after a crash, finds the old text or the new one,
never a part."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whose folder must exist. Each thread writes its own temporary file, so writers may race;
    the last one wins. A link stays, and its target is replaced. A device or a pipe, such as /dev/null, is written to:
    to replace it would take it from every other program."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def write_results(path: Path, results: dict[str, Any]) -> None:
    """JSON in the format of engine/results: one value per line."""
    write_text(path, json.dumps(results, indent=1) + "\n")
