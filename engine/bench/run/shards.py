"""One bench on several machines: divide the modules among them, and merge their results files.

    python -m engine bench suite59 --gpus all --shard 1/2 --json a.json    # and 2/2 on the other machine
    python -m engine bench merge a.json b.json --json bench.json

The GPUs of one machine need no shards (`--gpus`). Every process computes the same division: the weights are eager times
of the newest committed run of the suite.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.suite.cases import ROOT

RESULTS = ROOT / "engine/results"
FIXED = 10.0  # cost of any module (tracing, builds, launches), in ms of eager time
_ROW = {"id", "baselines", "limits", "trials", "refused", "session"}  # fields of each problem of a results file
SAME = ("gpu", "torch", "device", "hardware", "driver", "toolchain")
FAILED = "failed"  # state of a session that ended by an engine error


class BadResults(ValueError):
    """Files that are no results files, or that are of different machines; the message is one sentence."""


def parse(text: str) -> tuple[int, int]:
    """(2, 4) of `2/4`. Raises ValueError."""
    this, _, of = text.partition("/")
    if not (this.isdigit() and of.isdigit() and 1 <= int(this) <= int(of)):
        raise ValueError(f"--shard takes I/N with I from 1 to N, such as 1/4; not {text}")
    return int(this), int(of)


def weights() -> dict[str, float]:
    """Module -> eager time in ms, if the newest committed run of the suite has one."""
    times: dict[str, float] = {}
    for path in sorted(RESULTS.glob("suite59-*.json"), key=lambda p: p.stem[-10:]):
        for row in json.loads(path.read_text(encoding="utf-8"))["results"]:
            if "eager_ms" in row:
                times[row["problem"]] = row["eager_ms"]
    return times


def deal(modules: dict[str, str], shard: tuple[int, int], known: dict[str, float] | None = None) -> dict[str, str]:
    """The modules of one shard in the set's order. The longest is dealt first, each to the shard with the least
    work."""
    this, of = shard
    known = weights() if known is None else known
    usual = sorted(known.values())[len(known) // 2] if known else FIXED
    cost = {m: FIXED + known.get(m, usual) for m in modules}
    loads, dealt = [0.0] * of, {}
    for m in sorted(modules, key=lambda m: (-cost[m], m)):
        dealt[m] = loads.index(min(loads))
        loads[dealt[m]] += cost[m]
    return {m: pid for m, pid in modules.items() if dealt[m] == this - 1}


def evenly(modules: Iterable[str]) -> list[str]:
    """The modules in an order of which every beginning is spread over the whole set: each step goes on by the golden
    section of the set (an additive recurrence, whose points are the most even of all such steps)."""
    places = {module: place * (5**0.5 - 1) / 2 % 1 for place, module in enumerate(modules)}
    return sorted(places, key=lambda module: places[module])


def read(path: Path) -> dict[str, Any]:
    """{about, problems} of a results file of sessions. Raises BadResults."""
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise BadResults(f"cannot read {path}: {e.strerror}") from None
    except ValueError as e:
        raise BadResults(f"{path} is not a results file of a bench: {e}; name another, or move it away") from None
    contents = contents if isinstance(contents, dict) else {}
    about, problems = contents.get("about"), contents.get("problems")
    rows = list(problems.values()) if isinstance(problems, dict) else [None]
    if not isinstance(about, dict) or not all(isinstance(r, dict) and r.keys() >= _ROW for r in rows):
        raise BadResults(f"{path} is not a results file of a bench; name another, or move it away")
    return {"about": about, "problems": problems}


def merge(paths: Sequence[Path]) -> dict[str, Any]:
    """{about, problems} of all. If several files have a module, the session that ended last counts. Raises BadResults
    if two files are of different machines, or of sessions with different settings."""
    about: dict[str, Any] = {}
    problems: dict[str, dict] = {}
    for path in paths:
        contents = read(path)
        for name in SAME:
            if name in about and name in contents["about"] and about[name] != contents["about"][name]:
                words = f"{contents['about'][name]!r} where the files before it have {about[name]!r}"
                raise BadResults(f"{path} is of another machine or toolchain: its {name} is {words}")
        if about and about.get("sessions") != contents["about"].get("sessions"):
            raise BadResults(f"{path} is of sessions with other settings than the files before it")
        dates = [d for d in (about.get("date"), contents["about"].get("date")) if d]
        about = contents["about"] | about | ({"date": max(dates)} if dates else {})
        for module, row in contents["problems"].items():
            problems[module] = _later(problems[module], row) if module in problems else row
    return {"about": about, "problems": problems}


def _later(a: dict, b: dict) -> dict:
    """The later of two sessions on one module: shards that started from one file hold old copies of each other's
    rows."""
    return max(a, b, key=lambda row: (row["session"]["state"] != FAILED, row["session"]["t"]))
