"""A committed bench as the gallery's data: static/data/bench.json, computed from the results file alone."""

from __future__ import annotations

from typing import Any

from engine.bench.report.bench_report import aims, classes, notes
from engine.bench.report.charts import fast_p, speedup_gap
from engine.bench.report.table import NAMES, Line, lines, summary, words

HEAD = (
    "problem", "suite", "ours, ms", "over eager", "over PyTorch's best", "of the limit", "error", "trials", "verdict"
)  # fmt: skip


def page(results: dict[str, Any], name: str) -> dict[str, Any]:
    """{from, gpu, driver, date, torch, command, ways, head, classes: {class: {words, fast_p, rows}}, speedup_gap}.

    `ways`: the names of PyTorch's ways, for people. A row is {problem, level, result, number, cells, values}. `cells`:
    texts, one for each of `head`; `values`: what each column sorts by, None where nothing was timed; `result`: faster |
    slower (than the fastest of PyTorch's ways that the class allows) | none (no program); `number`: the best trial's
    place among the problem's trials in the file `from`, from 1, or None.
    """
    rows = {cls: lines(results["problems"], cls) for cls in classes(results)}
    content: dict[str, Any] = {
        "from": name, **{k: results[k] for k in ("gpu", "driver", "date", "command")},
        "torch": results["toolchain"]["torch"], "ways": NAMES, "head": HEAD,
        "classes": {}, "speedup_gap": speedup_gap(rows).to_json(),
    }  # fmt: skip
    for cls, some in rows.items():
        s = summary(results["problems"], cls)
        content["classes"][cls] = {
            "words": [*words(s, cls)[:1], *won_otherwise(s, cls), *aims(s, cls)],
            "fast_p": fast_p(some, cls).to_json(), "rows": [_row(x, cls, n) for n, x in enumerate(some)],
        }  # fmt: skip
    return content


def won_otherwise(s: dict, cls: str) -> list[str]:
    """How many of the entries are products of another precision than the class's name."""
    guarded, finer = len(s["guarded"]), len(s["finer"])
    return [
        *([f"{guarded} of {s['problems']} are f16 products under a guard that computes all again in f32 outside of "
           "f16's range; their limit is f16's"] if guarded else []),
        *([f"{finer} of {s['problems']} are products of a class finer than {cls}"] if finer else []),
    ]  # fmt: skip


def _row(x: Line, cls: str, place: int) -> dict[str, Any]:
    row: dict[str, Any] = {"problem": x.module, "level": level(x.pid)}
    over, trials = x.over.get("eager"), x.trials
    if x.trial is None:
        verdict = f"no program: {x.why[:160]}"
        cells = [x.module, x.pid, "", times(over), "", "", "", str(trials), verdict]
        values = [x.module, place, None, over, None, None, None, trials, verdict]
        return row | {"result": "none", "number": None, "cells": cells, "values": values}
    t = x.trial
    verdict = ", ".join([*notes(x), *([f"{t['by']} products"] if t["by"] != cls else [])])
    cells = [
        x.module, x.pid, f"{t['ms']:.4f}", times(over), f"{times(x.against)} ({NAMES[x.rival]})" if x.rival else "",
        f"{1 / t['gap']:.0%}", f"{t['error']:.1e}", str(trials), verdict,
    ]  # fmt: skip
    values = [x.module, place, t["ms"], over, x.against, 1 / t["gap"], t["error"], trials, verdict]
    result = "faster" if x.against is not None and x.against >= 1 else "slower"
    return row | {"result": result, "number": t["number"], "cells": cells, "values": [short(v) for v in values]}


def level(pid: str) -> int | None:
    """The level in a problem's id, such as L1/55."""
    return int(pid[1]) if pid[1:2].isdecimal() else None


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"


def short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
