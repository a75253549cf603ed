"""Split a traced graph into regions that the rules can lower, and the rest, which stays PyTorch.

A region is a set of operations that becomes one program. An operation without a rule is left out by name, with the
reason. The operations around it are split so that every region runs as one launch sequence: all its inputs exist before
it starts. Levels ensure this:

    an operation outside    has the highest level among its inputs
    a covered one           has the same, or one higher than its inputs from outside

A region is the covered work of one level. A covered operation then moves to the level of its first reader, so that an
expert's product is fused with the scale that the router computes outside.

A permuted view that the module returns is free in PyTorch and stays PyTorch where the program would have to copy its
result into that order as its last stage.

A region that the rules lower but no back end takes is split in two at its middle product (norm, reduction, pool), until
the half at fault is alone and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.devices import SessionRefused
from engine.devices.parts import subgraph
from engine.evaluate.candidate.allowed_aten import ALLOWED
from engine.strategies.planner.lowering.drafts import Attention, Rearrangement, stage_of
from engine.strategies.planner.lowering.lower import IDENTITIES, NOTHING_MADE, Lowered, lower
from engine.strategies.planner.lowering.rules.attention import SDPA, attended
from engine.strategies.planner.lowering.rules.composites import COMPOSITES
from engine.strategies.planner.lowering.rules.nonproduct import CONVOLUTIONS, NORMALIZATIONS, POOLS, REDUCTIONS
from engine.strategies.planner.lowering.rules.products import PRODUCTS
from engine.strategies.planner.lowering.rules.recurrent import NETWORKS, layers, refusals
from engine.strategies.planner.lowering.rules.views import SWAPS, VIEWS, still
from engine.strategies.planner.refusals import refuse
from engine.strategies.planner.regions.suitable import of_one_size, unsuitable
from sol.graph import SLICES, Op, OpGraph

_CUTS = (*SLICES, "select")  # PyTorch makes them without moving anything
_ANCHORS = {
    SDPA,
    *PRODUCTS,
    *CONVOLUTIONS,
    *POOLS,
    *NORMALIZATIONS,
    *REDUCTIONS,
    *COMPOSITES,
    *NETWORKS,
}  # operations that become stages
Accept = Callable[[Lowered], str | None]  # why no back end takes it, or None
TOO_LONG = "it would be a program of too many words"  # a reason of which each half may be free


@dataclass(frozen=True)
class Uncovered:
    """An operation that stays PyTorch: its name in the graph, ATen's name, its line, the reason as a sentence, and the
    reason without the operation's name and line ("" if the sentence is not only about this operation)."""

    name: str
    op: str
    line: int | None
    reason: str
    why: str = ""


