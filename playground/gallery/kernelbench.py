"""KernelBench's problems in the gallery: a table of all, and a page for each with its best program and every trial.

The results are committed (static/data/kernelbench.json and the file of engine/results that it names), the benchmark's
own files are not: a visitor chooses a copy of them on the page, and its script opens one in the editor.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from playground import conf
from playground.gallery import suite
from playground.gallery.suite import Problem

PUBLISHED = conf.ROOT / "static" / "data" / "kernelbench.json"  # written by engine.bench.report.kernelbench_page


@functools.cache
def published() -> dict[str, Any] | None:
    """static/data/kernelbench.json; None if no results are committed."""
    return json.loads(PUBLISHED.read_text(encoding="utf-8")) if PUBLISHED.exists() else None


def problem(name: str) -> Problem | None:
    """The page of a problem; None if the results have no such problem."""
    results = published()
    row = next((row for row in results["rows"] if row["problem"] == name), None) if results else None
    return suite.shown(results, row, results["cls"], (results["cls"],), "") if row else None


__all__ = ["problem", "published"]
