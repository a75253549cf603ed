"""What can be exported: a trial of a log, recorded or live, with what came of it; or a program by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dsl.check.program import check
from engine.classes import class_of
from engine.export import Exported, ExportError
from sol import hardware
from sol.graph import OpGraph

STEPS = ("proposed", "checked", "compiled", "validated", "measured", "judged", "failed")


def of_trial(
    rows: Iterable[tuple[str, dict[str, Any]]], blob: Callable[[str], str | None], trial: int | None = None
) -> Exported:
    """The trial of (kind, data) rows of a log; without a number the fastest of those that the log calls best.

    `blob` gives a text by its name. Raises ExportError where there is no such trial or its texts are gone.
    """
    rows = list(rows)
    number = trial if trial is not None else best(rows)
    steps = {
        kind.removeprefix("trial."): data
        for kind, data in rows
        if kind.startswith("trial.") and data.get("trial") == number
    }
    if "proposed" not in steps:
        raise ExportError(f"there is no trial {number}")
    if "generated" not in steps:
        why = steps.get("failed", {}).get("reason", "its code is not generated yet")
        raise ExportError(f"trial {number} has no code to export: {why}")
    started = next((data for kind, data in rows if kind == "session.started"), None)
    text = blob(steps["proposed"]["program"])
    if text is None or started is None:
        raise ExportError("the texts of this session are gone")
    recorded = {name: blob(s["text"]) for name, s in steps["generated"]["sources"].items()}
    if "checked" in steps:
        recorded["resolved"] = blob(steps["checked"]["resolved"])
    source = blob(started["source"]) if started["source_kind"] == "module" else None
    graph = next((blob(data["graph"]) for kind, data in rows if kind == "traced"), None)
    device = started["device"]
    return Exported(
        text,
        steps["proposed"]["cls"],
        steps["proposed"]["backend"],
        source,
        _tensors(graph) if source is not None and graph else {},
        {name: t for name, t in recorded.items() if t is not None},
        _results(rows, started, steps, number),
        _sms(device.get("hardware", "")),
    )


def of_program(text: str, module: str | None = None) -> Exported:
    """A program by itself, with the module that it must equal or without. Raises ExportError where it is rejected."""
    checked = check(text)
    if checked.program is None:
        raise ExportError("\n\n".join(d.render(text) for d in checked.diagnostics))
    return Exported(text, class_of(checked.program), module=module)


def best(rows: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """The number of the fastest trial that the log calls best. Raises ExportError where there is none."""
    judged = [d for kind, d in rows if kind == "trial.judged"]
    if not judged:
        raise ExportError("no trial of this session came to its end; name one that has code")
    judged = [d for d in judged if d["best"]]
    if not judged:
        raise ExportError("no program of this session is better than PyTorch; name the trial that you want to export")
    return min(judged, key=lambda d: (d["ms"], d["trial"]))["trial"]


def _tensors(text: str) -> dict[str, str]:
    """{a parameter's name in a program of the planner: the tensor's path in the module}."""
    graph = OpGraph.from_json(text)
    kept = (t for t in graph.tensors.values() if t.kind in ("parameter", "buffer") and t.path)
    return {t.path.replace(".", "_"): t.path for t in kept}


def _sms(name: str) -> int:
    try:
        return hardware.load(name).sms
    except hardware.HardwareError:
        return 132


def _results(rows: list, started: dict, steps: dict, number: int | None) -> dict[str, Any]:
    kept = ("title", "device", "strategy", "classes", "budget", "seed")
    ended = next((data for kind, data in rows if kind == "session.ended"), None)
    return {
        "session": {k: started[k] for k in kept if k in started} | {"ended": ended},
        "bounds_ms": next((data["bounds"] for kind, data in rows if kind == "reported"), {}),
        "baselines": [data for kind, data in rows if kind == "baseline"],
        "trial": number,
        **{name: steps[name] for name in STEPS if name in steps},
    }
