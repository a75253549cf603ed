"""The speed-of-light report of a module on a device: one object, rendered as JSON, Markdown or HTML.

It is plain data, so that another process can show it: `Report.from_json(text)`. Times are in ms, rates in FLOP/s,
traffic in bytes. Predictions are marked; measured times come in by the argument `measured`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

from sol import render
from sol.algebra import Rewritten, rewritten
from sol.attainable import KNOWN_ERROR
from sol.bounds import Bounds, bounds, external_bytes, legal_classes, live_ops, of_cost, pytorch_class
from sol.budget import gap, launch_binds, score
from sol.cost.cost import canonical
from sol.cost.graph_costs import costs_of
from sol.cost.liveness import Liveness, liveness
from sol.cost.ops import bytes_only
from sol.figures import of_report, page
from sol.graph import OpGraph
from sol.hardware import Hardware, HardwareError
from sol.levers import levers
from sol.model.eager import predict_eager
from sol.model.tiles import LAUNCH_MS

logger = logging.getLogger(__name__)

VERSION = 1
_UNITS = {
    "matrix": "the matrix units",
    "vector": "the arithmetic pipes",
    "special": "the special-function units",
    "memory": "the memory",
}
_CLASS_NAMES = {"f32": "exact float32", "f64": "float64"}


class Garbled(Exception):
    """A graph that came out of a sandbox is none that the tracer writes, though each of its fields looks like one."""


@contextmanager
def of_a_trace(work: str = "no report can be made of it", passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Around work on a traced graph: any error but a HardwareError and those of `passing` becomes Garbled, because a
    module may have written that graph itself. The error is logged, for a graph that the tracer did write. `work`: what
    cannot be done."""
    try:
        yield
    except (HardwareError, Garbled, *passing):
        raise
    except Exception as e:
        logger.exception("%s, a traced graph", work)
        raise Garbled(
            f"The module's trace is garbled: {work} ({type(e).__name__}: {str(e)[:200]}). This happens if a module "
            "writes to file descriptors that it did not open; remove such writes. If it does not, the mistake is ours "
            "and is in the engine's log."
        ) from None


