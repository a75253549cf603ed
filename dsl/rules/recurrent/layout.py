"""The layout of a recurrent stage on sm_90a: how a cluster of blocks holds weight_hh and divides each step.

One cluster computes up to `sequences` sequences in one direction. Each of its blocks owns `units` neighbouring hidden
units, and holds their rows of weight_hh for all steps: in the registers of its threads, and what these cannot hold in
shared memory. A step is a product (the rows of a block) x (hidden state of all units) for each sequence, by mma.sync
m16n8: weight_hh is the side of 16 rows and stays, the sequences are the side of 8 columns. Then each block sends the
hidden state of its units to the others.

A word is 32 bits: one element of tf32 or f32, two of f16 or bf16. A K step of the instruction has 8 words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from dsl.ir import CELLS, DType, Recurrent, TensorType

THREADS, WARPS = 256, 8
CLUSTERS = (1, 2, 4, 8, 16)  # blocks; more than 8 are not portable, and the launch asks for them
# Clusters of one block an SM that an H200 of 132 SMs runs at once, as its driver says (cudaOccupancyMaxActiveClusters).
# The rest wait for their turn, for no cluster waits for another: 64 of 4 took three times as long as one.
AT_ONCE = {1: 132, 2: 66, 4: 30, 8: 15, 16: 7}
SHARED = 232_448 - 16  # bytes of a block; two barriers may stand at the end
HELD = 128  # words of weight_hh in a thread's registers, at most
REGISTERS = 188  # of a thread for weights, sums and cells together; the rest of 255 are addresses and loads
MOST_SUMS = 64  # f32 sums of a thread's products
MOST_ITEMS = 4  # cells of a thread
UNITS = 8  # a block's units are a multiple: 16 bytes of f16, in which hidden state is sent
COMPUTE = (DType.TF32, DType.F16, DType.BF16, DType.F32)


@dataclass(frozen=True)
class Layout:
    """How a recurrent stage is divided. `tiles` of 16 rows and `steps` of K are those of one warp; `resident`: the
    steps whose weights are in registers; `warps_k` warps share the K of a tile, and their sums are added."""

    gates: int
    hidden: int
    words: int  # elements of a word
    cluster: int
    units: int
    sequences: int
    groups: int  # of sequences, each of a cluster of its own
    warps_k: int
    tiles: int
    steps: int
    resident: int
    exact: bool  # f32 on the CUDA cores

    @property
    def columns(self) -> int:
        """Sequences of a cluster, with those that fill the last 8."""
        return ceil(self.sequences / 8) * 8

    @property
    def warps_m(self) -> int:
        return WARPS // self.warps_k

    @property
    def rows(self) -> int:
        return 16 * self.tiles * self.warps_m

    @property
    def stride(self) -> int:
        """Words from one sequence's hidden state to the next. It is 16 modulo 32, so that the eight lanes of a phase of
        a 16-byte load, two sequences of four lanes, are in different banks."""
        depth = 8 * self.steps * self.warps_k
        return depth + (16 if depth % 32 == 0 else 0)

    @property
    def sums_stride(self) -> int:
        """Floats from one row's sums to the next: 8 or 24 modulo 32, so that four rows of 8 are in different banks."""
        return self.columns + (0 if self.columns % 32 in (8, 24) else 8)

    @property
    def items(self) -> int:
        """Cells of a thread: (unit, sequence)."""
        return ceil(self.units * self.sequences / THREADS)

    @property
    def shared_bytes(self) -> int:
        hidden = 2 * self.columns * self.stride
        sums = self.warps_k * self.rows * self.sums_stride
        weights = (self.steps - self.resident) * self.tiles * 4 * THREADS
        return 4 * (hidden + sums + weights)

    @property
    def cycles(self) -> float:
        """Cycles of an SM's units in one step, without latencies: products, shared memory, what is sent."""
        n, steps = self.columns // 8, self.steps
        if self.exact:  # 4 FMA a sum and K step of a thread, a broadcast of 16 bytes for two steps, two shuffles a sum
            product = (
                2 * (8 * n * self.tiles * 2 * steps * 2) + 8 * self.columns * steps + 64 * self.columns * self.tiles
            )
        else:  # 6.5 cycles a quarter of an SM for one m16n8, 4 for 512 bytes of shared memory
            product = 2 * 6.5 * self.tiles * n * steps + 16 * n * steps
        weights = 32 * (steps - self.resident) * self.tiles
        sums = 32 * self.tiles * n + self.items * WARPS * self.warps_k * self.gates
        sent = (self.cluster - 1) * self.sequences * self.units * 4 / self.words / 32
        return product + weights + sums + sent

    @property
    def blocks(self) -> int:
        """Blocks of one direction."""
        return self.cluster * self.groups

    def waves(self, directions: int) -> int:
        """How often the clusters of a launch take turns."""
        return ceil(self.groups * directions / AT_ONCE[self.cluster])