@dataclass(frozen=True)
class Region:
    """Operations that become one program. `graph`: only these, with their outside inputs as its inputs; `number`: from
    1, in the order in which they run."""

    number: int
    graph: OpGraph
    lowered: Lowered

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(op.name for op in self.graph.ops)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors of the module's graph that the region's program reads."""
        return tuple(dict.fromkeys(b.tensor for b in self.lowered.inputs))

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.graph.outputs

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(sorted({op.line for op in self.graph.ops if op.line}))


@dataclass(frozen=True)
class Partition:
    """`whole`: one region is the whole module, and nothing is left to PyTorch."""

    graph: OpGraph
    regions: tuple[Region, ...]
    uncovered: tuple[Uncovered, ...] = ()

    @property
    def whole(self) -> bool:
        return len(self.regions) == 1 and self.regions[0].graph is self.graph

    @property
    def rest(self) -> OpGraph:
        """The operations that stay PyTorch, as a graph."""
        inside = {name for r in self.regions for name in r.ops}
        return subgraph(self.graph, [op for op in self.graph.ops if op.name not in inside])


class NothingCovered(SessionRefused):
    """No part of the module becomes a program, so all of it stays PyTorch. `uncovered`: its operations, where their
    reasons are known."""

    def __init__(self, code: str, reason: str, line: int | None = None, *, of: SessionRefused | None = None,
                 uncovered: tuple[Uncovered, ...] = ()):  # fmt: skip
        super().__init__(code, reason, line, *((of.why, of.covered) if of is not None else ()))
        self.uncovered = uncovered


def partition(graph: OpGraph, accept: Accept = lambda lowered: None, title: str = "module") -> Partition:
    """Raises NothingCovered with the first reason if no region is left, or if an operation that is left out cannot run
    beside regions (engine.evaluate.candidate.allowed_aten)."""
    whole, views = None, {}
    try:
        lowered = lower(of_one_size(graph), title)
        if accept(lowered) is None:
            whole, views = Partition(graph, (Region(1, graph, lowered),)), _copied_views(graph, lowered)
            if not views:
                return whole
    except SessionRefused:
        pass
    try:
        cut = _Search(graph, accept, title).run()
    except NothingCovered:
        if whole is None:
            raise
        return whole
    return cut if whole is None or {u.name for u in cut.uncovered} <= views.keys() else whole


def _copied_views(graph: OpGraph, lowered: Lowered) -> dict[str, tuple[str, str]]:
    """The views that the module returns, PyTorch moves nothing for, and `lowered` copies into order in a stage of its
    own, and those beside a result that they show: operation -> why it stays PyTorch, as a sentence and without the
    operation's name."""
    left = _second_names(graph, lowered)
    for result, binding in zip(lowered.results, lowered.outputs, strict=True):
        stage = stage_of(result)
        if stage is None or not isinstance(lowered.stages[stage], Rearrangement):
            continue
        if binding.tensor not in graph.outputs or not graph.tensors[binding.tensor].strides:
            continue
        for op in _trailing_views(graph, binding.tensor):
            left[op.name] = _about(op, "moves nothing in PyTorch, where a program would copy its result into order")
    return left


def _second_names(graph: OpGraph, lowered: Lowered) -> dict[str, tuple[str, str]]:
    """The operations whose result a program would return beside the same result under another name."""
    left, known = {}, set()
    results = [(result, b.tensor) for result, b in zip(lowered.results, lowered.outputs, strict=True)]
    for result, tensor in sorted(results, key=lambda r: _is_view(graph, r[1])):
        op = graph.producer.get(tensor)
        if result in known and op is not None:
            does = "shows" if _is_view(graph, tensor) else "computes"
            left[op.name] = _about(op, f"{does} another result of its program, which returns each once")
        known.add(result)
    return left


def _is_view(graph: OpGraph, tensor: str) -> bool:
    op = graph.producer.get(tensor)
    return op is not None and (op.op in (*VIEWS, *IDENTITIES) or still(op))


def _trailing_views(graph: OpGraph, tensor: str) -> list[Op]:
    """The views between `tensor`, a result of the module, and the last stage, from the first that swaps axes on; none
    where something else reads a tensor between them, for then it is needed in order."""
    chain = []
    while (op := graph.producer.get(tensor)) is not None and op.op in VIEWS:
        if any(reader not in chain for reader in graph.readers.get(tensor, ())):
            break
        chain.append(op)
        tensor = op.inputs[0]
    while chain and chain[-1].op not in SWAPS:
        chain.pop()
    return chain if graph.producer.get(tensor) is not None else []


@dataclass(frozen=True)
class _Tried:
    """What became of some operations as a region: lowered, or the rules' refusal; the views that its program copies;
    why no back end takes it, asked only where it copies none."""

    part: OpGraph
    lowered: Lowered | SessionRefused
    views: dict[str, tuple[str, str]] = field(default_factory=dict)
    why: str | None = None


