"""The memory of a timed process's calls, which the judge owns, and the page over which the two signal.

One block holds `slots` sets of inputs, each `stride` bytes, and behind them the memory in which results lie. The timed
process takes pieces of that memory from its start (`Results`) and reports where each result lies; the judge checks the
positions and reads the results there. Plain Python: torch is imported only to create tensors.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from engine.evaluate.shared_tensors import ALIGN, Slot, aligned, layout
from sol.graph import OpGraph

SLOTS = 256  # calls of a batch at most
LENGTH_MS = 6.0  # a batch takes about as long: a hundred times the jitter of a signal between two processes
SHORTEST_MS = 0.003  # of a call, for the number of slots
SHARE = 0.4  # of the GPU's free memory for both blocks and the judge's copy
MOST_BYTES, ENOUGH_BYTES = (
    40 << 30,
    24 << 30,
)  # more is taken where it is free, but no session gives back its own for it
FASTEST = 5e9  # bytes that a call moves in a ms at most, to tell how many calls may be wanted before any ran
WORKSPACE = 256 << 20  # bytes for what a captured call takes beside its results
SPARE = 1.3  # PyTorch's allocator rounds
PAGE = 4096
NAP = 0.05  # seconds that who is asleep does not see that the engine stops


@dataclass(frozen=True)
class Plan:
    """`inputs`: the tensors that are drawn for each call, by their names in the graph, with offsets from the start of
    their slot; `outputs`: shapes and types of the results, in order; `stride`: bytes of a slot; `results`: bytes for
    all results."""

    slots: int
    stride: int
    inputs: dict[str, Slot]
    outputs: list[Slot]
    results: int

    @staticmethod
    def of(graph: OpGraph, drawn: Sequence[str], slots: int) -> Plan:
        tensors = graph.tensors
        inputs, stride = layout({n: (tensors[n].shape, tensors[n].dtype) for n in drawn})
        outputs = [Slot(0, tensors[n].shape, tensors[n].dtype) for n in graph.outputs]
        each = sum(aligned(o.bytes) for o in outputs)
        return Plan(slots, aligned(stride), inputs, outputs, int(SPARE * slots * each) + WORKSPACE)

    @property
    def size(self) -> int:
        """Of the block."""
        return self.first_result + self.results

    @property
    def each(self) -> float:
        """Bytes that one more slot takes in both blocks and the judge's copy of the inputs."""
        return 3 * self.stride + 2 * SPARE * sum(aligned(o.bytes) for o in self.outputs)

    @property
    def first_result(self) -> int:
        return self.slots * self.stride

    def input_slots(self, at: int) -> dict[str, Slot]:
        """The inputs of one call, with offsets from the start of the block."""
        return {n: Slot(at * self.stride + s.offset, s.shape, s.dtype) for n, s in self.inputs.items()}

    def valid(self, calls: Sequence[Sequence[int]]) -> bool:
        """Whether these offsets of the results of each call lie in the results' memory and do not overlap."""
        spans = []
        for offsets in calls:
            if len(offsets) != len(self.outputs) or not all(isinstance(o, int) and o % 8 == 0 for o in offsets):
                return False
            spans += [(o, o + s.bytes) for o, s in zip(offsets, self.outputs, strict=True)]
        spans.sort()
        apart = all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
        return apart and (not spans or (spans[0][0] >= self.first_result and spans[-1][1] <= self.size))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Plan:
        inputs = {n: Slot.from_json(s) for n, s in raw["inputs"].items()}
        outputs = [Slot.from_json(s) for s in raw["outputs"]]
        return Plan(raw["slots"], raw["stride"], inputs, outputs, raw["results"])


def slots(graph: OpGraph, drawn: Sequence[str], free: int, shortest_ms: float) -> int:
    """How many sets of inputs fit into `free` bytes of a GPU and are needed for a batch of LENGTH_MS, if a call takes
    `shortest_ms` or more."""
    one = Plan.of(graph, drawn, 1)
    room = (min(SHARE * free, MOST_BYTES) - 2 * WORKSPACE) / one.each
    wanted = ceil(LENGTH_MS / max(shortest_ms, SHORTEST_MS))
    return max(1, min(SLOTS, wanted, int(room)))


def free_bytes_wanted(graph: OpGraph) -> int:
    """Of a GPU's memory, so that batches of any kernel for this problem can be as long as they should be, or take
    ENOUGH_BYTES."""
    drawn = [n for n, tensor in graph.tensors.items() if tensor.kind in ("input", "parameter")]
    one = Plan.of(graph, drawn, 1)
    moved = one.stride + sum(o.bytes for o in one.outputs)
    many = slots(graph, drawn, 1 << 62, moved / FASTEST)
    return int(min(ENOUGH_BYTES, many * one.each + 2 * WORKSPACE) / SHARE)


class Results:
    """Takes pieces of the results' memory, one after the other. For the timed process."""

    def __init__(self, plan: Plan):
        self.plan, self._next = plan, plan.first_result

    def take(self, size: int, align: int = ALIGN) -> int | None:
        """The offset of so many bytes, or None if there are no more."""
        at = -(-self._next // align) * align
        if at + size > self.plan.size:
            return None
        self._next = at + size
        return at

    def clear(self) -> None:
        self._next = self.plan.first_result


class Page:
    """Counters in memory that two processes share. Each batch has a number, from 1; the judge writes ARM and GO, the
    timed process READY and DONE, and the engine STOP. `memory`: PAGE bytes."""

    ARM, READY, GO, DONE, STOP = range(5)

    def __init__(self, memory: Any):
        self._words = memoryview(memory).cast("B")[:PAGE].cast("q")

    def __getitem__(self, word: int) -> int:
        return self._words[word]

    def __setitem__(self, word: int, value: int) -> None:
        self._words[word] = value

    def wait(self, word: int, value: int, seconds: float, asleep: float = 0.0) -> bool:
        """Spin until the word has the value: False after `seconds`, or if the engine stops. For the first `asleep`
        seconds leave the core to others: who is waited for may share a physical one."""
        words, clock, end = self._words, time.perf_counter, time.perf_counter() + seconds
        awake = clock() + asleep if asleep else 0.0
        while asleep and not words[self.STOP] and (left := awake - clock()) > 0:
            time.sleep(min(left, NAP))
        while words[word] != value:
            if words[self.STOP] or clock() > end:
                return False
        return True

    def idle(self, word: int, than: int, pause: float, alive: Callable[[], bool] = lambda: True) -> int | None:
        """The word once it is not `than` any more, looked at every `pause` seconds; None if the engine stops."""
        while self._words[word] == than:
            if self._words[self.STOP] or not alive():
                return None
            time.sleep(pause)
        return self._words[word]
