"""Did a lever do what the report promised? Which levers a program tries, and predicted beside observed gain.

A lever is `tried` when a program shows it: a tail in an epilogue that no further kernel takes up, a lower operand
type, a split of K, no copy between its stages. Its gain is observed in the same precision class, from the best program
that tries it: against the best one that does not, where the session has such a one, and else against PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from dsl import ir
from sol.attainable import product_of
from sol.levers import Lever
from sol.triage import Outcome

_LOWER = {ir.DType.TF32, ir.DType.F16, ir.DType.BF16, ir.DType.E4M3, ir.DType.E5M2, ir.DType.I8}


def _calls(e: ir.Expr) -> int:
    return 1 + sum(map(_calls, e.args)) if isinstance(e, ir.Call) else 0


def tried(program: ir.Program, sms: int = 132) -> frozenset[str]:
    """The actions of sol.levers that a checked (best: resolved) program shows. `sms`: of the chip that it ran on."""
    found = set()
    types = {p.name: p.type for p in program.params} | {s.name: s.type for s in program.stages if s.type}
    mapped = {o.name for s in program.stages if isinstance(s, ir.Map) for o in s.operands}
    for s in program.stages:
        calls = sum(map(_calls, ir.expressions(s)))
        read = [types[o.name] for o in s.operands if types.get(o.name)]
        if isinstance(s, ir.Collective):
            found |= _products(s, read)
            if (calls or s.also) and s.name not in mapped:  # else a kernel of its own takes up where it leaves off
                found.add("fuse_tail")
            if _fills_the_last_wave(program, s, sms):
                found.add("stream_k")
        elif calls >= (2 if isinstance(s, ir.Map) else 1):
            found.add("fuse_pointwise")
        if isinstance(s, ir.Transform) and s.pad is not None:
            found.add("align")
    if not any(_copies(s, program) for s in program.stages):
        found.add("drop_copy")
    return frozenset(found)


def _copies(s: ir.Stage, program: ir.Program) -> bool:
    """Whether a stage is a copy of the kind that drop_copy is about: timed, and only another layout or type of
    something. Casting a parameter of the program is the price of its class and no copy of the module's."""
    if not isinstance(s, ir.Transform) or s.prepack or s.pad is not None:
        return False
    source = program.type_of(s.x.name)
    outside = s.x.name in {p.name for p in program.params}
    return not outside or (source is not None and s.to in (None, source.dtype))


def _products(s: ir.Collective, read: Sequence[ir.TensorType]) -> set[str]:
    found = set()
    compute = s.config.compute or (read[0].dtype if read else None)
    if compute in _LOWER:
        found.add("lower_class")
    if s.config.scheduler is not None and s.config.scheduler.kind in ("split_k", "stream_k"):
        found.add(s.config.scheduler.kind)
    if isinstance(s, ir.Conv) and any(t.layout == ir.NHWC for t in read):
        found.add("channels_last")
    return found


def _fills_the_last_wave(program: ir.Program, s: ir.Collective, sms: int) -> bool:
    """Whether its tiles leave clearly fewer SMs idle in the last wave than tiles of 128x128 would: the other way that
    the lever stream_k names."""
    if s.config.tile is None or s.config.tile[:2] == (128, 128) or isinstance(s, ir.Conv):
        return False
    p = product_of(program, s)

    def busy(bm: int, bn: int) -> float:
        tiles = p.l * ceil(p.m / bm) * ceil(p.n / bn)
        return p.l * p.m * p.n / (bm * bn) / (ceil(tiles / sms) * sms)

    return busy(*s.config.tile[:2]) > busy(128, 128) + 0.05


@dataclass(frozen=True)
class Timed:
    """A trial that ended well: its class, what it tries, its time in ms."""

    trial: int
    cls: str
    actions: frozenset[str]
    ms: float


@dataclass(frozen=True)
class Checked:
    """One lever of a report after the trials. `predicted`, `observed`: speedups; `trial`: the best that tries it, or
    None where none did; `against`: what it is compared with, in words."""

    action: str
    title: str
    cls: str
    predicted: float
    observed: float | None
    trial: int | None
    against: str


def check(levers: Sequence[Lever], trials: Sequence[Timed], baselines: Mapping[str, float]) -> list[Checked]:
    """Every lever, in the report's order, with what came of it. `baselines`: class -> PyTorch's ms.

    lower_class is looked for in the class that it names, and compared with PyTorch in the lever's own class. Any other
    lever of a class in which nothing was tried is looked for in the first class that was: fusing is fusing there too.
    """
    out = []
    for lever in levers:
        cls, own = lever.cls, lever.cls
        if lever.action == "lower_class":
            cls = lever.title.split()[2]
        elif trials and all(t.cls != cls for t in trials):
            cls = own = trials[0].cls
        mine = [t for t in trials if t.cls == cls]
        does = min((t for t in mine if lever.action in t.actions), key=lambda t: t.ms, default=None)
        others = [t for t in mine if lever.action not in t.actions]
        observed, against = None, ""
        if does is not None and others and lever.action != "lower_class":
            other = min(others, key=lambda t: t.ms)
            observed, against = other.ms / does.ms, f"trial {other.trial}, the best without it"
        elif does is not None and own in baselines:
            observed, against = baselines[own] / does.ms, f"PyTorch in {own}"
        out.append(
            Checked(
                lever.action,
                lever.title,
                own,
                lever.speedup,
                observed,
                does.trial if does else None,
                against or "not tried",
            )
        )
    return out


def outcomes(checked: Sequence[Checked], problem: str = "") -> list[Outcome]:
    """What the memory of triage keeps: the levers that a session tried."""
    return [
        Outcome(c.action, c.predicted, c.observed, problem, c.cls)
        for c in checked
        if c.trial is not None and c.observed is not None
    ]
