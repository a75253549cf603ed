"""A traced graph, run by PyTorch operation by operation, with programs in place of its regions.

    made = RegionRuntime(graph, places, "cuda", "tf32")
    made.run(values)           # {output: tensor}; `into`: where programs write the module's own results
    made.alone(values)         # each program on its inputs in such a run, as a call to be timed
    made.fuse(make)            # each run of PyTorch's operations as the one call that `make` gives

A session's correctness check and its time of a whole module with regions both come from here. What stays PyTorch runs
as the baseline of the class does: TF32 allowed in tf32, under autocast in f16 and bf16. A program gets each tensor in
its traced type, dense. Needs torch; only for workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch

from engine.evaluate.candidate.aten import operation
from engine.evaluate.candidate.binding import bound
from engine.evaluate.candidate.guarded_outputs import Guarded
from engine.evaluate.correctness.inputs import torch_dtype
from engine.evaluate.fused_calls import Fused, Row
from engine.evaluate.reference.pytorch_classes import casting, permitted
from sol.bounds import pytorch_class
from sol.cost.runs import border, runs
from sol.graph import Op, OpGraph

_SIZED = ("view", "reshape", "_unsafe_view")
Run = Callable[[list[torch.Tensor], list[torch.Tensor]], Any]
Meaning = Callable[[list[torch.Tensor]], list[torch.Tensor]]


@dataclass
class Place:
    """A program and its bindings. `inputs`, `outputs`: bindings (name, tensor, shape; outputs with dtype) to the
    graph's tensors. Either `run(inputs, outputs)`, machine code that writes, or `meaning(inputs)`, which returns
    results."""

    ops: frozenset[str]
    inputs: list[dict]
    outputs: list[dict]
    run: Run | None = None
    meaning: Meaning | None = None


@dataclass
class _Step:
    """One launch sequence: a place, an operation, or a fused run of them (with only its call), and the tensors that are
    no longer needed after it."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    place: Place | None = None
    op: Op | None = None
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]] | None = None
    drops: list[str] = field(default_factory=list)