# Cycles of a step beside its work's: a chain of loads, products, sums and functions, and sending hidden state. Together
# measured on an H200 in 512 steps of 16 blocks: 770 to 1,110 in the three kinds of cells (tests/gpu/test_recurrent.py);
# how much of it one block has is estimated.
CHAIN, EXCHANGE = 600.0, 300.0


def latency(cluster: int) -> float:
    """Cycles of a step that no other work hides."""
    return CHAIN + (EXCHANGE if cluster > 1 else 0.0)


@lru_cache(maxsize=256)
def fit(op: str, hidden: int, batch: int, directions: int, compute: DType, cluster: int | None = None) -> Layout | None:
    """The layout with the least estimated time; None if no cluster, or none of that many blocks, holds weight_hh."""
    best = None
    for layout in _layouts(CELLS[op], hidden, batch, compute):
        if cluster not in (None, layout.cluster):
            continue
        cost = layout.waves(directions) * (layout.cycles + latency(layout.cluster)), layout.blocks
        if best is None or cost < best[0]:
            best = cost, layout
    return best and best[1]


def _layouts(gates: int, hidden: int, batch: int, compute: DType) -> Iterator[Layout]:
    words = 2 if compute in (DType.F16, DType.BF16) else 1
    for cluster in CLUSTERS:
        units = ceil(ceil(hidden / cluster) / UNITS) * UNITS
        if cluster > 1 and units * (cluster - 1) >= hidden:
            break  # a block without a unit
        pairs = ceil(units * cluster / words / 16)  # of K steps, which one 16-byte load serves
        for groups in sorted({ceil(batch / n) for n in range(8, 65, 8)}):
            sequences = ceil(batch / groups)
            for warps_k in (1, 2, 4, 8):
                if warps_k > pairs:
                    break
                tiles = ceil(gates * units / 16 / (WARPS // warps_k))
                steps = 2 * ceil(pairs / warps_k)
                layout = Layout(
                    gates, hidden, words, cluster, units, sequences, groups, warps_k, tiles, steps, 0,
                    compute is DType.F32,
                )  # fmt: skip
                layout = _resident(layout)
                if layout is not None and layout.shared_bytes <= SHARED:
                    yield layout


def _resident(layout: Layout) -> Layout | None:
    """The layout with as many steps' weights in registers as they hold; None if the sums alone are too many."""
    sums = layout.tiles * layout.columns * (2 if layout.exact else 1) // (1 if layout.exact else 2)
    cells = layout.items * (7 + 3 * layout.gates)  # states, places, and gates of this step and the next, and biases
    if sums > MOST_SUMS or layout.items > MOST_ITEMS:
        return None
    room, step = min(HELD, REGISTERS - sums - cells), 4 * layout.tiles
    if room < step * layout.steps:
        room -= 2 * step  # two steps' weights, which pass through registers on their way from shared memory
    return replace(layout, resident=max(0, min(layout.steps, room // step // 2 * 2)))


def compute_of(stage: Recurrent, types: dict[str, TensorType | None]) -> DType:
    """The precision of the products: the compute clause, or that of weight_hh, tf32 for f32."""
    kind = types[stage.weights[0].name]
    return stage.compute or (DType.TF32 if kind.dtype is DType.F32 else kind.dtype)


def layout_of(stage: Recurrent, types: dict[str, TensorType | None]) -> Layout | None:
    """The layout of a typed stage."""
    shape = types[stage.gates[0].name].shape
    batch = shape[1] if stage.order == "tb" else shape[0]
    return fit(stage.op, shape[2] // CELLS[stage.op], batch, stage.directions, compute_of(stage, types), stage.cluster)


def most_hidden(op: str, batch: int, directions: int, compute: DType) -> int:
    """The most hidden units that a layout holds, in steps of 32."""
    low, high = 0, 8192 // 32
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fit(op, 32 * middle, batch, directions, compute) else (low, middle - 1)
    return 32 * low


__all__ = [
    "AT_ONCE",
    "CLUSTERS",
    "COMPUTE",
    "THREADS",
    "Layout",
    "compute_of",
    "fit",
    "latency",
    "layout_of",
    "most_hidden",
]
