"""A traced graph run by PyTorch operation by operation, with programs in the places of its regions.

    made = Composed(graph, places, "cuda", "tf32")
    made.run(values)           # {output: tensor}; `into`: where programs write the module's own results
    made.alone(values)         # each program on what it reads in such a run, as a call to be timed

Everything a session says of a module with regions comes from here: that its whole result is right, and how long it
takes as a whole. What stays PyTorch runs as the baseline of the class does: TF32 allowed in tf32, under autocast in
f16 and bf16; a tensor that a program reads is handed over in its traced type, dense. Needs torch; workers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from engine.evaluate.candidate.aten import operation
from engine.evaluate.candidate.binding import bound
from engine.evaluate.candidate.guarded_outputs import Guarded
from engine.evaluate.correctness.inputs import torch_dtype
from engine.evaluate.reference.pytorch_classes import casting, permitted
from sol.bounds import pytorch_class
from sol.graph import Op, OpGraph

_SIZED = ("view", "reshape", "_unsafe_view")
Run = Callable[[list[torch.Tensor], list[torch.Tensor]], Any]
Meaning = Callable[[list[torch.Tensor]], list[torch.Tensor]]


@dataclass
class Place:
    """A program where it stands. `inputs`, `outputs`: bindings (name, tensor, shape; outputs with dtype) to the graph's
    tensors. Either `run(inputs, outputs)`, machine code that writes, or `meaning(inputs)`, which answers results."""

    ops: frozenset[str]
    inputs: list[dict]
    outputs: list[dict]
    run: Run | None = None
    meaning: Meaning | None = None


@dataclass
class _Step:
    """One launch sequence: a place or an operation, and what nobody reads after it."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    place: Place | None = None
    op: Op | None = None
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]] | None = None
    drops: list[str] = field(default_factory=list)


