"""The speed-of-light report of a module on a device: one object, rendered as JSON, Markdown or HTML.

It is plain data, so that the process that shows it need not be the one that made it: `Report.from_json(text)`.
Times are ms, rates FLOP/s, traffic bytes. What is predicted says so; what is measured comes in through `measured`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sol import render
from sol.attainable import KNOWN_ERROR
from sol.bounds import Bounds, bounds, external_bytes, legal_classes, live_ops, of_cost, pytorch_class
from sol.budget import gap, score
from sol.cost.cost import canonical
from sol.cost.graph_costs import costs_of
from sol.cost.liveness import Liveness, liveness
from sol.cost.ops import bytes_only
from sol.graph import OpGraph
from sol.hardware import Hardware, HardwareError
from sol.levers import levers
from sol.model.eager import predict_eager

VERSION = 1
_UNITS = {
    "matrix": "the matrix units",
    "vector": "the ordinary arithmetic pipes",
    "special": "the special-function units",
    "memory": "the memory",
}
_CLASS_NAMES = {"f32": "exact float32", "f64": "float64"}


@dataclass(frozen=True)
class Report:
    """Every field is JSON: see `report` for what each holds."""

    gpu: dict[str, Any]
    classes: list[str]
    bounds: dict[str, dict[str, Any]]
    ops: list[dict[str, Any]]
    totals: dict[str, float]
    baselines: dict[str, dict[str, Any]]
    levers: list[dict[str, Any]]
    notes: list[str]
    sentence: str
    main: str = ""
    bytes_only: list[str] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    best: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = field(default=VERSION)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def to_markdown(self) -> str:
        """For a prompt or a terminal: tables, no colour."""
        return render.markdown(asdict(self))

    def to_html(self) -> str:
        """A `<section>` without scripts or inline styles, every text escaped."""
        return render.html(asdict(self))

    @staticmethod
    def from_json(text: str) -> Report:
        """Raises ValueError when the text is not a report of this version."""
        try:
            raw = json.loads(text)
            if raw.get("version") != VERSION:
                raise ValueError(f"a report of version {raw.get('version')}; this is version {VERSION}")
            return Report(**raw)
        except (TypeError, AttributeError, json.JSONDecodeError) as e:
            raise ValueError(f"not a report: {e}") from None


def report(
    graph: OpGraph,
    hw: Hardware,
    classes: Sequence[str] | None = None,
    measured: dict[str, float] | None = None,
    best: dict[str, float] | None = None,
    asked: Sequence[str] = (),
) -> Report:
    """The report of a graph on a device.

    `classes`: precision classes to price, the first one the module's point of view (`main`: levers start from it, the
    op table is priced in it); by default every legal class, fp8 only where it is `asked` for, and tf32 the point of
    view where it is one. PyTorch has no fp8 of its own: beside it stands its f16, or a half-precision module's type.
    PyTorch's half classes mean torch.autocast, its casts timed. `measured`: class -> baseline in ms where somebody
    timed it; `best`: class -> the best time of a program, in ms, to be given its gap and score. `bytes_only` names the
    operations priced by bytes alone, `memory` what PyTorch holds (sol.cost.liveness). Raises HardwareError when a
    class is not legal here, naming those that are.
    """
    legal = legal_classes(graph, hw)
    if not legal:
        raise HardwareError(f"{hw.title} has no units for this module's element types")
    chosen = list(classes) if classes else [c for c in legal if c != "fp8" or c in asked or len(legal) == 1]
    priced = {cls: bounds(graph, hw, cls) for cls in chosen}
    measured = measured or {}
    baselines = {cls: _baseline(graph, hw, priced[cls], measured.get(cls)) for cls in chosen}
    # PyTorch's own switch: what a float32 module is compared in unless somebody asks for another class.
    main = "tf32" if not classes and "tf32" in chosen else chosen[0]
    unknown = bytes_only(graph.ops, graph.tensors)
    held = liveness(graph)
    notes = list(_notes(graph, hw, chosen, unknown, held))
    external = external_bytes(graph)
    costs = [costs_of(graph)[op.name] for op in live_ops(graph)]
    found = levers(graph, hw, main, tuple(chosen))
    totals = {
        "matrix_flops": sum(c.matrix for c in costs),
        "needed_flops": sum(c.must for c in costs),
        "vector_flops": sum(c.vector for c in costs),
        "special": sum(c.special for c in costs),
        "bytes": sum(external.values()),
        "bytes_unfused": sum(c.bytes for c in costs),
        "ops": len(graph.ops),
    }
    return Report(
        gpu={
            "name": hw.name,
            "title": hw.title,
            "bandwidth": hw.bandwidth,
            "sfu": hw.sfu,
            "sms": hw.sms,
            "measured": bool(hw.measured),
        },
        classes=chosen,
        bounds={cls: _bounds_row(b, hw) for cls, b in priced.items()},
        ops=_op_rows(graph, hw, chosen, main),
        totals=totals,
        baselines=baselines,
        levers=[asdict(lever) for lever in found],
        notes=notes,
        sentence=_sentence(hw, priced, baselines, totals, found, chosen),
        main=main,
        bytes_only=list(unknown),
        memory={"held": held.held_bytes, "peak": held.peak_bytes, "peak_op": held.peak_op},
        best={cls: _time(ms, priced[cls], baselines[cls]["ms"]) for cls, ms in (best or {}).items() if cls in priced},
    )


def _time(ms: float, b: Bounds, baseline_ms: float) -> dict[str, Any]:
    return {"ms": ms, "gap": gap(ms, b.ms), "score": score(ms, b.ms, baseline_ms), "speedup": baseline_ms / ms}


def _bounds_row(b: Bounds, hw: Hardware) -> dict[str, Any]:
    f = b.fused
    return {
        "ms": f.ms,
        "bound_by": f.bound_by,
        "unfused_ms": b.unfused_ms,
        "ceiling_ms": b.ceiling.ms,
        "parts": {"matrix": f.matrix_ms, "vector": f.vector_ms, "special": f.special_ms, "memory": f.memory_ms},
        "intensity": f.intensity,
        "ridge": b.ridge,
        "peak": hw.peak(b.cls),
        "ceiling": hw.ceiling(b.cls),
        "copy_rate": hw.copy_rate,
    }


def _baseline(graph: OpGraph, hw: Hardware, b: Bounds, measured: float | None) -> dict[str, Any]:
    if measured is not None:
        return {"ms": measured, "kind": "measured", "gap": gap(measured, b.ms), "score": 0.5, "error": None}
    ms = max(predict_eager(graph, hw, pytorch_class(b.cls, graph), cast_parameters=True).ms, b.ceiling.ms)
    return {
        "ms": ms,
        "kind": "predicted",
        "gap": gap(ms, b.ms),
        "score": score(ms, b.ms, ms),
        "error": KNOWN_ERROR,
    }


def _op_rows(graph: OpGraph, hw: Hardware, classes: Sequence[str], main: str) -> list[dict[str, Any]]:
    """One row an op. `share`: of the sum of all ops' own bounds in class `main`; views have none."""
    live = {o.name for o in live_ops(graph)}
    costs = costs_of(graph)
    own = {o.name: {cls: of_cost(costs[o.name], hw, cls) for cls in classes} for o in graph.ops}
    total = sum(own[n][main].ms for n in live) or 1.0
    rows = []
    for op in graph.ops:
        c = costs[op.name]
        first = own[op.name][main]
        rows.append(
            {
                "name": op.name,
                "op": canonical(op.op),
                "line": op.line,
                "kind": c.kind,
                "shapes": [list(graph.tensors[n].shape) for n in op.inputs],
                "out": [list(graph.tensors[n].shape) for n in op.outputs],
                "flops": c.flops,
                "needed": c.must + c.vector,
                "special": c.special,
                "bytes": c.bytes,
                "intensity": c.intensity,
                "ms": {cls: own[op.name][cls].ms for cls in classes},
                "bound_by": first.bound_by if first.ms else "",
                "share": first.ms / total if op.name in live else 0.0,
                "live": op.name in live,
            }
        )
    return rows


