"""The judge's side of the outside clock: it draws the inputs, starts and stops the clock, and reads the results.

In this order: a Clock has memory for two timed processes; `rest` measures what a batch takes without calls, before any
timed code was loaded; `lay` says where the candidate lays its results; then any number of `draw` and `batch`. Results
of some calls are compared with the reference afterwards, by engine.evaluate.integrity.process.judge_clock.

Copies and reading that take longer than without calls count as the side's time, or it could work then. Other sessions
make both slower by a tenth, and what was measured before them is out of date: so both sides' results are read, and what
the baseline's last batches took is allowed too (their median), or its batches without calls, but no more than SLOWER
times what the candidate's took without calls. Over 34 measurements on H200s, most of them beside eight sessions, the
medians of both sides were within 2% of each other, at most 1.01 times that before go and 1.27 times after done.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from engine.evaluate import shared_memory
from engine.evaluate.candidate.guarded_outputs import POISON, same_bits, unwritten
from engine.evaluate.correctness import inputs as data
from engine.evaluate.shared_memory import HostBlock
from engine.evaluate.shared_tensors import Slot, aligned
from engine.evaluate.timing.outside.plan import PAGE, Page, Plan, slots
from sol.graph import OpGraph

SIDES = ("ours", "theirs")  # the candidate's process and the baseline's
RESTS = {"cuda": 15, "cpu": 5}  # batches without calls
LAST_SHARE = 16  # 1 / share of each slot's bytes that is copied last, so that no call can begin before
LOOKS = 3  # calls chosen at random whose results are compared with the reference
READY_SECONDS, DONE_SECONDS = 20.0, 60.0
DRAWN_BYTES = 512 << 20  # drawn at a time
READ = 2  # calls of a batch whose results are read before the clock stops
SLOWER, LATELY = (1.05, 1.25), 5  # before go, when work would gain most, and after done
ASLEEP, SPIN = 0.6, 0.0005  # share of its expected time that a batch of more seconds is not watched


@dataclass(frozen=True)
class Rest:
    """Seconds of a batch of `calls` calls beside the calls: the most before go, and after done."""

    calls: int
    before: float
    after: float


class Side:
    """One timed process: its block, its page, and what batches without calls take."""

    def __init__(self, plan: Plan, device: str):
        self.plan = plan
        self.block = shared_memory.create(plan.size, device)
        self.memory = HostBlock.new(PAGE)
        self.page = Page(self.memory.map)
        whole = self.block.bytes()[: plan.slots * plan.stride]
        self.inputs = whole.view(torch.int64).view(plan.slots, plan.stride // 8)
        self.results: list[list[int]] = []
        self.number = 0
        self.rests: list[Rest] = []
        self.spans: list[tuple[float, float, float]] = []  # of the batches since the last look
        self.runs: deque[tuple[int, float]] = deque(maxlen=LATELY)  # the last batches: calls, seconds from go to done

    def result(self, at: int, offset: int) -> torch.Tensor:
        """The result number `at` of a call, at an offset in the block."""
        s = self.plan.outputs[at]
        return self.block.tensor(Slot(offset, s.shape, s.dtype))

    def like_results(self) -> list[torch.Tensor]:
        return [torch.empty_like(self.result(at, self.plan.first_result)) for at in range(len(self.plan.outputs))]

    def asleep(self, calls: int) -> float:
        """Seconds after go for which a batch like the last ones need not be watched."""
        if any(n != calls for n, _ in self.runs):
            return 0.0
        expected = ASLEEP * min((run for _, run in self.runs), default=0.0)
        return expected if expected > SPIN else 0.0

    def rest(self, calls: int) -> Rest:
        """Between the measured numbers of calls, in proportion: copies take time for each."""
        few, many = self.rests[0], self.rests[-1]
        if calls <= few.calls or many.calls == few.calls:
            return few
        share = (calls - few.calls) / (many.calls - few.calls)
        before, after = (getattr(few, n) + share * (getattr(many, n) - getattr(few, n)) for n in ("before", "after"))
        return Rest(calls, before, after)


@dataclass(frozen=True)
class Look:
    """A timed call that is to be compared with the reference: its inputs by name, and its results."""

    inputs: dict[str, torch.Tensor]
    results: list[torch.Tensor]


class Ended(Exception):
    """A timed process stopped to answer."""


class Clock:
    """`device`: cuda | cpu; `shortest_ms`: what no call can be faster than, by the hardware. Raises NotShared."""

    def __init__(self, graph: OpGraph, device: str, shortest_ms: float):
        self.graph, self.device = graph, device
        self.random = random.SystemRandom()
        self.roles = data.roles(graph)
        drawn = [n for n, role in self.roles.items() if data.filled(graph.tensors[n], role)]
        free = torch.cuda.mem_get_info()[0] if device == "cuda" else 4 << 30
        self.plan = Plan.of(graph, drawn, slots(graph, drawn, free, shortest_ms if device == "cuda" else 1.0))
        self.private = torch.empty((self.plan.slots, self.plan.stride // 8), dtype=torch.int64, device=device)
        self.private.zero_()
        self.sides = {name: Side(self.plan, device) for name in SIDES}
        self.lately: deque[tuple[float, float]] = deque(maxlen=LATELY)  # the baseline's: before go, after done
        self.read = 0  # calls whose results were read
        self.chosen: list[Look] = []  # of them, at random
        self.sure: list[Look] = []  # and those that must be compared
        self.signals = math.inf  # seconds from go to done with nothing to do: of the machine, so one for both sides
        self.poison = [POISON.get(data.torch_dtype(o.dtype)) for o in self.plan.outputs]
        self.flush = None
        if device == "cuda":
            size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
            self.flush = torch.empty(size, dtype=torch.uint8, device=device)

    def descriptors(self) -> list[int]:
        """Block and page of each side, in the order of SIDES."""
        return [fd for side in self.sides.values() for fd in (side.block.fd, side.memory.fd)]

    def least(self) -> int:
        """Calls whose inputs are together twice as large as L2, so that none finds its own there."""
        if self.flush is None:
            return min(2, self.plan.slots)
        return max(1, min(self.plan.slots, -(-self.flush.numel() // self.plan.stride)))

    # ---- batches ----

    def draw(self, calls: int) -> None:
        """Fresh inputs for the next batches, in memory that no timed process can read."""
        whole, stride = self.private.view(-1).view(torch.uint8), self.plan.stride
        for name, slot in self.plan.inputs.items():
            if slot.bytes == 0:
                continue
            step = 1 if self.roles[name].kind == "sizes" else max(1, DRAWN_BYTES // slot.bytes)
            for first in range(0, calls, step):
                many, seed = min(step, calls - first), self.random.getrandbits(40)
                value = data.fill(
                    (many, *slot.shape) if step > 1 else slot.shape, slot.dtype, "normal", seed, name, self.device,
                    role=self.roles[name],
                )  # fmt: skip
                rows = whole[first * stride :].as_strided((many, slot.bytes), (stride, 1), first * stride + slot.offset)
                rows.view(value.dtype).copy_(value.reshape(many, -1))
        self._sync()

    def inputs(self, call: int) -> dict[str, torch.Tensor]:
        """Copies of what was drawn for a call."""
        whole = self.private.view(-1).view(torch.uint8)
        values = {}
        for name, slot in self.plan.input_slots(call).items():
            raw = whole[slot.offset : slot.offset + slot.bytes].view(data.torch_dtype(slot.dtype))
            values[name] = raw.reshape(slot.shape).clone()
        return values

    def hand(self, look: Look) -> None:
        """Write the inputs of a look into the first slot of the module's process."""
        block = self.sides["theirs"].block
        for name, slot in self.plan.input_slots(0).items():
            block.tensor(slot).copy_(look.inputs[name])
        self._sync()

    def rest(self, name: str, calls: int, long: bool) -> None:
        """Measure what batches of so many calls take beside them: with next to nothing to do, from go to done; with
        `long` work, before go and after done. Only before any timed code was loaded. Raises Ended."""
        side, spans = self.sides[name], []
        offsets = _in_order(side.plan, calls)
        many = RESTS[self.device]
        for _ in range(many):
            spans.append(self._timed(side, calls, offsets, False)[0])
        before, run, after = zip(*spans[many // 5 :], strict=True)
        if long:
            side.rests.append(Rest(calls, max(before), max(after)))
        else:
            self.signals = min(self.signals, median(run))

    def lay(self, calls: list[list[int]]) -> None:
        """Where the candidate says that it lays the results of each call. As much is read of the baseline, whose
        results may be of another type and are compared with nothing. Raises ValueError."""
        if not self.plan.valid(calls):
            raise ValueError("the results of two calls overlap, or lie outside of the shared memory")
        for side, results in ((self.sides["ours"], calls), (self.sides["theirs"], _in_order(self.plan, len(calls)))):
            side.results = results
            side.runs.clear()
        self.lately.clear()  # of another number of calls

    def about(self) -> dict[str, Any]:
        """Microseconds of both sides' batches since the last look, medians, until go, done and read; of batches without
        calls: [calls, until go, until read]; and of the signals."""

        def us(spans: Iterable[float]) -> list[float]:
            return [round(s * 1e6, 1) for s in spans]

        seen = {}
        for name, side in self.sides.items():
            spans, side.spans = side.spans, []
            rests = [[r.calls, *us((r.before, r.after))] for r in side.rests]
            seen[name] = {"batch": us(map(median, zip(*spans, strict=True))), "rest": rests}
        return {**seen, "signals": round(self.signals * 1e6, 1)}

    def batch(self, name: str, calls: int, last: bool = False) -> dict[str, Any]:
        """One batch on what was drawn: {ms: of one call, unwritten: elements that were not written}. Of the batches
        whose results are read, LOOKS chosen at random over the whole run are compared with the reference later, and
        with `last` also the last call of this one. Raises Ended."""
        side = self.sides[name]
        if name == "ours":
            self._poison(side, calls)
        (before, run, after), chosen, copies = self._timed(side, calls, side.results, last)
        late = self._late(calls, before, after)
        side.spans.append((before, run, after))
        ms = max(0.0, run - self.signals + late) * 1e3 / calls
        if name == "theirs":
            self.lately.append((before, after))
            return {"ms": ms, "unwritten": 0}
        left, same = sum(unwritten(x) for copy in copies for x in copy), self._same(copies)
        for call, results in list(zip(chosen, copies, strict=True))[: 2 if same else 1]:
            self._look(call, results, surely=left > 0 or same, last=last)
        return {"ms": ms, "unwritten": left}

    # ---- inside ----

    def _late(self, calls: int, before: float, after: float) -> float:
        """Seconds for which the copies and the reading took longer than they may."""
        ours, theirs = (self.sides[name].rest(calls) for name in SIDES)  # the candidate's before its text was loaded
        quiet, slower = (ours.before, ours.after), (theirs.before, theirs.after)
        lately = tuple(map(median, zip(*self.lately, strict=True))) or quiet
        return sum(
            max(0.0, took - max(q, min(max(other, now), most * q)))
            for took, q, other, now, most in zip((before, after), quiet, slower, lately, SLOWER, strict=True)
        )

    def _sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _poison(self, side: Side, calls: int) -> None:
        """Fill the results' memory with the NaN that no kernel writes, in few launches where it lies evenly."""
        for at, poison in enumerate(self.poison):
            offsets = sorted(row[at] for row in side.results[:calls])
            if poison is None or not offsets:
                continue
            steps = {b - a for a, b in itertools.pairwise(offsets)}
            if len(steps) > 1:
                for offset in offsets:
                    side.result(at, offset).view(poison[0]).fill_(poison[1])
                continue
            slot = self.plan.outputs[at]
            size, block = poison[0].itemsize, side.block.bytes()
            words = block[: block.numel() // size * size].view(poison[0])
            shape, strides = (len(offsets), slot.bytes // size), (max(steps, default=size) // size, 1)
            words.as_strided(shape, strides, offsets[0] // size).fill_(poison[1])

    def _timed(
        self, side: Side, calls: int, offsets: list[list[int]], last: bool
    ) -> tuple[tuple[float, float, float], list[int], list[list[torch.Tensor]]]:
        """Seconds until go, from there until done, and from there until results were read; the calls that were read,
        and their results. `offsets`: of each call's results; []: none is read."""
        side.number += 1
        number, page, now = side.number, side.page, time.perf_counter
        source, target = self.private[:calls], side.inputs[:calls]
        cut = target.shape[1] - max(1, target.shape[1] // LAST_SHARE)
        copies = [side.like_results() for _ in range(min(READ, calls) if offsets else 0)]
        self._sync()
        page[Page.ARM] = number
        if not page.wait(Page.READY, number, READY_SECONDS):
            raise Ended
        began = now()
        target[:, :cut].copy_(source[:, :cut])
        if self.flush is not None:
            self.flush.fill_(1)
        target[:, cut:].copy_(source[:, cut:])
        self._sync()
        go = now()
        page[Page.GO] = number
        if not page.wait(Page.DONE, number, DONE_SECONDS, side.asleep(calls)):
            raise Ended
        done = now()
        side.runs.append((calls, done - go))
        chosen = self._choose(calls, len(copies), last)
        for call, copy in zip(chosen, copies, strict=True):
            for at, place in enumerate(copy):
                place.copy_(side.result(at, offsets[call][at]))
        self._sync()
        return (go - began, done - go, now() - done), chosen, copies

    def _look(self, call: int, results: list[torch.Tensor], surely: bool, last: bool) -> None:
        """Keep a call to be compared: each of the run with the same chance (Vitter's algorithm R), but the `last` one
        and some that look wrong (`surely`) in any case."""
        self.read += 1
        if last or (surely and len(self.sure) < LOOKS):
            self.sure.append(Look(self.inputs(call), results))
        elif len(self.chosen) < LOOKS:
            self.chosen.append(Look(self.inputs(call), results))
        elif (at := self.random.randrange(self.read)) < LOOKS:
            self.chosen[at] = Look(self.inputs(call), results)

    @property
    def looks(self) -> list[Look]:
        """The calls to be compared."""
        return [*self.chosen, *self.sure]

    def _choose(self, calls: int, many: int, last: bool) -> list[int]:
        """Calls whose results are read, the last one first if `last`."""
        if not last or not many:
            return self.random.sample(range(calls), many)
        return [calls - 1, *self.random.sample(range(calls - 1), many - 1)]

    def _same(self, copies: list[list[torch.Tensor]]) -> bool:
        """Whether two calls on different inputs have the same bits everywhere."""
        if len(copies) < 2 or not self.plan.inputs:
            return False
        return all(same_bits(a, b) for a, b in zip(copies[0], copies[1], strict=True))


def _in_order(plan: Plan, calls: int) -> list[list[int]]:
    """Results one after the other, for batches without calls."""
    offsets, at = [], plan.first_result
    for _ in range(calls):
        row = []
        for o in plan.outputs:
            row.append(at)
            at += aligned(o.bytes)
        offsets.append(row)
    return offsets