class Composed:
    """Raises UnknownOp for an operation that PyTorch may not run here, ValueError for places that wait in a circle."""

    def __init__(self, graph: OpGraph, places: Sequence[Place], device: str, cls: str):
        self.graph, self.device, self.cls = graph, device, pytorch_class(cls, graph)
        self.state = tuple(n for n, t in graph.tensors.items() if t.kind != "intermediate")
        self.steps = list(self._ordered(places))
        self._forget_early()
        self.read = tuple(n for n in self.state if any(n in s.reads for s in self.steps) or n in graph.outputs)
        self._bound: dict[tuple, tuple[torch.Tensor, torch.Tensor]] = {}

    # ---- the order ----

    def _ordered(self, places: Sequence[Place]) -> Iterator[_Step]:
        """Every step once all that it reads is there, as early in the module as it stands."""
        of = {name: p for p in places for name in p.ops}
        waiting: list[_Step] = []
        seen: set[int] = set()
        for op in self.graph.live:
            place = of.get(op.name)
            if place is None:
                waiting.append(_Step(op.inputs, op.outputs, op=op, call=operation(op, self.device)))
            elif id(place) not in seen:
                seen.add(id(place))
                reads = tuple(b["tensor"] for b in place.inputs)
                waiting.append(_Step(reads, tuple(b["tensor"] for b in place.outputs), place=place))
        there = set(self.state)
        while waiting:
            step = next((s for s in waiting if there.issuperset(s.reads)), None)
            if step is None:
                raise ValueError(f"the regions wait for each other: {', '.join(waiting[0].reads)}")
            waiting.remove(step)
            there.update(step.makes)
            yield step

    def _forget_early(self) -> None:
        kept, last = {*self.state, *self.graph.outputs}, set()
        for step in reversed(self.steps):
            step.drops = [n for n in dict.fromkeys((*step.reads, *step.makes)) if n not in kept and n not in last]
            last.update(step.drops)

    # ---- running it ----

    def run(
        self, values: Mapping[str, torch.Tensor], into: Mapping[str, torch.Tensor] | None = None,
        watched: list[Guarded] | None = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """The module's results by name, in their traced types. A result that a program makes lies in `into`. With
        `watched` what programs hand on lies poisoned between guard bands, which are added to it: fresh memory might
        hold what was right a call ago."""
        held = self.play(values, into, watched)
        return {n: self._typed(n, held[n]) for n in self.graph.outputs}

    def play(
        self, values: Mapping[str, torch.Tensor], into: Mapping[str, torch.Tensor] | None = None,
        watched: list[Guarded] | None = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """The same without the traced types: what PyTorch hands on in half precision stays so."""
        held = dict(values)
        with torch.no_grad(), permitted(self.cls):
            for step in self.steps:
                self._step(step, held, into or {}, watched)
                for name in step.drops:
                    held.pop(name, None)
        return held

    def _step(
        self, step: _Step, held: dict[str, torch.Tensor], into: Mapping[str, torch.Tensor],
        watched: list[Guarded] | None,
    ) -> None:  # fmt: skip
        if step.place is not None:
            self._program(step.place, held, into, watched)
        else:
            held.update(zip(step.makes, self._eager(step, held), strict=True))

    def alone(
        self, values: Mapping[str, torch.Tensor]
    ) -> tuple[list[tuple[Place, Callable[[], Any]]], dict[str, torch.Tensor]]:
        """The programs, machine code all, in the order in which they run; and every tensor of the module."""
        held, calls = dict(values), []
        with torch.no_grad(), permitted(self.cls):
            for step in self.steps:
                if step.place is not None:
                    calls.append((step.place, self._call(step.place, held)))
                self._step(step, held, {}, None)
        return calls, held

    def _call(self, place: Place, held: Mapping[str, torch.Tensor]) -> Callable[[], Any]:
        inputs = [self._see(b, held[b["tensor"]]) for b in place.inputs]
        outputs = self._room(place, {}, None)
        return lambda: place.run(inputs, outputs)

    def _eager(self, step: _Step, held: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        x = [held[n] for n in step.reads]
        if (
            step.op.op in _SIZED
        ):  # tracing drops the copy that made a view possible; on fewer rows the leading axis gives
            shape = self.graph.tensors[step.makes[0]].shape
            whole = x[0].numel() == prod(shape)
            return [x[0].reshape(shape if whole else (-1, *shape[1:]))]
        with casting(self.cls, self.device):
            return step.call(x)[: len(step.makes)]

    def _program(
        self, place: Place, held: dict[str, torch.Tensor], into: Mapping[str, torch.Tensor],
        watched: list[Guarded] | None,
    ) -> None:  # fmt: skip
        inputs = [self._see(b, held[b["tensor"]]) for b in place.inputs]
        if place.run is not None:
            results = self._room(place, into, watched)
            place.run(inputs, results)
        else:
            results = place.meaning(inputs)
        for b, out in zip(place.outputs, results, strict=True):
            shape = self.graph.tensors[b["tensor"]].shape
            held[b["tensor"]] = out.reshape(shape if out.numel() == prod(shape) else (-1, *shape[1:]))

    def _room(
        self, place: Place, into: Mapping[str, torch.Tensor], watched: list[Guarded] | None
    ) -> list[torch.Tensor]:
        made = []
        for b in place.outputs:
            given, dtype = into.get(b["tensor"]), torch_dtype(b["dtype"])
            if given is not None:
                made.append(given.view(b["shape"]))
            elif watched is None:
                made.append(torch.empty(b["shape"], dtype=dtype, device=self.device))
            else:
                watched.append(Guarded(tuple(b["shape"]), dtype, self.device))
                watched[-1].poison()
                made.append(watched[-1].tensor)
        return made

    def _see(self, binding: dict, value: torch.Tensor) -> torch.Tensor:
        """The tensor as a program reads it. What the module holds is seen once: prepacking knows it by its identity."""
        key = (binding["tensor"], tuple(binding["shape"]), value.data_ptr())
        known = self._bound.get(key)
        if known is not None and known[0] is value:
            return known[1]
        seen = bound(binding, self._typed(binding["tensor"], value)).contiguous()
        if self.graph.tensors[binding["tensor"]].kind != "intermediate":
            self._bound[key] = (value, seen)
        return seen

    def _typed(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch_dtype(self.graph.tensors[name].dtype))


__all__ = ["Composed", "Place"]