def _notes(graph: OpGraph, hw: Hardware, classes: Sequence[str], unknown: Sequence[str], held: Liveness):
    if unknown:
        yield f"Priced by bytes alone: {', '.join(unknown)}."
    live = {o.name for o in graph.live}
    dead = [o.name for o in graph.ops if o.name not in live]
    if dead:
        yield f"No output depends on {', '.join(dead)}: left out of the bounds."
    if held.peak_op:
        yield (
            f"PyTorch holds up to {render.si(held.peak_bytes, 'B')} at once, while {held.peak_op} runs; inputs and "
            f"parameters are {render.si(held.held_bytes, 'B')} of it."
        )
    if held.peak_bytes > hw.memory_bytes:
        yield (
            f"That is more than the {render.si(hw.memory_bytes, 'B')} of {hw.title}: the limits are its rates' own, "
            "and the module has to be split over several."
        )
    costs = costs_of(graph)
    counted = sum(costs[o.name].matrix for o in graph.live)
    needed = sum(costs[o.name].must for o in graph.live)
    if needed < 0.995 * counted:
        yield (
            f"Of the {render.si(counted, 'FLOP')} in products that PyTorch counts, {render.si(needed, 'FLOP')} must be "
            "done: the rest meets padding or known zeros, or nothing reads it. The limits take what must be done."
        )
    if any(costs[o.name].kind == "conv" for o in graph.ops):
        yield "Convolutions count the direct algorithm; Winograd or FFT would need fewer products."
    if any(not t.elements for t in graph.tensors.values()):
        yield "Some tensors have no elements: they cost nothing."
    if any(t.dtype in ("c64", "c128") for t in graph.tensors.values()):
        yield "A complex multiply-add counts as four real ones."
    if not hw.measured:
        peaks = "worked out from what the machine reports" if hw.kind == "cpu" else "published"
        yield f"Nothing was measured on {hw.title} yet: its rates are {peaks}."