@dataclass(frozen=True)
class Report:
    """Every field is JSON; `report` explains them. A gap is null to a limit of zero (nothing to do), where no time is a
    multiple of it."""

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
    algebra: dict[str, Any] = field(default_factory=dict)
    version: int = field(default=VERSION)

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)

    def to_markdown(self) -> str:
        """For a prompt or a terminal: tables, no colour."""
        return render.markdown(asdict(self))

    def to_html(self) -> str:
        """A `<section>` without scripts or inline styles, every text escaped; its figures as pictures."""
        raw = asdict(self)
        return render.html(raw, page.figures(of_report.figures(raw).values()))

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

    `classes`: precision classes to price. The first is `main`: levers start from it and the op table is priced in it.
    The default is every legal class (fp8 only if it is in `asked`), with tf32 as `main` if it is legal and in `asked`,
    else the first of `asked`; an empty `asked` is every class. PyTorch has no fp8, so the baseline of fp8 is its f16,
    or a half-precision module's type. PyTorch's half classes mean torch.autocast with its casts timed. `measured`:
    class -> measured baseline in ms; `best`: class -> time of the best program in ms, which gets a gap and a score.
    `bytes_only` names the operations priced by bytes alone, `memory` the memory that PyTorch needs (sol.cost.liveness),
    `algebra` the limits in ms by class with less work (sol.algebra), in words. Raises HardwareError that names the
    legal classes when a class is not legal on this device.
    """
    legal = legal_classes(graph, hw)
    if not legal:
        raise HardwareError(f"{hw.title} has no units for this module's element types")
    chosen = list(classes) if classes else [c for c in legal if c != "fp8" or c in asked or len(legal) == 1]
    priced = {cls: bounds(graph, hw, cls) for cls in chosen}
    less = _algebra(rewritten(graph), hw, priced)
    measured = measured or {}
    baselines = {cls: _baseline(graph, hw, priced[cls], measured.get(cls)) for cls in chosen}
    # PyTorch has a switch for tf32, so a float32 module is compared in it unless the caller asks for other classes.
    own = [c for c in asked if c in priced] or chosen
    preferred = chosen if classes else own
    main = "tf32" if not classes and "tf32" in preferred else preferred[0]
    unknown = bytes_only(graph.ops, graph.tensors)
    live = liveness(graph)
    notes = list(_notes(graph, hw, chosen, unknown, live))
    external = external_bytes(graph)
    costs = [costs_of(graph)[op.name] for op in live_ops(graph)]
    ranked = levers(graph, hw, main, tuple(chosen))
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
        bounds={cls: _bounds_row(b, hw, _holds_for(graph, b, less)) for cls, b in priced.items()},
        ops=_op_rows(graph, hw, chosen, main),
        totals=totals,
        baselines=baselines,
        levers=[asdict(lever) for lever in ranked],
        notes=notes,
        sentence=_sentence(graph, hw, priced, baselines, totals, ranked, less, own),
        main=main,
        bytes_only=list(unknown),
        memory={"held": live.external_bytes, "peak": live.peak_bytes, "peak_op": live.peak_op},
        best={cls: _time(ms, priced[cls], baselines[cls]["ms"]) for cls, ms in (best or {}).items() if cls in priced},
        algebra=less,
    )


def _algebra(less: Rewritten | None, hw: Hardware, priced: dict[str, Bounds]) -> dict[str, Any]:
    """The limits with less work by class, where they are lower, and the rewrites in words."""
    if less is None:
        return {}
    ms = {cls: bounds(less.graph, hw, cls).ms for cls in priced}
    ms = {cls: t for cls, t in ms.items() if t < 0.995 * priced[cls].ms}
    return {"words": less.words, "ms": ms} if ms else {}


def _holds_for(graph: OpGraph, b: Bounds, less: dict[str, Any]) -> str:
    """Which kernels a limit holds for, in words, where others could be faster."""
    costs, words = costs_of(graph), []
    windows = any(costs[o.name].kind == "conv" and prod(graph.tensors[o.inputs[1]].shape[2:]) > 1 for o in graph.live)
    if windows and b.fused.bound_by in ("matrix", "vector"):
        words.append("convolves directly")
    if b.cls in less.get("ms", {}):
        words.append("does all of this work")
    return f" that {' and '.join(words)}" if words else ""


def _gap(ms: float, b: Bounds) -> float | None:
    return gap(ms, b.ms) if b.ms > 0 else None  # JSON has no infinity


def _time(ms: float, b: Bounds, baseline_ms: float) -> dict[str, Any]:
    return {"ms": ms, "gap": _gap(ms, b), "score": score(ms, b.ms, baseline_ms), "speedup": baseline_ms / ms}


def _bounds_row(b: Bounds, hw: Hardware, holds_for: str) -> dict[str, Any]:
    f = b.fused
    return {
        "ms": f.ms,
        "bound_by": f.bound_by,
        "holds_for": holds_for,
        "launch_ms": LAUNCH_MS if launch_binds(f.ms) else None,
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
        return {"ms": measured, "kind": "measured", "gap": _gap(measured, b), "score": 0.5, "error": None}
    ms = max(predict_eager(graph, hw, pytorch_class(b.cls, graph), autocast=True).ms, b.ceiling.ms)
    return {
        "ms": ms,
        "kind": "predicted",
        "gap": _gap(ms, b),
        "score": score(ms, b.ms, ms),
        "error": KNOWN_ERROR,
    }


def _op_rows(graph: OpGraph, hw: Hardware, classes: Sequence[str], main: str) -> list[dict[str, Any]]:
    """One row per op. `share`: of the sum of the bounds of all single ops in class `main`; views have none."""
    live = {o.name for o in live_ops(graph)}
    costs = costs_of(graph)
    own = {o.name: {cls: of_cost(costs[o.name], hw, cls) for cls in classes} for o in graph.ops}
    total = sum(own[o.name][main].ms for o in graph.ops if o.name in live) or 1.0  # in order: sums of floats differ
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


def _notes(graph: OpGraph, hw: Hardware, classes: Sequence[str], unknown: Sequence[str], memory: Liveness):
    if unknown:
        yield f"Priced by bytes alone: {', '.join(unknown)}."
    live = {o.name for o in graph.live}
    dead = [o.name for o in graph.ops if o.name not in live]
    if dead:
        yield f"No output depends on {', '.join(dead)}, so the bounds leave it out."
    if memory.peak_op:
        yield (
            f"PyTorch needs up to {render.si(memory.peak_bytes, 'B')} at once, while {memory.peak_op} runs; inputs and "
            f"parameters are {render.si(memory.external_bytes, 'B')} of it."
        )
    if memory.peak_bytes > hw.memory_bytes:
        yield (
            f"That is more than the {render.si(hw.memory_bytes, 'B')} of {hw.title}, so the module "
            "has to be split over several; the limits assume the rates of one."
        )
    costs = costs_of(graph)
    counted = sum(costs[o.name].matrix for o in graph.live)
    needed = sum(costs[o.name].must for o in graph.live)
    if needed < 0.995 * counted:
        yield (
            f"Of the {render.si(counted, 'FLOP')} in products that PyTorch counts, {render.si(needed, 'FLOP')} must be "
            "done: the rest multiplies padding or known zeros, or nothing reads it. The limits count only these."
        )
    if any(costs[o.name].kind == "conv" for o in graph.ops):
        yield "Convolutions count the direct algorithm; Winograd or FFT would need fewer products."
    if any(not t.elements for t in graph.tensors.values()):
        yield "Some tensors have no elements: they cost nothing."
    if any(t.dtype in ("c64", "c128") for t in graph.tensors.values()):
        yield "A complex multiply-add counts as four real ones."
    if not hw.measured:
        peaks = "computed from what the machine reports" if hw.kind == "cpu" else "published"
        yield f"Nothing was measured on {hw.title} yet: its rates are {peaks}."


def _sentence(graph, hw, priced, baselines, totals, ranked, less, chosen) -> str:
    """The result in one sentence that a student understands."""
    cls = min(chosen, key=lambda c: priced[c].ms) if "tf32" not in chosen else "tf32"
    b, base = priced[cls], baselines[cls]
    flops = totals["needed_flops"] + totals["vector_flops"]
    if b.ms == 0:
        return "The module moves no data and computes nothing: there is nothing to make faster."
    verb = "takes" if base["kind"] == "measured" else "should take (predicted)"
    advice = next((lever.title for lever in ranked if lever.action != "lower_class"), "")
    advice = f"the first thing to try is: {advice[0].lower()}{advice[1:]}." if advice else ""
    if launch_binds(b.ms):
        return (
            f"This module must move {render.si(totals['bytes'], 'B')} and do {render.si(flops, 'FLOP')}, which takes "
            f"{hw.title} {render.ms(b.ms)}. Starting a kernel takes about {render.ms(LAUNCH_MS)}, so the time is "
            f"almost all kernel launches: PyTorch {verb} {render.ms(base['ms'])}"
            + (f", and {advice}" if advice else ".")
        )
    text = (
        f"This module must move {render.si(totals['bytes'], 'B')} and do {render.si(flops, 'FLOP')}, so in "
        f"{_CLASS_NAMES.get(cls, cls)} no kernel on {hw.title}{_holds_for(graph, b, less)} can be faster than "
        f"{render.ms(b.ms)}, a limit set by "
        f"{_UNITS[b.fused.bound_by]}; PyTorch {verb} {render.ms(base['ms'])}, {base['gap']:.2f} times that"
    )
    text = f"{text}, and {advice}" if advice else f"{text}."
    if cls in less.get("ms", {}):
        text += f" By algebra the limit is {render.ms(less['ms'][cls])}: {less['words']}."
    return text
