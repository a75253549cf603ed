"""The distribution of the rehearsal's proposals, as a file that is committed before the runs.

For each problem: the candidates of its pool in the planner's order, by the digest of their texts, with their predicted
times and the chance of each at the first draw; and the mistakes that a reply without skill has, all with equal chance.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.bench.compare.request import BadRequest
from engine.llm.rehearse import mistakes, player, pool
from engine.suite.cases import PROBLEMS
from sol.hardware import load

HOW = "python -m engine.bench.studies.experiments --propose FILE"


class OtherProposals(BadRequest):
    """The rehearsal does not draw from the committed distribution."""


def distribution(problems: Sequence[str], cls: str, hardware: str = "h200") -> dict[str, Any]:
    return {
        "class": cls, "hardware": hardware, "step": player.STEP, "size": pool.SIZE,
        "mistakes": {"programs": list(mistakes.OF_PROGRAMS), "kernels": list(mistakes.OF_KERNELS)},
        "problems": {problem: candidates(problem, cls, hardware) for problem in problems},
    }  # fmt: skip


def candidates(problem: str, cls: str, hardware: str) -> list[dict[str, Any]]:
    source = (PROBLEMS / f"{problem}.py").read_text(encoding="utf-8")
    drawn = pool.pool(source, "module", (cls,), load(hardware).title)
    return [
        {"sha256": sha256(d.text.encode()).hexdigest()[:16], "change": d.change, "ms": d.ms,
         "chance": round(chance(place, len(drawn)), 6)}
        for place, d in enumerate(drawn)
    ]  # fmt: skip


def chance(place: int, many: int) -> float:
    """Of a candidate at the first draw: geometric, and the last one takes the rest (engine.llm.rehearse.player)."""
    before = (1 - player.STEP) ** place
    return before if place == many - 1 else before * player.STEP


def write(path: Path, problems: Sequence[str], cls: str) -> str:
    """Write the file and return its digest."""
    data = {"date": time.strftime("%Y-%m-%d", time.gmtime()), **distribution(problems, cls)}
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return digest(path)


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def checked(path: Path, problems: Sequence[str]) -> dict[str, str]:
    """{file, sha256} of a committed distribution, from which the rehearsal still draws. Raises OtherProposals."""
    try:
        committed = json.loads(path.read_text(encoding="utf-8"))
        known = {name: committed[name] for name in ("problems", "class", "hardware")}
    except (OSError, ValueError, KeyError, TypeError) as e:
        why = getattr(e, "strerror", None) or "it holds no proposals"
        raise OtherProposals(f"{path} cannot be read: {why}; write one: {HOW}") from None
    if lacking := [p for p in problems if p not in known["problems"]]:
        raise OtherProposals(f"{path.name} has no proposals for {', '.join(lacking)}; write a new one: {HOW}")
    now = distribution(problems, committed["class"], committed["hardware"])
    same = {name: value for name, value in committed.items() if name not in ("date", "problems")}
    differs = [name for name, value in same.items() if now[name] != value]
    differs += [p for p in problems if not _equal(now["problems"][p], committed["problems"][p])]
    if differs:
        raise OtherProposals(
            f"the rehearsal no longer draws from {path.name} ({', '.join(differs)} differ); write a new file with "
            "--propose and commit it before the runs"
        )
    return {"file": path.name, "sha256": digest(path)}


def _equal(now: list[dict[str, Any]], committed: list[dict[str, Any]]) -> bool:
    """Predicted times may differ in their last digits between machines."""

    def rounded(rows: list[dict[str, Any]]) -> list[tuple]:
        return [(r["sha256"], r["chance"], None if r["ms"] is None else float(f"{r['ms']:.6g}")) for r in rows]

    return rounded(now) == rounded(committed)


__all__ = ["OtherProposals", "checked", "digest", "distribution", "write"]
