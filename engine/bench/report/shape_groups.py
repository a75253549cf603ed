"""Publish the study of shape groups: `python -m engine.bench.report.shape_groups`.

It writes static/data/shape_groups.json, what the gallery draws, from the newest committed results and the later runs of
parts of them: each problem's means and shapes beside what arXiv 2601.12698 published of it. A problem without figures
says why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.report import collect
from engine.bench.studies.shape_groups.rows import ARMS, best_of, compiled_of, words
from engine.suite.shape_groups import GROUPS, ShapeGroup

ROOT = Path(__file__).resolve().parents[3]
RESULTS, PAGE = ROOT / "engine/results", ROOT / "static/data/shape_groups.json"
WHERE = {"tuned": "tuned shapes, mean", "unseen": "unseen shapes, mean"}
NAMES = {"silu_and_mul": "SiLU and mul", "add_rms_norm": "fused-add RMS norm", "cross_entropy": "cross entropy",
         "merge_attention_states": "merge of attention states", "gelu_and_mul": "GELU and mul",
         "relu_squared": "squared ReLU"}  # fmt: skip
HEAD = (
    "shape", "kernel", "µs", "a copy, µs", "of the bandwidth's bound", "of the copy", "over PyTorch",
    "over torch.compile",
)  # fmt: skip
STUDY = "python -m engine.bench.studies.shape_groups"
NONE = "–"


def committed() -> Path | None:
    """The newest committed results, parts left out."""
    return collect.newest(p for p in RESULTS.glob("shape-groups-*.json") if "-part-" not in p.stem)


def renewed(results: dict[str, Any], path: Path, parts: Sequence[Path]) -> tuple[dict[str, Any], str]:
    """(results, the names they are from) with the rows that a later run of a part measured anew, to its end, on the
    same GPU. `path`: of the results."""
    rows = {(row["problem"], row["cls"]): (row, path.name) for row in results["rows"]}
    for part in sorted(parts, key=lambda p: (p.stem[-10:], p.stem)):
        again = json.loads(part.read_text(encoding="utf-8"))
        if again["date"] < results["date"] or again["gpu"] != results["gpu"]:
            continue
        rows |= {(r["problem"], r["cls"]): (r, part.name) for r in again["rows"] if r["ended"] and r["general"]}
    names = list(dict.fromkeys(name for _, name in rows.values()))
    return results | {"rows": [row for row, _ in rows.values()]}, listed(names)


def page(results: dict[str, Any], name: str) -> dict[str, Any]:
    """{from, gpu, driver, date, command, model, kind, cut, head, problems}. A problem is {name, title, shapes,
    published, general, why, tables: [{cls, rows: [[cell for each of `head`]]}]}; `why` says what is missing."""
    about = {k: results[k] for k in ("gpu", "driver", "date", "command", "model", "kind")}
    problems = [problem(group, results) for group in GROUPS.values()]
    return {
        "from": name, **about, "cut": results.get("cut", ""), "missing": missing(problems), "head": HEAD,
        "problems": problems,
    }  # fmt: skip


def missing(problems: Sequence[dict[str, Any]]) -> dict[str, str] | None:
    """Which problems have no figures, as {words, command}: a sentence, and what measures them; None without any."""
    bare = [p for p in problems if not p["tables"]]
    if not bare:
        return None
    titles, names = listed([p["title"] for p in bare]), ",".join(p["name"] for p in bare)
    words = f"{len(bare)} of the {len(problems)} problems were not measured on a GPU as a group: {titles}."
    return {"words": words, "command": f"{STUDY} --device cuda --only {names}"}


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def problem(group: ShapeGroup, results: dict[str, Any]) -> dict[str, Any]:
    rows = [row for row in results["rows"] if row["problem"] == group.name]
    published = next((p for p in results["published"] if p["problem"] == group.name), None)
    shapes = {"tuned": group.tuned, "unseen": group.unseen}
    return {
        "name": group.name, "title": NAMES[group.name], "published": _published(published),
        "shapes": {where: ", ".join(words(s) for s in some) for where, some in shapes.items()},
        "general": next((_settings(row["general"]) for row in rows if row["general"]), ""),
        "why": why(rows), "tables": [{"cls": row["cls"], "rows": table(row, group)} for row in rows if row["shapes"]],
    }  # fmt: skip


def why(rows: list[dict[str, Any]]) -> str:
    """Why a problem lacks figures; "" if it lacks none."""
    if not rows:
        return "not measured on a GPU as a group yet"
    missing = [f"{row['cls']}: {row['why']}" for row in rows if row["why"]]
    for row in rows:
        lacking = [ARMS[arm] for arm in ARMS if not any(best_of(s, arm) for s in row["shapes"])]
        lacking += [] if any(s["copy"] and s["copy"].get("ms") for s in row["shapes"]) else ["a copy"]
        if not row["why"] and lacking:
            cut = "" if row.get("ended", True) else ", because the run was cut"
            missing.append(f"{row['cls']}: without a time{cut}: {', '.join(lacking)}")
    return "; ".join(missing)


def table(row: dict[str, Any], group: ShapeGroup) -> list[list[str]]:
    """The means of each arm that has a time, then each shape."""
    lines = []
    for where, title in WHERE.items():
        for arm, kernel in ARMS.items():
            m = row["summary"][f"{arm}_{where}"]
            if m["right"]:
                shares = [_percent(m["bandwidth"]), _percent(m["copy"])]
                times = [_times(m["speedup"]), _times(m["compiled"])]
                lines.append(
                    [f"{title} of {m['right']} of {len(getattr(group, where))}", kernel, NONE, NONE, *shares, *times]
                )
    for s in row["shapes"]:
        for arm, kernel in ARMS.items():
            if (timed := best_of(s, arm)) is not None:
                share = s["shares"][arm]
                lines.append([
                    words(s["shape"]) + ("" if s["tuned"] else ", unseen"), kernel, _us(timed["ms"]),
                    _us((s["copy"] or {}).get("ms")), _percent(share["bandwidth"]), _percent(share["copy"]),
                    _times(timed["speedup"]), _times(compiled_of(s, timed)),
                ])  # fmt: skip
    return lines


def _published(p: dict[str, Any] | None) -> str:
    if p is None:
        return ""
    return f"{p['two_stage']:.2f}x, Astra {p['astra']:.2f}x, over SGLang's own kernel, which took {p['before_us']} µs"


def _settings(general: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in general["settings"].items())


def _us(ms: float | None) -> str:
    return f"{1e3 * ms:.4g}" if ms else NONE


def _percent(share: float | None) -> str:
    return f"{share:.0%}" if share else NONE


def _times(ratio: float | None) -> str:
    return f"{ratio:.2f}x" if ratio else NONE


def content() -> dict[str, Any] | None:
    """The page of the newest committed results; None if there are none."""
    path = committed()
    if path is None:
        return None
    results = json.loads(path.read_text(encoding="utf-8"))
    return page(*renewed(results, path, list(RESULTS.glob("shape-groups-part-*.json"))))


def main() -> int:
    data = content()
    if data is None:
        print(f"error: there is no shape-groups-GPU-DATE.json in {RESULTS}", file=sys.stderr)
        return 2
    atomic_write.write_text(PAGE, json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    print(f"wrote {PAGE.relative_to(ROOT)} from {data['from']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
