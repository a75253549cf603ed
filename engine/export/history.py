"""What can be exported: a trial of a log, recorded or live, with what came of it; or a program by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    if steps["proposed"].get("form") == "kernel":
        raise ExportError(f"trial {number} is a raw kernel, whose text is all there is of it: copy it from the page")
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
    region = _region(rows, steps)
    bound = steps["generated"].get("inputs", []) if source is not None and graph else []
    return Exported(
        text,
        steps["proposed"]["cls"],
        steps["proposed"]["backend"],
        source,
        **places(bound, OpGraph.from_json(graph) if bound else None),
        region=region,
        recorded={name: t for name, t in recorded.items() if t is not None},
        results=_results(rows, started, steps, number, region),
        sms=_sms(device.get("hardware", "")),
    )


def of_program(text: str, module: str | None = None) -> Exported:
    """A program by itself, with the module that it must equal or without. Raises ExportError where it is rejected."""
    checked = check(text)
    if checked.program is None:
        raise ExportError("\n\n".join(d.render(text) for d in checked.diagnostics))
    return Exported(text, class_of(checked.program), module=module)


def best(rows: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """The number of the fastest program that the log calls best. Raises ExportError where there is none."""
    rows = list(rows)
    kernels = {d["trial"] for kind, d in rows if kind == "trial.proposed" and d.get("form") == "kernel"}
    judged = [d for kind, d in rows if kind == "trial.judged" and d["trial"] not in kernels]
    if not judged:
        raise ExportError("no trial of this session came to its end; name one that has code")
    judged = [d for d in judged if d["best"]]
    if not judged:
        raise ExportError("no program of this session is better than PyTorch; name the trial that you want to export")
    return min(judged, key=lambda d: (d["ms"], d["trial"]))["trial"]


def places(bound: Iterable[Mapping[str, Any]], graph: OpGraph | None) -> dict[str, Any]:
    """Where a program's parameters come from: `tensors`, `inputs` and `swapped` of Exported. `bound`: bindings of the
    program's parameters ({name, tensor, transposed}) to tensors of the module's graph."""
    tensors, inputs, swapped = {}, {}, []
    for b in bound:
        tensor = graph.tensors[b["tensor"]]
        if tensor.kind in ("parameter", "buffer") and tensor.path:
            tensors[b["name"]] = tensor.path
        elif b["tensor"] in graph.inputs:
            inputs[b["name"]] = graph.inputs.index(b["tensor"])
        swapped += [b["name"]] if b.get("transposed") else []
    return {"tensors": tensors, "inputs": inputs, "swapped": tuple(swapped)}


def region_of(covered: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Region `number` of a log's `covered` event, as Exported has it; 0 where the log does not say which."""
    kept = ("words", "lines", "ops", "inputs", "outputs")
    row = next((r for r in covered["regions"] if r["number"] == number), {})
    return {"number": number, "of": len(covered["regions"]), **{k: row[k] for k in kept if k in row}}


def _region(rows: list, steps: dict) -> dict[str, Any] | None:
    """The part of the module that a trial's program stands for, with the times of this part alone."""
    covered = next((data for kind, data in rows if kind == "covered"), None)
    if covered is None:
        return None
    measured = steps.get("measured", {})
    part = measured.get("part") or {}
    region = region_of(covered, part.get("region") or steps["generated"].get("region", 0))
    if part:
        region |= {"ms": part["region_ms"], "pytorch_ms": part.get("region_eager_ms")}
        region["kind"] = measured["time"]["kind"]
    return region


def _sms(name: str) -> int:
    try:
        return hardware.load(name).sms
    except hardware.HardwareError:
        return 132


def _results(rows: list, started: dict, steps: dict, number: int | None, region: dict | None) -> dict[str, Any]:
    """JSON-ready facts. Of a region the trial's time and verdict stand under `whole_module`, which they are of."""
    kept = ("title", "device", "strategy", "classes", "budget", "seed")
    ended = next((data for kind, data in rows if kind == "session.ended"), None)
    told = {name: steps[name] for name in STEPS if name in steps}
    if region is not None:
        of_module = {name: told.pop(name) for name in ("measured", "judged") if name in told}
        told |= {"region": region, "whole_module": of_module} if of_module else {"region": region}
    return {
        "session": {k: started[k] for k in kept if k in started} | {"ended": ended},
        "bounds_ms": next((data["bounds"] for kind, data in rows if kind == "reported"), {}),
        "baselines": [data for kind, data in rows if kind == "baseline"],
        "trial": number,
        **told,
    }
