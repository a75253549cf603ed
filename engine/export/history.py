"""What can be exported: a session's module with its best programs, one trial's program alone, with what came of them;
or a program by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from math import prod
from typing import Any

from dsl.check.program import check
from engine.classes import class_of
from engine.export import Exported, ExportError
from engine.export.composition import Placed, Whole
from engine.session.fold import figures
from engine.session.fold.readers import text as text_of
from engine.session.fold.reduce import View, fold
from engine.session.fold.view import Trial
from engine.strategies.state import WORTH
from sol import hardware
from sol.figures import Figure
from sol.graph import OpGraph

Row = tuple[str, dict[str, Any]]
STEPS = ("proposed", "checked", "compiled", "validated", "measured", "judged", "failed")


def of_session(
    rows: Iterable[Row], blob: Callable[[str], str | None], trial: int | None = None, drawn: bool = True
) -> Whole | Exported:
    """The whole module as a trial ran it: its program, and those of other regions that were in use beside it. Without a
    number, the best trial. `drawn`: with the session's figures. (kind, data) rows and `blob` as in `of_trial`, which
    answers for a session on a program, and for an old log that does not show what the programs read. Raises
    ExportError."""
    log = _Log(rows, blob)
    number = trial if trial is not None else best(log.view)
    graph, source = log.graph(), log.source()
    one = log.exported(number)
    placed = [log.placed(n) for n in (number, *log.beside(number))] if graph is not None else []
    figures = _figures(log.view, blob) if drawn else {}
    if source is None or graph is None or not all(p.inputs for p in placed):
        return replace(one, figures=figures)
    coverage, measured = log.view.coverage, log.view.trials[number].measured
    return Whole(
        log.view.title,
        one.cls,
        source,
        graph,
        tuple(sorted(placed, key=lambda p: p.number)),
        results=_results(log.view, log.rows, number, one.region if coverage else None),
        figures=figures,
        captured=measured is not None and bool(measured.part.get("graph")),
        fused=measured is not None and bool(measured.part.get("rest")),
    )


def _by_name(text: str, graph: OpGraph) -> tuple[dict[str, Any], ...]:
    """The tensors that a program's parameters are, by their names, for older logs, which do not say it; () if one has
    no such tensor. The planner names a parameter after its tensor's path, in lower case."""
    own = [t for t in graph.tensors.values() if t.kind != "intermediate"]
    names = {re.sub(r"\W+", "_", t.path or t.name).strip("_").lower()[:48]: t for t in reversed(own)}
    bound = []
    for p in check(text).program.params:
        plain = p.name.removeprefix("t_")
        t = names.get(p.name) or names.get(plain) or names.get(re.sub(r"_\d+$", "", plain))
        if t is None or t.elements != prod(p.type.shape):
            return ()
        bound.append({"name": p.name, "tensor": t.name, "shape": list(p.type.shape), "transposed": False})
    return tuple(bound)


def of_trial(rows: Iterable[Row], blob: Callable[[str], str | None], trial: int | None = None) -> Exported:
    """The program of a trial of (kind, data) rows of a log; without a number the best one (engine.session.fold.reduce).

    `blob` gives a text by its name. Raises ExportError where there is no such trial or its texts are gone.
    """
    log = _Log(rows, blob)
    return replace(log.exported(trial if trial is not None else best(log.view)), figures=_figures(log.view, blob))


class _Log:
    """A session's log, as exports read it."""

    def __init__(self, rows: Iterable[Row], blob: Callable[[str], str | None]):
        self.rows, self.blob = list(rows), blob
        self.view = fold(
            {"seq": i, "kind": kind, "t": 0.0, "data": data} for i, (kind, data) in enumerate(self.rows, 1)
        )

    def source(self) -> str | None:
        """The module's text; None of a session on a program."""
        return self.blob(self.view.source) if self.view.source_kind == "module" else None

    def graph(self) -> OpGraph | None:
        text = self.blob(self.view.graph) if self.view.graph else None
        return OpGraph.from_json(text) if text and self.source() is not None else None

    def exported(self, number: int) -> Exported:
        """A trial's program. Raises ExportError."""
        view, blob = self.view, self.blob
        one = view.trials.get(number)
        if one is None or "proposed" not in one.steps:
            raise ExportError(f"there is no trial {number}")
        if one.form == "kernel":
            raise ExportError(
                f"trial {number} is a raw kernel, whose text is all there is of it: copy it from the page"
            )
        if "generated" not in one.steps:
            why = one.failed.reason if one.failed is not None else "its code is not generated yet"
            raise ExportError(f"trial {number} has no code to export: {why}")
        text = blob(one.program)
        if text is None or not view.begun:
            raise ExportError("the texts of this session are gone")
        recorded = {name: blob(s.get("text", "")) for name, s in one.sources.items()}
        if one.resolved:
            recorded["resolved"] = blob(one.resolved)
        graph, region = self.graph(), _region(view, one)
        return Exported(
            text,
            one.cls,
            one.backend,
            self.source(),
            **places(one.inputs if graph is not None else [], graph),
            region=region,
            recorded={name: t for name, t in recorded.items() if t is not None},
            results=_results(view, self.rows, number, region),
            sms=_sms(text_of(view.device.get("hardware"))),
        )

    def placed(self, number: int) -> Placed:
        """A trial's program in its module."""
        one, graph, program = self.view.trials[number], self.graph(), self.exported(number)
        inputs = tuple(one.inputs) or _by_name(program.text, graph)
        if not one.region:
            return Placed(program, tuple(op.name for op in graph.live), inputs, graph.outputs)
        row = next(r for r in self.view.coverage.regions if r.number == one.region)
        return Placed(program, tuple(row.ops), inputs, tuple(row.outputs), one.region)

    def beside(self, number: int) -> list[int]:
        """The trials whose programs ran in other regions while this one was measured. Older logs do not name them: then
        those that had made the module faster when it was proposed."""
        trials = self.view.trials
        measured = trials[number].measured
        if measured is not None and "beside" in (measured.part or {}):
            return [n for n in measured.part["beside"] if n in trials]
        ended: set[int] = set()
        for kind, data in self.rows:
            if kind == "trial.proposed" and data.get("trial") == number:
                break
            if kind == "trial.judged":
                ended.add(data.get("trial"))
        placed: dict[int, int] = {}
        fastest = WORTH
        for t in (trials[n] for n in sorted(ended) if n in trials):
            counts = t.judged.counts and (self.view.algebraic or not t.judged.algebraic)
            speedup = t.judged.speedup if counts and t.timed and t.cls == trials[number].cls else None
            if t.region and speedup is not None and speedup > fastest:
                placed[t.region], fastest = t.number, speedup
        return [n for region, n in placed.items() if region != trials[number].region]


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
    if any(view.trials[n].form == "kernel" for n in view.best.values()):
        raise ExportError("the best of this session is a raw kernel, a file of its own; name a trial with a program")
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
