"""A committed bench over KernelBench as the gallery's data: `python -m engine.bench.report.kernelbench_page`.

It writes static/data/kernelbench.json from the newest engine/results/kernelbench-*-rows-*.json, which holds every
trial. KernelBench's own files are not here: a row has the SHA-256 of the module that was measured, by which a page
knows it in a visitor's copy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.bench.report import collect, kernelbench
from engine.bench.report.charts import fast_p
from engine.bench.report.kernelbench import Case
from engine.bench.report.page import level, short, times
from engine.bench.report.table import NAMES, Line, line
from engine.suite.folder import natural

ROOT = Path(__file__).resolve().parents[3]
RESULTS, PAGE = ROOT / "engine/results", ROOT / "static/data/kernelbench.json"
ALL = 250  # problems of levels 1 to 3
OVER = ("eager", "compile_f32", "compile")  # the columns of the levels
HEAD = (
    "problem", "number", "ours, ms", "over eager", "over torch.compile TF32", "over PyTorch's best", "of the limit",
    "trials", "outcome",
)  # fmt: skip
LEVELS = (
    "level", "problems", "with a right program", "result over eager as shipped", "result over torch.compile as shipped",
    "result over torch.compile TF32", "our programs alone over torch.compile TF32", "PyTorch itself is the result",
)  # fmt: skip


def committed() -> Path | None:
    """The newest committed file with every trial."""
    return collect.newest(RESULTS.glob("kernelbench-*-rows-*.json"))


def page(results: dict[str, Any], name: str) -> dict[str, Any]:
    """{from, gpu, gpus, driver, date, torch, command, ways, cls, words, levels: {head, rows}, head, fast_p, rows}. A
    row is as in engine.bench.report.page, with `sha256`."""
    about, problems = results["about"], results["problems"]
    cls = about["sessions"]["classes"][0]
    cases = kernelbench.report(results, cls)
    levels = cases["levels"]
    names = sorted(problems, key=natural)
    lines = [line(one, problems[one], cls) for one in names]
    return {
        "from": name, **{k: about[k] for k in ("gpu", "gpus", "driver", "date", "torch")},
        "command": results["command"], "ways": NAMES, "cls": cls, "words": words(levels.get("all"), len(names)),
        "levels": {"head": LEVELS, "rows": [_level(*item) for item in levels.items()]},
        "head": HEAD, "fast_p": fast_p(lines, cls).to_json(),
        "rows": [
            _row(x, Case(**c), n, problems[x.module])
            for n, (x, c) in enumerate(zip(lines, cases["rows"], strict=True))
        ],
    }  # fmt: skip


def words(s: dict[str, Any] | None, many: int) -> list[str]:
    """What the whole comes to, in sentences; none of a bench over one level."""
    if s is None:
        return []
    every = s["means"]["every problem"]
    part = "" if many == ALL else f", a part of the {ALL}"
    mean = {who: every[who]["compile"]["mean"] for who in every}
    return [
        f"{s['ours']} of {many} problems have a right program{part}; the result is {mean['result']:.2f} times as fast "
        f"as torch.compile with TF32 in the geometric mean, our programs alone {mean['ours']:.2f} times.",
        f"The result is our program, or PyTorch's fastest way where no program is faster: {_itself(s)} problems.",
        f"Refused: {s['refused']}. No wrong program counts: each was held against the module in float64.",
    ]


def _itself(s: dict[str, Any]) -> int:
    """Problems whose result is PyTorch."""
    return s["problems"] - s["ours"] + s["slower_than_pytorch"]


def _level(name: str, s: dict[str, Any]) -> list[str]:
    every = s["means"]["every problem"]
    over = [times(every["result"][n]["mean"]) for n in OVER]
    return [name, str(s["problems"]), str(s["ours"]), *over, times(every["ours"]["compile"]["mean"]), str(_itself(s))]


def _row(x: Line, c: Case, place: int, row: dict[str, Any]) -> dict[str, Any]:
    over, against = x.over.get("eager"), c.against
    compiled, stays = x.over.get("compile"), ", ".join(f"{op} ×{n}" if n > 1 else op for op, n in c.stays.items())
    share, ms = 1 / c.gap if c.gap else None, x.trial["ms"] if x.trial else None
    outcome = c.cause or (f"PyTorch computes {stays}" if stays else "one program")
    rival = f"{times(against)} ({NAMES[x.rival]})" if x.rival and against else ""
    cells = [
        x.module.partition("/")[2] or x.module, x.pid, f"{ms:.4f}" if ms else "", times(over), times(compiled), rival,
        f"{share:.0%}" if share and ms else "", str(len(row["trials"])), outcome[:160],
    ]  # fmt: skip
    values = [
        cells[0], place, ms, over, compiled, against, share if ms else None, len(row["trials"]), cells[-1],
    ]  # fmt: skip
    result = "none" if ms is None else "faster" if against is not None and against >= 1 else "slower"
    number = x.trial["number"] if x.trial else None
    return {
        "problem": x.module, "level": level(x.pid), "result": result, "number": number, "cells": cells,
        "values": [short(v) for v in values], "sha256": row["sha256"],
    }  # fmt: skip


def main() -> int:
    source = committed()
    if source is None:
        print("there is no engine/results/kernelbench-*-rows-*.json to publish", file=sys.stderr)
        return 2
    content = page(json.loads(source.read_text(encoding="utf-8")), source.name)
    PAGE.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