def _sentence(hw, priced, baselines, totals, found, chosen) -> str:
    """What a student should take home, in one sentence."""
    cls = min(chosen, key=lambda c: priced[c].ms) if "tf32" not in chosen else "tf32"
    b, base = priced[cls], baselines[cls]
    flops = totals["needed_flops"] + totals["vector_flops"]
    if b.ms == 0:
        return "The module moves no data and computes nothing: there is nothing to make faster."
    says = "takes" if base["kind"] == "measured" else "should take (predicted)"
    if base["gap"] > 1e4:  # a ratio of hundreds of thousands tells a student nothing
        return (
            f"This module must move {render.si(totals['bytes'], 'B')} and do {render.si(flops, 'FLOP')}, which takes "
            f"{hw.title} {render.ms(b.ms)}: launching its kernels is all that counts, and PyTorch {says} "
            f"{render.ms(base['ms'])}."
        )
    advice = next((lever.title for lever in found if lever.action != "lower_class"), "")
    text = (
        f"This module must move {render.si(totals['bytes'], 'B')} and do {render.si(flops, 'FLOP')}, so in "
        f"{_CLASS_NAMES.get(cls, cls)} no kernel on {hw.title} can be faster than {render.ms(b.ms)}, a limit set by "
        f"{_UNITS[b.fused.bound_by]}; PyTorch {says} {render.ms(base['ms'])}, {base['gap']:.2f} times that"
    )
    if advice:
        return f"{text}, and the first thing to try is: {advice[0].lower()}{advice[1:]}."
    return f"{text}."
