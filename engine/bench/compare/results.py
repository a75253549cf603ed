"""The results file of a comparison: {about, rows}, one row a session. A later call with the same request goes on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.compare.request import BadRequest, Cell

OFTEN = 15.0  # seconds between two writes


class Results:
    """`path`: None keeps the rows in memory. Raises BadRequest for a file of another comparison, and for a name that
    cannot hold the results to the end."""

    def __init__(self, path: Path | None, about: dict[str, Any]):
        self.path, self.about, self.rows = path, about, {}
        self._written = 0.0
        if path is not None:
            if path.exists() and not path.is_file():
                raise BadRequest(f"{path} is no file, and results are read again to go on from; name a file")
            beside_its_report(path)
        if path is None or not path.exists() or not path.stat().st_size:
            return
        try:
            theirs = json.loads(path.read_text(encoding="utf-8"))
            before, rows = theirs["about"], theirs["rows"]
            self.rows = {_key(row): row for row in rows}
        except (ValueError, KeyError, TypeError) as e:
            raise BadRequest(f"{path} holds no comparison ({type(e).__name__}); name another file") from None
        for name in ("request", "proposals"):
            if before.get(name) != about.get(name):
                raise BadRequest(f"{path} is of a comparison with another {name}; name another file")
        self.about |= {"seconds": before.get("seconds", 0.0), "sittings": before.get("sittings", 1) + 1}

    def finished(self, cell: Cell) -> bool:
        """Return True if the cell's session ended. One that ended by a mistake of the engine is played again."""
        row = self.rows.get(cell.key)
        return row is not None and row["state"] != "failed"

    def put(self, rows: list[dict[str, Any]]) -> None:
        self.rows |= {_key(row): row for row in rows}
        if time.monotonic() - self._written > OFTEN:
            self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        if self.path is None:
            return
        head = json.dumps({"about": self.about}, indent=1, ensure_ascii=False)
        rows = ",\n".join(json.dumps(self.rows[key], ensure_ascii=False) for key in sorted(self.rows))
        atomic_write.write_text(self.path, f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n')


def beside_its_report(path: Path) -> None:
    """Raises BadRequest for a name of results that is the name of their report."""
    if path.suffix == ".md":
        raise BadRequest(f"the report would overwrite the results in {path}; name {path.with_suffix('.json')}")


def _key(row: dict[str, Any]) -> str:
    return Cell(row["arm"], row["problem"], row["skill"], row["seed"]).key