class RegionRuntime:
    """Raises UnknownOp for an operation that PyTorch may not run here, ValueError for places that wait for each
    other."""

    def __init__(self, graph: OpGraph, places: Sequence[Place], device: str, cls: str):
        self.graph, self.places, self.device, self.cls = graph, places, device, pytorch_class(cls, graph)
        self.state = tuple(n for n, t in graph.tensors.items() if t.kind != "intermediate")
        self.steps = list(self._ordered(places))
        self._forget_early()
        self.read = tuple(n for n in self.state if any(n in s.reads for s in self.steps) or n in graph.outputs)
        self._dtypes = {n: torch_dtype(t.dtype) for n, t in graph.tensors.items()}
        self._bound: dict[tuple, tuple[torch.Tensor, torch.Tensor]] = {}

    # ---- the order ----

    def _ordered(self, places: Sequence[Place]) -> Iterator[_Step]:
        """The steps, each once all its inputs exist, as early as its position in the module."""
        for at, ops in self.graph.steps([p.ops for p in places]):
            if at is None:
                (op,) = ops
                yield _Step(op.inputs, op.outputs, op=op, call=operation(op, self.device))
                continue
            reads = tuple(b["tensor"] for b in places[at].inputs)
            yield _Step(reads, tuple(b["tensor"] for b in places[at].outputs), place=places[at])

    def _forget_early(self) -> None:
        lasting, last = {*self.state, *self.graph.outputs}, set()
        for step in reversed(self.steps):
            step.drops = [n for n in dict.fromkeys((*step.reads, *step.makes)) if n not in lasting and n not in last]
            last.update(step.drops)

    # ---- what stays PyTorch, compiled ----

    def examples(self) -> dict[str, torch.Tensor]:
        """Every tensor of the module in a call, without data. Those are missing whose shapes depend on values, and what
        is computed from them."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        places = [replace(place, run=lambda inputs, outputs: None, meaning=None) for place in self.places]
        idle = RegionRuntime(self.graph, places, self.device, self.cls)
        with FakeTensorMode(), torch.no_grad(), permitted(self.cls), casting(self.cls, self.device):
            tensors = {
                n: torch.empty(self.graph.tensors[n].shape, dtype=self._dtypes[n], device=self.device)
                for n in self.state
            }
            for step in idle.steps:
                with contextlib.suppress(Exception):  # PyTorch says in many ways that it has no example
                    idle._step(step, tensors, {}, None)
        return tensors

    def fuse(self, make: Callable[[Fused], Callable | None]) -> None:
        """Let `make` give one call for each run of operations from which a compiler gains; None leaves it as it is."""
        for run in runs(self.graph, [place.ops for place in self.places]):
            at = next(i for i, step in enumerate(self.steps) if step.op is run[0])
            mine, others = self.steps[at : at + len(run)], [*self.steps[:at], *self.steps[at + len(run) :]]
            reads, makes = border(_named(mine), _named(others), self.graph.outputs)
            if (call := make(Fused([self._row(step) for step in mine], reads, makes))) is not None:
                self.steps[at : at + len(run)] = [_Step(reads, makes, call=call)]
        self._forget_early()

    def _row(self, step: _Step) -> Row:
        if step.op.op in _SIZED:
            return Row(None, step.reads, step.makes, self.graph.tensors[step.makes[0]].shape)
        return Row(step.call, step.reads, step.makes)

    # ---- running it ----

    def run(
        self, values: Mapping[str, torch.Tensor], into: Mapping[str, torch.Tensor] | None = None,
        watched: list[Guarded] | None = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """The module's results by name, in their traced types. A program's result is in `into`. With `watched`,
        programs' intermediate results are poisoned and between guard bands, which are added to `watched`, because fresh
        memory might hold the correct result of an earlier call."""
        tensors = self.play(values, into, watched)
        return {n: self._typed(n, tensors[n]) for n in self.graph.outputs}

    def play(
        self, values: Mapping[str, torch.Tensor], into: Mapping[str, torch.Tensor] | None = None,
        watched: list[Guarded] | None = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """As `run`, without the traced types: PyTorch's half-precision intermediates stay in half precision."""
        tensors = dict(values)
        with torch.no_grad(), permitted(self.cls), casting(self.cls, self.device):
            for step in self.steps:
                self._step(step, tensors, into or {}, watched)
                for name in step.drops:
                    tensors.pop(name, None)
        return tensors

    def _step(
        self, step: _Step, tensors: dict[str, torch.Tensor], into: Mapping[str, torch.Tensor],
        watched: list[Guarded] | None,
    ) -> None:  # fmt: skip
        if step.place is not None:
            self._program(step.place, tensors, into, watched)
            return
        results = self._eager(step, tensors)
        if len(results) == 1:
            tensors[step.makes[0]] = results[0]
        else:
            tensors.update(zip(step.makes, results, strict=True))

    def alone(
        self, values: Mapping[str, torch.Tensor]
    ) -> tuple[list[tuple[Place, Callable[[], Any]]], dict[str, torch.Tensor]]:
        """The programs (all machine code) in running order, and every tensor of the module."""
        tensors, calls = dict(values), []
        with torch.no_grad(), permitted(self.cls), casting(self.cls, self.device):
            for step in self.steps:
                if step.place is not None:
                    calls.append((step.place, self._call(step.place, tensors)))
                self._step(step, tensors, {}, None)
        return calls, tensors

    def _call(self, place: Place, tensors: Mapping[str, torch.Tensor]) -> Callable[[], Any]:
        inputs = [self._see(b, tensors[b["tensor"]]) for b in place.inputs]
        outputs = self._room(place, {}, None)
        return lambda: place.run(inputs, outputs)

    def _eager(self, step: _Step, tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """What PyTorch makes of a step's operation, under the autocast of the whole run."""
        x = [tensors[n] for n in step.reads]
        if step.op is not None and step.op.op in _SIZED:  # tracing drops the copy that made a view possible
            return [_shaped(x[0], self.graph.tensors[step.makes[0]].shape)]
        results = step.call(x)
        return results if len(results) == len(step.makes) else results[: len(step.makes)]

    def _program(
        self, place: Place, tensors: dict[str, torch.Tensor], into: Mapping[str, torch.Tensor],
        watched: list[Guarded] | None,
    ) -> None:  # fmt: skip
        inputs = [self._see(b, tensors[b["tensor"]]) for b in place.inputs]
        if place.run is not None:
            results = self._room(place, into, watched)
            place.run(inputs, results)
        else:
            with torch.autocast(self.device, enabled=False):
                results = place.meaning(inputs)
        for b, out in zip(place.outputs, results, strict=True):
            tensors[b["tensor"]] = _shaped(out, self.graph.tensors[b["tensor"]].shape)

    def _room(
        self, place: Place, into: Mapping[str, torch.Tensor], watched: list[Guarded] | None
    ) -> list[torch.Tensor]:
        outputs = []
        for b in place.outputs:
            target, dtype = into.get(b["tensor"]), torch_dtype(b["dtype"])
            if target is not None:
                outputs.append(target.view(b["shape"]))
            elif watched is None:
                outputs.append(torch.empty(b["shape"], dtype=dtype, device=self.device))
            else:
                watched.append(Guarded(tuple(b["shape"]), dtype, self.device))
                watched[-1].poison()
                outputs.append(watched[-1].tensor)
        return outputs

    def _see(self, binding: dict, value: torch.Tensor) -> torch.Tensor:
        """The tensor as a program reads it. The module's own tensors are bound once, because prepacking identifies them
        by identity."""
        dtype = self._dtypes[binding["tensor"]]
        as_is = value.dtype is dtype and dtype is not torch.bool and not binding.get("transposed")
        if as_is and value.shape == tuple(binding["shape"]) and value.is_contiguous():
            return value
        key = (binding["tensor"], tuple(binding["shape"]), id(value))
        entry = self._bound.get(key)
        if entry is not None and entry[0] is value:
            return entry[1]
        view = bound(binding, self._typed(binding["tensor"], value)).contiguous()
        if self.graph.tensors[binding["tensor"]].kind != "intermediate":
            self._bound[key] = (value, view)
        return view

    def _typed(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x.to(self._dtypes[name])


def _named(steps: Sequence[_Step]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(step.reads, step.makes) for step in steps]


def _shaped(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """x in the traced shape; on fewer rows its leading axis is shorter."""
    if x.shape == shape:
        return x
    return x.reshape(shape if x.numel() == prod(shape) else (-1, *shape[1:]))


__all__ = ["Place", "RegionRuntime"]