@dataclass
class _Search:
    """`outside`: operation -> (the reason as a sentence, the same without the operation's name and line); `cut`:
    operation -> the halves that it is in, one per split; `known`: regions of earlier attempts, by their operations."""

    graph: OpGraph
    accept: Accept
    title: str
    outside: dict[str, tuple[str, str]] = field(default_factory=dict)
    cut: dict[str, str] = field(default_factory=dict)
    known: dict[tuple[str, ...], _Tried] = field(default_factory=dict)
    first: SessionRefused | None = None  # the first reason in full, for a module without any region

    def run(self) -> Partition:
        self._second_results()
        self._without_rules()
        while True:
            regions = self._attempt()
            if regions is not None:
                break
        if not regions:
            reasons = (reason for reason, _ in self.outside.values())
            first = self.first or SessionRefused("not_covered", next(reasons, "nothing is computed"))
            raise NothingCovered(first.code, first.reason, first.line, of=first, uncovered=self._left())
        left = self._left()
        _runnable(left)
        return Partition(self.graph, tuple(regions), left)

    def _left(self) -> tuple[Uncovered, ...]:
        return tuple(
            Uncovered(op.name, op.op, op.line, *self.outside[op.name])
            for op in self.graph.ops
            if op.name in self.outside
        )

    def _without_rules(self) -> None:
        """Leave out at once what no region can hold, not one operation an attempt."""
        for op in self.graph.live:
            if op.name not in self.outside and (e := unsuitable(op, self.graph)) is not None:
                self.first = self.first or e
                self.outside[op.name] = (e.reason, e.why)

    def _second_results(self) -> None:
        """Leave out operations with several results that are read, because a stage has one. A slice is none, what only
        shows heads to an attention is gone, and a recurrent network has stages that store several."""
        gone = attended(self.graph) | layers(self.graph)
        for name, why in refusals(self.graph).items():
            e = refuse(next(op for op in self.graph.ops if op.name == name), why)
            self.first = self.first or e
            self.outside[name] = (e.reason, e.why)
        for op in (op for op in self.graph.ops if op.name not in gone):
            for name in op.outputs[1:] if op.op not in SLICES else ():
                if name in self.graph.readers or name in self.graph.outputs:
                    self.outside.setdefault(op.name, _about(op, "has several results that are read"))

    def _attempt(self) -> list[Region] | None:
        """The regions; None if one more operation was left out or one more split was made and the search must
        restart."""
        regions = []
        for ops in self._groups():
            key = tuple(op.name for op in ops)
            tried = self.known.get(key) or self.known.setdefault(key, self._tried(ops))
            if isinstance(tried.lowered, SessionRefused):
                self._leave(tried.lowered, ops)
                return None
            if tried.views.keys() - self.outside.keys():
                self.outside |= tried.views
                return None
            if tried.why is not None:
                self._halve(ops, tried.why)
                return None
            number = len(regions) + 1
            regions.append(Region(number, tried.part, replace(tried.lowered, name=f"{self.title}_{number}")))
        return regions

    def _tried(self, ops: list[Op]) -> _Tried:
        part = subgraph(self.graph, ops)
        try:
            lowered = lower(part, self.title)
        except SessionRefused as e:
            return _Tried(part, e)
        views = _copied_views(self.graph, lowered)
        why = None if views.keys() - self.outside.keys() else self.accept(lowered)
        if why is not None and TOO_LONG not in why and any(isinstance(stage, Attention) for stage in lowered.stages):
            return self._without_attention(part)
        return _Tried(part, lowered, views, why)

    def _without_attention(self, part: OpGraph) -> _Tried:
        """The region with attention as it is written, where no back end takes it as a stage in the class."""
        try:
            lowered = lower(part, self.title, attends=False)
        except SessionRefused as e:
            return _Tried(part, e)
        return _Tried(part, lowered, _copied_views(self.graph, lowered), self.accept(lowered))

    def _leave(self, e: SessionRefused, ops: list[Op]) -> None:
        """Leave out the operation that the rules refused, or the whole region if they name none. With a slice go its
        like: a loop over heads or experts cuts a tensor hundreds of times, and each would be an attempt."""
        self.first = self.first or e
        at = getattr(e, "op", "")
        blamed = [op for op in ops if op.name == at] or ops
        if blamed[0].op in _CUTS and len(blamed) == 1:
            blamed = [op for op in ops if op.op in _CUTS and self._use(op) == self._use(blamed[0])]
        for op in blamed:
            reasons = _about(op, "only changes how a tensor is seen that no program beside it makes")
            self.outside[op.name] = reasons if e.reason == NOTHING_MADE else (e.reason, e.why)

    def _use(self, op: Op) -> tuple:
        """What an operation reads and what reads it, by operations and shapes."""
        readers = [r for name in op.outputs for r in self.graph.readers.get(name, ())]
        shapes = [self.graph.tensors[n].shape for n in (*op.inputs, *op.outputs)]
        return op.op, shapes, [(r.op, [self.graph.tensors[n].shape for n in r.inputs]) for r in readers]

    def _halve(self, ops: list[Op], why: str) -> None:
        anchors = [i for i, op in enumerate(ops) if op.op in _ANCHORS]
        if len(anchors) < 2:
            reason = f"the module is understood, but its program is rejected: {why}"
            self.first = self.first or SessionRefused("not_covered", reason)
            self.outside |= {op.name: (f"no back end takes its program: {why}", "") for op in ops}
            return
        middle, second = anchors[len(anchors) // 2], set()
        together = attended(self.graph)  # an attention stays whole, with what shows it heads
        for i, op in reversed(list(enumerate(ops))):
            readers = [r.name for n in op.outputs for r in self.graph.readers.get(n, ())]
            if i >= middle or (op.name in together and readers and second.issuperset(readers)):
                second.add(op.name)
        for op in ops:
            self.cut[op.name] = self.cut.get(op.name, "") + ("b" if op.name in second else "a")

    def _groups(self) -> list[list[Op]]:
        """The covered operations of each region, in the order in which the regions run."""
        level = self._levels()
        groups: dict[tuple[int, str], list[Op]] = {}
        for op in self.graph.live:
            if op.name not in self.outside:
                groups.setdefault((level[op.name], self.cut.get(op.name, "")), []).append(op)
        return [groups[k] for k in sorted(groups)]

    def _levels(self) -> dict[str, int]:
        producer, outside = self.graph.producer, self.outside
        level: dict[str, int] = {}
        for op in self.graph.ops:
            producers = [producer[n] for n in op.inputs if n in producer]
            if op.name in outside:
                level[op.name] = max((level[p.name] for p in producers), default=0)
            else:
                level[op.name] = max((level[p.name] + self._step(p, op) for p in producers), default=0)
        for op in reversed(self.graph.ops):  # covered work moves to the level of its first reader
            if op.name in outside:
                continue
            readers = [r for n in op.outputs for r in self.graph.readers.get(n, ())]
            if readers and not any(n in self.graph.outputs for n in op.outputs):
                latest = min(level[r.name] - (r.name not in outside and self._step(op, r)) for r in readers)
                level[op.name] = max(level[op.name], latest)
        return level

    def _step(self, producer: Op, reader: Op) -> int:
        """The least number of levels from a producer to a covered reader."""
        if producer.name in self.outside:
            return 1
        return int(self.cut.get(producer.name, "") != self.cut.get(reader.name, ""))


def _runnable(uncovered: tuple[Uncovered, ...]) -> None:
    """Refuse now an operation that PyTorch cannot run in a trial beside regions, instead of at the first trial."""
    unknown = [u for u in uncovered if u.op not in ALLOWED]
    if unknown:
        named = ", ".join(dict.fromkeys(f"`aten.{u.op}`{_at(u)}" for u in unknown))
        which = "is not an operation that a program" if len(unknown) == 1 else "are not operations that a program"
        raise NothingCovered(
            "not_covered",
            f"{named} {which} may compute or that runs beside one. Compute it in get_inputs() and pass the result to "
            "forward as an input, or write it with other operations.",
            unknown[0].line,
            uncovered=tuple(unknown),
        )


def _about(op: Op, why: str) -> tuple[str, str]:
    """A reason as a sentence, and without the operation's name and line."""
    return f"`aten.{op.op}`{_at(op)} {why}", why


def _at(op: Op | Uncovered) -> str:
    return f" (line {op.line})" if op.line else ""


__all__ = ["NothingCovered", "Partition", "Region", "Uncovered", "partition", "subgraph"]
