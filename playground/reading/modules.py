"""The limit of a module while it is typed: an engine traces the text in its sandbox, this process prices the graph.

The web process has no torch. A page sends the text (`ask`); an engine answers with the op graph or with the mistake
(`trace` in the engine command); `look` makes the SOL report of it for a GPU, and the limits of every other GPU beside
it. An answer serves everybody who sends the same text within a quarter of an hour.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from django.db.models import Q
from django.utils import timezone

from playground import engines
from playground.live import desk
from playground.models import Description
from sol.bounds import bounds, legal_classes
from sol.figures import of_report
from sol.graph import OpGraph
from sol.hardware import Hardware, HardwareError, available, load
from sol.report import Garbled, of_a_trace, report

KIND = "module"
AT_ONCE = 2  # modules that an engine traces beside its sessions
EVERY = 0.2  # seconds between two looks of an engine for one: somebody types
LEVERS = 3  # that the page shows
CHARACTERS = 20_000  # of a graph that are priced as fast as a check of a program
GPUS = tuple(name for name in available() if name != "cpu")


def ask(origin: str, text: str) -> Description:
    """The row of a text: an answered one, one of the same address, or a new one. Raises Refused."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    same = Description.objects.filter(kind=KIND, digest=digest, created__gt=timezone.now() - desk.EXPIRES)
    row = same.filter(Q(answered__isnull=False) | Q(origin=origin)).order_by("created").first()
    return row or desk.ask(KIND, origin, text, "modules", digest=digest)


def checks_of(row: Description) -> int:
    """As how many checks a look counts: a long module is priced on every GPU, which takes seconds. 0 before its trace
    has ended."""
    return 0 if row.answered is None else 1 + len(row.answer.get("graph", "")) // CHARACTERS


def look(row: Description, gpu: str, classes: tuple[str, ...]) -> dict[str, Any]:
    """{state, ...} for the page: waiting, tracing, done with a report, or failed with {error, line, code}. Notes that
    the page looked. Raises HardwareError for an unknown GPU."""
    if gpu not in GPUS:  # a name, never a path
        raise HardwareError(f"There is no GPU {gpu[:40]!r} here; there are {', '.join(GPUS)}.")
    if row.answered is None:
        desk.looked(row)
        alive = {engine.id for engine in engines.alive()}
        if not alive:
            return {"state": "failed", "code": "no_engine", "error": "No engine is running that can trace a module."}
        if row.engine_id and row.engine_id not in alive:
            return {"state": "failed", "code": "lost", "error": "The engine was lost while it traced the module."}
        return {"state": "tracing" if row.engine_id else "waiting"}
    answer = row.answer
    if "graph" not in answer:
        return {
            "state": "failed",
            "error": answer["reason"],
            "line": answer.get("line"),
            "code": answer.get("code", ""),
        }
    try:
        with of_a_trace():
            priced = _priced(answer["graph"], gpu, classes)
    except Garbled as e:
        return {"state": "failed", "code": "garbled", "error": str(e)}
    return {"state": "done", "title": answer["title"], "seconds": answer["seconds"], **priced}


@functools.lru_cache(maxsize=64)
def _priced(text: str, gpu: str, classes: tuple[str, ...]) -> dict[str, Any]:
    graph, hardware = OpGraph.from_json(text), load(gpu)
    priced = json.loads(report(graph, hardware, asked=classes).to_json())
    figure = of_report.figures(priced).get("roofline")
    return {
        "gpu": priced["gpu"]["title"],
        "operations": len(graph.ops),
        "sentence": priced["sentence"],
        "levers": [{"title": lever["title"], "why": lever["why"]} for lever in priced["levers"][:LEVERS]],
        "limits": [_limit(cls, priced) for cls in priced["classes"] if cls in priced["bounds"]],
        "gpus": [_elsewhere(graph, load(name), priced["classes"]) for name in GPUS],
        "roofline": None if figure is None else figure.to_json(),
    }


def _limit(cls: str, priced: dict[str, Any]) -> dict[str, Any]:
    bound, theirs = priced["bounds"][cls], priced["baselines"].get(cls)
    return {
        "cls": cls, "ms": bound["ms"], "bound_by": bound["bound_by"],
        "pytorch_ms": theirs["ms"] if theirs else None, "gap": theirs["gap"] if theirs else None,
    }  # fmt: skip


def _elsewhere(graph: OpGraph, hardware: Hardware, classes: list[str]) -> dict[str, Any]:
    """The limit by class on another GPU, without the classes that it has not."""
    legal = [cls for cls in legal_classes(graph, hardware) if cls in classes]
    priced = {cls: bounds(graph, hardware, cls).fused for cls in legal}
    return {
        "name": hardware.name, "title": hardware.title,
        "limits": {cls: {"ms": b.ms, "bound_by": b.bound_by} for cls, b in priced.items()},
    }  # fmt: skip
