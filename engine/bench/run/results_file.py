"""The results file of a bench: {about, problems: {module: row}}, report and state.

A row is a finished session, folded by engine.bench.run.fold: {id, baselines, limits, trials, refused, session, ..}.
`about.sessions` holds the settings that all sessions share. A file belongs to one request, so that no table mixes
budgets. Files of earlier benches have no `session` in their rows: the planner ran there without one, and a module in
regions is several rows. The report (engine.bench.report) reads both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.run import shards
from engine.bench.run.request import BESIDE
from engine.bench.run.shards import FAILED, BadResults


class ResultsFile:
    """Written whole after each session. `path`: None keeps the results in memory. Raises BadResults for a file with
    other contents, which would be overwritten."""

    def __init__(self, path: Path | None, settings: dict[str, Any]):
        self.path, self.about, self.problems = path, {"sessions": settings}, {}
        if path is None or not path.exists() or not path.stat().st_size:
            return
        contents = shards.read(path)
        theirs = contents["about"].get("sessions", {})
        names = dict.fromkeys([*settings, *BESIDE])
        if changed := [name for name in names if theirs.get(name) != settings.get(name)]:
            was = ", ".join(f"{name} {theirs.get(name)!r} there and {settings.get(name)!r} here" for name in changed)
            raise BadResults(f"{path} is of sessions with other settings ({was}); name another file")
        self.about, self.problems = contents["about"], contents["problems"]

    def finished(self, module: str, sha256: str = "") -> bool:
        """Return True if the problem's session ended. A session that ended by an engine error does not count, and none
        on another text. `sha256`: of the problem's text, if its row has it."""
        row = self.problems.get(module)
        return row is not None and row["session"]["state"] != FAILED and row.get("sha256", "") == sha256

    def put(self, module: str, row: dict[str, Any]) -> None:
        self.problems[module] = row
        self.write()

    def write(self) -> None:
        if self.path is not None:
            atomic_write.write_results(self.path, {"about": self.about, "problems": self.problems})
