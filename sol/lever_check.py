"""Check the report's levers against trials: which levers a program uses, and the predicted beside the observed gain.

`tried` finds the levers that a program uses: a tail in an epilogue with no kernel of its own after it, a lower operand
type, a split of K, no copy between its stages. The observed gain compares programs of one precision class: the best
program with the lever against the best one without it or, if there is none, against PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from dsl import ir
from dsl.lower.plan.buffers import aliases
from sol.attainable import product_of
from sol.levers import Lever
from sol.triage import Outcome

_LOWER = {ir.DType.TF32, ir.DType.F16, ir.DType.BF16, ir.DType.E4M3, ir.DType.E5M2, ir.DType.I8}


def _calls(e: ir.Expr) -> int:
    return 1 + sum(map(_calls, e.args)) if isinstance(e, ir.Call) else 0


def tried(program: ir.Program, sms: int = 132) -> frozenset[str]:
    """The actions of sol.levers that a checked (best: resolved) program uses. `sms`: of the chip that it ran on."""
    actions = set()
    types = {p.name: p.type for p in program.params} | {s.name: s.type for s in program.stages if s.type}
    mapped = {o.name for s in program.stages if isinstance(s, ir.Map) for o in s.operands}
    for s in program.stages:
        calls = sum(map(_calls, ir.expressions(s)))
        read = [types[o.name] for o in s.operands if types.get(o.name)]
        if isinstance(s, ir.Collective):
            actions |= _products(s, read)
            if (calls or s.also) and s.name not in mapped:  # else a separate kernel continues
                actions.add("fuse_tail")
            if _fills_the_last_wave(program, s, sms):
                actions.add("stream_k")
        elif calls >= (2 if isinstance(s, ir.Map) else 1):
            actions.add("fuse_pointwise")
        if isinstance(s, ir.Transform) and s.pad is not None:
            actions.add("align")
    free = aliases(program)
    if not any(s.name not in free and _copies(s, program) for s in program.stages):
        actions.add("drop_copy")
    return frozenset(actions)


def _copies(s: ir.Stage, program: ir.Program) -> bool:
    """Return True if a stage is a copy that drop_copy can remove: it is timed and changes only layout or type. A cast
    of a program's parameter is part of its class and does not count."""
    if not isinstance(s, ir.Transform) or s.prepack or s.pad is not None:
        return False
    source = program.type_of(s.x.name)
    outside = s.x.name in {p.name for p in program.params}
    return not outside or (source is not None and s.to in (None, source.dtype))


def _products(s: ir.Collective, read: Sequence[ir.TensorType]) -> set[str]:
    actions = set()
    compute = s.config.compute or (read[0].dtype if read else None)
    if compute in _LOWER:
        actions.add("lower_class")
    if s.config.scheduler is not None and s.config.scheduler.kind in ("split_k", "stream_k"):
        actions.add(s.config.scheduler.kind)
    if isinstance(s, ir.Conv) and any(t.layout == ir.NHWC for t in read):
        actions.add("channels_last")
    return actions


def _fills_the_last_wave(program: ir.Program, s: ir.Collective, sms: int) -> bool:
    """Return True if the stage's tiles leave clearly fewer SMs idle in the last wave than tiles of 128x128: the second
    way that the lever stream_k suggests."""
    if s.config.tile is None or s.config.tile[:2] == (128, 128) or isinstance(s, ir.Conv):
        return False
    p = product_of(program, s)

    def busy(bm: int, bn: int) -> float:
        tiles = p.l * ceil(p.m / bm) * ceil(p.n / bn)
        return p.l * p.m * p.n / (bm * bn) / (ceil(tiles / sms) * sms)

    return busy(*s.config.tile[:2]) > busy(128, 128) + 0.05


@dataclass(frozen=True)
class Timed:
    """A successful trial: its class, the levers it uses, its time in ms."""

    trial: int
    cls: str
    actions: frozenset[str]
    ms: float


@dataclass(frozen=True)
class Checked:
    """One lever of a report after the trials. `predicted`, `observed`: speedups; `trial`: the best trial that uses it,
    or None; `against`: the trial or baseline that it is compared with, for a person."""

    action: str
    title: str
    cls: str
    predicted: float
    observed: float | None
    trial: int | None
    against: str


def check(levers: Sequence[Lever], trials: Sequence[Timed], baselines: Mapping[str, float]) -> list[Checked]:
    """Every lever with its outcome, in the report's order. `baselines`: class -> PyTorch's ms.

    For lower_class, trials of its target class are compared with PyTorch in the lever's own class. Any other lever
    whose class has no trials is checked in the class of the first trial: a fusion counts there too.
    """
    out = []
    for lever in levers:
        cls, own = lever.cls, lever.cls
        if lever.action == "lower_class":
            cls = lever.target or _TITLED.get(lever.title, "")
        elif trials and all(t.cls != cls for t in trials):
            cls = own = trials[0].cls
        mine = [t for t in trials if t.cls == cls]
        user = min((t for t in mine if lever.action in t.actions), key=lambda t: t.ms, default=None)
        others = [t for t in mine if lever.action not in t.actions]
        observed, against = None, ""
        if user is not None and others and lever.action != "lower_class":
            other = min(others, key=lambda t: t.ms)
            observed, against = other.ms / user.ms, f"trial {other.trial}, the best without it"
        elif user is not None and own in baselines:
            observed, against = baselines[own] / user.ms, f"PyTorch in {own}"
        out.append(
            Checked(
                lever.action,
                lever.title,
                own,
                lever.speedup,
                observed,
                user.trial if user else None,
                against or "not tried",
            )
        )
    return out


# Reports of before 2026-11-23 name the class of lower_class in its title alone.
_TITLED = {f"Use the {cls} class": cls for cls in ("tf32", "f16", "bf16", "fp8", "i8")}


def outcomes(checked: Sequence[Checked], problem: str = "") -> list[Outcome]:
    """The outcomes of the levers that a session tried, for the memory of triage."""
    return [
        Outcome(c.action, c.predicted, c.observed, problem, c.cls)
        for c in checked
        if c.trial is not None and c.observed is not None
    ]
