"""What can be exported: a trial of a log, recorded or live, with what came of it; or a program by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from dsl.check.program import check
from engine.classes import class_of
from engine.export import Exported, ExportError
from engine.session.fold import figures
from engine.session.fold.readers import text as text_of
from engine.session.fold.reduce import View, fold
from engine.session.fold.view import Trial
from sol import hardware
from sol.figures import Figure
from sol.graph import OpGraph

Row = tuple[str, dict[str, Any]]
STEPS = ("proposed", "checked", "compiled", "validated", "measured", "judged", "failed")


def of_trial(rows: Iterable[Row], blob: Callable[[str], str | None], trial: int | None = None) -> Exported:
    """The trial of (kind, data) rows of a log; without a number the best one (engine.session.fold.reduce).

    `blob` gives a text by its name. Raises ExportError where there is no such trial or its texts are gone.
    """
    rows = list(rows)
    view = fold({"seq": i, "kind": kind, "t": 0.0, "data": data} for i, (kind, data) in enumerate(rows, 1))
    number = trial if trial is not None else best(view)
    one = view.trials.get(number)
    if one is None or "proposed" not in one.steps:
        raise ExportError(f"there is no trial {number}")
    if one.form == "kernel":
        raise ExportError(f"trial {number} is a raw kernel, whose text is all there is of it: copy it from the page")
    if "generated" not in one.steps:
        why = one.failed.reason if one.failed is not None else "its code is not generated yet"
        raise ExportError(f"trial {number} has no code to export: {why}")
    text = blob(one.program)
    if text is None or not view.begun:
        raise ExportError("the texts of this session are gone")
    recorded = {name: blob(s.get("text", "")) for name, s in one.sources.items()}
    if one.resolved:
        recorded["resolved"] = blob(one.resolved)
    source = blob(view.source) if view.source_kind == "module" else None
    graph = blob(view.graph) if view.graph else None
    region = _region(view, one)
    bound = one.inputs if source is not None and graph else []
    return Exported(
        text,
        one.cls,
        one.backend,
        source,
        **places(bound, OpGraph.from_json(graph) if graph and source is not None else None),
        region=region,
        recorded={name: t for name, t in recorded.items() if t is not None},
        results=_results(view, rows, number, region),
        sms=_sms(text_of(view.device.get("hardware"))),
        figures=_figures(view, blob),
    )


def of_program(text: str, module: str | None = None) -> Exported:
    """A program by itself, with the module that it must equal or without. Raises ExportError where it is rejected."""
    checked = check(text)
    if checked.program is None:
        raise ExportError("\n\n".join(d.render(text) for d in checked.diagnostics))
    return Exported(text, class_of(checked.program), module=module)


def best(view: View) -> int:
    """The number of the best program, which a session's page shows unless a raw kernel is faster. Raises ExportError
    where there is none."""
    programs = [t for n in view.best.values() if (t := view.trials[n]).form != "kernel"]
    if programs:
        return max(programs, key=lambda t: (t.judged.speedup, -t.number)).number
    if any(t.judged is not None for t in view.trials.values()):
        raise ExportError("no program of this session is better than PyTorch; name the trial that you want to export")
    raise ExportError("no trial of this session came to its end; name one that has code")


def _figures(view: View, blob: Callable[[str], str | None]) -> dict[str, Figure]:
    """The figures of the session, by name; without its report those that need none."""
    report = blob(view.report) if view.report else None
    drawn = figures.of(view, json.loads(report) if report else None)
    return {name: figure for name, figure in drawn.items() if figure is not None}


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
    outputs = (
        () if graph is None else tuple((tuple(graph.tensors[n].shape), graph.tensors[n].dtype) for n in graph.outputs)
    )
    return {"tensors": tensors, "inputs": inputs, "swapped": tuple(swapped), "outputs": outputs}


def region_of(covered: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Region `number` of a log's `covered` event, as Exported has it; 0 where the log does not say which."""
    names = ("words", "lines", "ops", "inputs", "outputs")
    row = next((r for r in covered["regions"] if r["number"] == number), {})
    return {"number": number, "of": len(covered["regions"]), **{k: row[k] for k in names if k in row}}


def _region(view: View, trial: Trial) -> dict[str, Any] | None:
    """The part of the module that a trial's program stands for, with the times of this part alone."""
    if view.coverage is None:
        return None
    region = region_of(asdict(view.coverage), trial.region or 0)
    if trial.measured is not None and trial.measured.part:
        part = trial.measured.part
        region |= {"ms": part["region_ms"], "pytorch_ms": part.get("region_eager_ms"), "kind": trial.measured.kind}
    return region


def _sms(name: str) -> int:
    try:
        return hardware.load(name).sms
    except hardware.HardwareError:
        return 132


def _results(view: View, rows: list[Row], number: int, region: dict | None) -> dict[str, Any]:
    """The trial's events as they were logged, with what its session was and reached. Of a region the trial's time and
    verdict stand under `whole_module`, which they are of."""
    steps = {
        kind.removeprefix("trial."): data
        for kind, data in reversed(rows)  # the first of each kind stands
        if kind.startswith("trial.") and data.get("trial") == number
    }
    results = {name: steps[name] for name in STEPS if name in steps}
    if region is not None:
        of_module = {name: results.pop(name) for name in ("measured", "judged") if name in results}
        results |= {"region": region, "whole_module": of_module} if of_module else {"region": region}
    return {
        "session": {
            "title": view.title, "device": view.device, "strategy": view.strategy, "classes": view.classes,
            "budget": view.budget, "seed": view.seed,
            "ended": next((data for kind, data in rows if kind == "session.ended"), None),
        },
        "bounds_ms": view.bounds,
        "baselines": [data for kind, data in rows if kind == "baseline"],
        "trial": number,
        **results,
    }  # fmt: skip
