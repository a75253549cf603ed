"""A prepared problem: what strategies, trials and devices may ask about the work of a session.

A module that the rules lower whole is one program; any other is split into regions (engine.strategies.planner.regions),
each of which becomes a program while the rest stays PyTorch. A `Part` is a region, or the whole module, in one
precision class, with the structures of its programs. For any strategy's text, this module finds its part, the tensors
of its parameters and the work that it omits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Collective, Config, Program, Stage
from dsl.printer import to_text
from dsl.syntax import MAX_TOKENS, words
from engine import devices
from engine.classes import class_among
from engine.devices import Binding, SessionRefused
from engine.devices.parts import subgraph
from engine.session import events
from engine.session.kernel_text import CLASSES as KERNEL_CLASSES
from engine.signatures import changing_pack
from engine.strategies.api import Candidate
from engine.strategies.planner.lowering import program_graph
from engine.strategies.planner.lowering.lower import CLASSES, FLOATS, NATIVE, Lowered, lower
from engine.strategies.planner.regions import coverage
from engine.strategies.planner.regions.partition import (
    TOO_LONG,
    NothingCovered,
    Partition,
    Region,
    Uncovered,
    partition,
)
from engine.strategies.planner.search.carried import carried
from engine.strategies.planner.search.program_index import ProgramIndex
from engine.strategies.planner.search.structures import Structure, opened, structures
from engine.strategies.state import State
from engine.words import class_name
from sol import algebra
from sol.bounds import legal_classes, native_class, t_sol
from sol.cost.liveness import liveness
from sol.graph import OpGraph
from sol.hardware import Hardware
from sol.render import si

CHOICES = 24  # words that the choices of one product take at most
LISTED = f"{', '.join(CLASSES[:-1])} or {CLASSES[-1]}"


class Cancelled(Exception):
    """The session was stopped while its problem was prepared or its script ran."""


@dataclass(frozen=True)
class Algebraic:
    """A rewrite that omits work (sol.algebra): its words, and the limits in ms, by class,
    of the remaining work."""

    words: str
    limits: dict[str, float]


@dataclass(frozen=True)
class Part:
    """The work of one program in one class.

    `structures`: programs that differ in structure, all checked and taken by a back end, the one expected to be fastest
    first; `bindings`: the tensors of the module's graph that they take and return; `region`: None if the program is the
    whole module; `graph`: the operations of the part; `algebraic`: set if the programs do less work than the module
    asks for.
    """

    cls: str
    structures: tuple[Structure, ...]
    bindings: tuple[tuple[Binding, ...], tuple[Binding, ...]]
    graph: OpGraph
    region: Region | None = None
    algebraic: Algebraic | None = None

    @property
    def number(self) -> int:
        """The region's number; 0 if the program is the whole module."""
        return self.region.number if self.region else 0

    @property
    def base(self) -> Program:
        return self.structures[0].base


