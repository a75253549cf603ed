"""What each integrity filter is worth: an arm's figures as if the filter did not exist, one filter at a time.

A filter is a check by its name in the evidence of a trial (engine.evaluate.integrity): `results` compares results with
the module's, `limit` refuses a time below the hardware's, `precision` a product in less precision, and so on. A trial
that several filters refused stays refused while one of them is on. What a filter is worth is the factor by which the
geometric mean would be too high without it. A trial that was refused before it could have a time is counted as refused
and has no part in that factor; for programs with wrong results on a modelled device the model predicts the time that
they would have had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from engine.bench.compare.metrics import Row, best, geomean, with_pytorch
from engine.evaluate.integrity.findings import CODES, NOTE

OF_TRIALS = ("results", "algebra", "without kernels", "kernels", "streams", "clocks", "precision", "limit")
OF_KERNELS = tuple(code for code, (severity, _) in CODES.items() if severity != NOTE)  # of raw kernels alone
ALL = (*OF_TRIALS, *OF_KERNELS)


def names(rows: Sequence[Row]) -> list[str]:
    """Every filter: those that refused a trial, the busiest first, then the others."""
    refused = Counter(name for row in rows for t in row["trials"] for name in t.get("bad", []))
    return list(dict.fromkeys([*(name for name, _ in refused.most_common()), *ALL]))


def worth(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for all filters on, one for each filter off, also where it refused nothing, one for all off: {off,
    refused, untimed, geomean, factor, changed}. `refused`: trials that the filter refused; `untimed`: those of them
    without a time; `geomean`: with PyTorch kept; `changed`: sessions whose best would be another one."""
    on = _geomean(rows, ())
    lines: list[dict[str, Any]] = [
        {"off": "none", "refused": None, "untimed": None, "geomean": on, "factor": 1.0, "changed": 0}
    ]
    for name in [*names(rows), "*"]:
        refused = [t for row in rows for t in row["trials"] if t.get("bad") and (name == "*" or name in t["bad"])]
        off = (name,)
        without = _geomean(rows, off) if refused else on
        lines.append({
            "off": "all" if name == "*" else name, "refused": len(refused),
            "untimed": sum(not t.get("ratio") for t in refused), "geomean": without, "factor": without / on,
            "changed": sum(best(r, off=off) != best(r) for r in rows) if refused else 0,
        })  # fmt: skip
    return lines


def _geomean(rows: Sequence[Row], off: Sequence[str]) -> float:
    return geomean(with_pytorch(best(row, off=off)) for row in rows) or 1.0