@dataclass
class Prepared:
    """`task`: the text, its graph and the seed; `allowed`: the classes that the session allows; `device_kind`:
    measured | predicted; `screens`: whether the device takes quick times.

    For scripts: `start`, the state when the script starts; `memory` of other problems; `rng`, seeded; `cancelled()`,
    which waits while the session is paused and returns True if it is stopped. `refusal`: why no part of the problem is
    a program of the language; `parts` is then empty.
    """

    task: devices.Problem
    allowed: tuple[str, ...]
    hardware: Hardware
    device_kind: str = "predicted"
    screens: bool = False
    memory: str = ""
    cancelled: Callable[[], bool] = lambda: False
    start: State = field(default_factory=State)
    parts: tuple[Part, ...] = ()
    notes: list[events.Noted] = field(default_factory=list)  # remarks for a person, e.g. a class that is left out
    partition: Partition | None = None
    regions: tuple[coverage.Covered, ...] = ()
    uncovered: tuple[Uncovered, ...] = ()
    covered: events.Covered | None = None  # set for a module that is not one program
    refusal: SessionRefused | None = None
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.task.seed)
        try:
            if self.task.source_kind == "program":
                self.parts = (self._pasted(),)
            else:
                _Lowering(self).run()
        except SessionRefused as e:
            self.refusal = e
            if isinstance(e, NothingCovered):
                self.uncovered = e.uncovered
                none = Partition(self.graph, (), e.uncovered)
                self.covered = coverage.event(none, (), self.hardware, self.allowed[0])
        self._index = ProgramIndex(self.parts, self.hardware.sms)

    def carried(self, cls: str, text: str) -> str | None:
        """A program of the same module at other sizes, for the sizes of this problem; None if it has no counterpart
        here."""
        return carried(text, (s for part in self.parts if part.cls == cls for s in part.structures))

    @property
    def graph(self) -> OpGraph:
        return self.task.graph

    @cached_property
    def classes(self) -> list[str]:
        """The classes in which the problem has programs or, if it has none, the allowed classes that apply to it; if
        none does (a module of whole numbers), the one that it is computed in."""
        legal = legal_classes(self.graph, self.hardware)
        own = dict.fromkeys(part.cls for part in self.parts)
        return list(own) or [cls for cls in self.allowed if cls in legal] or list(legal[:1])

    @cached_property
    def limits(self) -> dict[str, float]:
        """class -> t_sol in ms. The limit of f16 is included for guarded programs of class tf32
        (engine.classes.roof_of). Allowed classes that do not apply to the problem on this hardware are missing."""
        legal = legal_classes(self.graph, self.hardware)
        others = [cls for cls in self.allowed if cls in legal]
        roofs = dict.fromkeys([*self.classes, *others, *(["f16"] if "tf32" in self.classes else [])])
        return {cls: t_sol(self.graph, self.hardware, cls) for cls in roofs}

    @cached_property
    def kernel_class(self) -> str:
        """The class of a raw kernel that declares none: the first allowed one that the module has a limit in."""
        legal = legal_classes(self.graph, self.hardware)
        wanted = [cls for cls in (*self.allowed, *legal, "f32") if cls in KERNEL_CLASSES]
        return next((cls for cls in wanted if cls in legal), wanted[0])

    def of(self, cls: str) -> list[Part]:
        """The module's own parts in a class, without those that omit work."""
        return [part for part in self.parts if part.cls == cls and part.algebraic is None]

    # ---- lookups by a program's text ----

    def region(self, text: str) -> int:
        """The number of a program's region; 0 for the whole module."""
        return self._index.region(text) if self.parts else 0

    def ops(self, region: int) -> tuple[str, ...]:
        """The operations of a region; () for the whole module."""
        return next((r.ops for r in self.regions if r.number == region), ()) if region else ()

    def algebraic(self, text: str, cls: str) -> Algebraic | None:
        """The work of the module that a program omits; None if it does all of it."""
        part = self._index.lookup(cls, text)[0]
        return part.algebraic if part is not None else None

    def bind(self, text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Parameters and results of a program (also of the owner's) as tensors of the graph. Raises TrialError("check")
        if its signature does not fit the problem, or if it prepacks what changes at every call."""
        if not self.parts:
            raise devices.TrialError("check", "not_covered", f"no program covers this module: {self.refusal}")
        inputs, outputs = self._index.bind(text)
        tensors = {b.name: b.tensor for b in inputs}
        if self.task.source_kind == "module" and (why := changing_pack(check(text).program, tensors, self.graph)):
            raise devices.TrialError("check", "prepack", why)
        return inputs, outputs

    def candidate(self, text: str, cls: str = "") -> Candidate:
        """A program's text as a candidate, in the class that it computes in and for `cute`, whose builds are fast, if
        that takes it. `cls`: of a text that fails its checks; "": the first one of the problem."""
        program = check(text).program
        if program is None:
            return Candidate(text, cls or self.classes[0], "cute")
        backend = next(iter(generate(program, self.hardware.sms, first=True).sources), "cute")
        return Candidate(text, class_among(program, self.classes), backend)

    # ---- preparing ----

    def _pasted(self) -> Part:
        """The program as its author wrote it; `base` of its structure leaves the configuration open."""
        pasted = check(self.task.source).program
        if pasted is None:
            raise SessionRefused("bad_program", "the program does not pass its checks")
        reasons: list[str] = []
        structure = opened(pasted, "the given program", self.hardware, reasons)
        if structure is None:
            raise SessionRefused("not_covered", f"no back end takes this program: {reasons[0]}")
        structure.base = _plain(pasted)
        bindings = program_graph.bindings(pasted)
        return Part(program_graph.class_of(pasted), (structure,), bindings, self.graph)


def _not_in_float64(graph: OpGraph) -> None:
    """Raises SessionRefused("element_type") for a module that computes only in float64."""
    floats = {graph.tensors[n].dtype for op in graph.live for n in op.outputs} & {"f64", *NATIVE}
    if floats == {"f64"}:
        line = next((op.line for op in graph.live if graph.tensors[op.outputs[0]].dtype == "f64"), None)
        reason = (
            f"The module computes in float64, and programs compute in {FLOATS}. Make its parameters and inputs "
            "float32: .float(), and no dtype=torch.float64 in get_inputs()."
        )
        raise SessionRefused("element_type", reason, line)


class _Lowering:
    """A module as parts."""

    def __init__(self, problem: Prepared):
        self.problem, self.hardware, self.classes = problem, problem.hardware, problem.allowed
        self._opened: dict[tuple[str, str], tuple[list[Structure], list[str]]] = {}  # by class and plain program
        self._left_out: dict[str, str] = {}

    def run(self) -> None:
        p = self.problem
        _not_in_float64(p.graph)
        _fits(p.graph, self.hardware)
        cut = partition(p.graph, self._rejected)
        if cut.whole and p.graph.writes:
            cut = _beside_writes(cut)
        parts = [
            Part(cls, tuple(structures), _bindings(region.lowered), region.graph, None if cut.whole else region)
            for region in cut.regions
            for cls in self._of(region.lowered)
            if (structures := self._structures(region.lowered, cls)[0])
        ]
        order = list(dict.fromkeys(part.cls for part in parts))
        if cut.whole:
            parts += self._algebraic()
        p.parts, p.partition, p.uncovered = tuple(parts), cut, cut.uncovered
        p.notes += [
            events.Noted("class_left_out", f"{cls} is left out: {why}", cls)
            for cls, why in self._left_out.items()
            if cls not in order
        ]
        p.regions = coverage.covered(cut, self.hardware, order)
        p.covered = coverage.event(cut, p.regions, self.hardware, order[0])

    def _of(self, lowered: Lowered) -> list[str]:
        """The classes of a region's programs that the module may have: its products may read another type than the
        region does, such as a cast input, and are then in their own."""
        graph, own = self.problem.graph, lowered.classes(self.classes)
        legal = legal_classes(graph, self.hardware)
        native = [cls for cls in NATIVE.values() if own and cls in legal and cls == native_class(graph)]
        return [cls for cls in own if cls in legal] or native

    def _rejected(self, lowered: Lowered) -> str | None:
        """Why no back end takes a region in any class, or None."""
        classes = self._of(lowered)
        if not classes and (mixed := lowered.classes(self.classes)):
            native = class_name(native_class(self.problem.graph))
            return f"it would be a program in {' or '.join(mixed)}, and the module's products are of {native}"
        if not classes and lowered.dtype not in NATIVE:  # part of a module that continues in another type
            return f"it computes in {class_name(lowered.dtype)}, and programs in {FLOATS}"
        if not classes:
            raise SessionRefused(
                "no_class",
                f"no program is written in class {' or '.join(self.classes)} alone; allow {LISTED} as well. Raw "
                "kernels of class f32 can be tried in every session",
            )
        why = {}
        for cls in classes:
            structures, reasons = self._structures(lowered, cls)
            if not structures:
                why[cls] = reasons[0]
        self._left_out |= why
        return "; ".join(f"{cls}: {reason}" for cls, reason in why.items()) if len(why) == len(classes) else None

    def _structures(self, lowered: Lowered, cls: str) -> tuple[list[Structure], list[str]]:
        """The structures that a back end takes, and why the others are not taken. A region is asked for more than
        once."""
        if self.problem.cancelled():
            raise Cancelled
        named = replace(lowered, name="p")
        plain = to_text(named.program(cls))
        if (cls, plain) not in self._opened:
            reasons: list[str] = [TOO_LONG] if _too_long(named, cls, plain) else []
            finer = "tf32" not in self.classes  # else they have trials of their own
            own = [] if reasons else structures(named, cls, self.hardware, reasons, finer)
            self._opened[cls, plain] = own, reasons
        own, reasons = self._opened[cls, plain]
        return [s.named(lowered.name) for s in own], reasons

    def _algebraic(self) -> list[Part]:
        """The module with less work than it asks for, as separate parts."""
        rewritten = algebra.rewritten(self.problem.graph)
        if rewritten is None:
            return []
        try:
            lowered = lower(rewritten.graph)
        except SessionRefused:
            return []
        limits = {c: t_sol(rewritten.graph, self.hardware, c) for c in self.classes}
        offer, bindings = Algebraic(rewritten.words, limits), _bindings(lowered)
        return [
            Part(cls, tuple(structures), bindings, rewritten.graph, algebraic=offer)
            for cls in self._of(lowered)
            if (structures := self._structures(lowered, cls)[0])
        ]


def prepare(problem: devices.Problem, allowed: Sequence[str], hardware: Hardware, **more: Any) -> Prepared:
    """A problem that is, at least in part, a program. `more`: fields of Prepared. Raises SessionRefused with the first
    reason if no part is one."""
    prepared = Prepared(problem, tuple(allowed), hardware, **more)
    if prepared.refusal is not None:
        raise prepared.refusal
    return prepared


def _too_long(lowered: Lowered, cls: str, plain: str) -> bool:
    """Return True if the language would not read the program once every choice of its products is written out."""
    products = sum(isinstance(stage, Collective) for stage in lowered.program(cls).stages)
    return words(plain) + CHOICES * products > MAX_TOKENS


def _fits(graph: OpGraph, hardware: Hardware) -> None:
    """Raise SessionRefused for a module that PyTorch cannot run on the device for lack of memory."""
    need = liveness(graph)
    if need.peak_bytes <= hardware.memory_bytes:
        return
    line = next((op.line for op in graph.ops if op.name == need.peak_op), None)
    at = f"Line {line} ({need.peak_op})" if line else f"Operation {need.peak_op}" if need.peak_op else "The module"
    what = "inputs and parameters" if need.external_bytes > hardware.memory_bytes / 2 else "inputs"
    raise SessionRefused(
        "device_memory",
        f"{at} needs {si(need.peak_bytes, 'B')} in PyTorch with all that is alive then, and {hardware.title} has "
        f"{si(hardware.memory_bytes, 'B')}: make the {what} smaller, or choose a GPU with more memory.",
        line,
    )


def _beside_writes(cut: Partition) -> Partition:
    """The program that computes all of a module whose forward also writes tensors, as a region: PyTorch copies the new
    values after it."""
    part = subgraph(cut.graph, list(cut.graph.live))
    return Partition(cut.graph, (Region(1, part, lower(part)),))


def _bindings(lowered: Lowered) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    return lowered.inputs, lowered.outputs


def _plain(program: Program) -> Program:
    """The same pipeline with an open configuration. Precision and back end stay as the author wrote them."""

    def plain(s: Stage) -> Stage:
        if not isinstance(s, Collective):
            return s
        return replace(s, config=Config(compute=s.config.compute, backend=s.config.backend))

    return replace(program, stages=tuple(plain(s) for s in program.stages))


__all__ = ["Algebraic", "Cancelled", "Part", "Prepared", "prepare"]
