"""Running sums and products: each block walks along rows that lie in order in memory, each thread along columns.

Along a row, the threads of a team hold neighbouring vectors: they add within a vector, then across the lanes of a warp,
then across the warps, and the block carries the total on to its next step. Across rows, every thread has the columns of
one vector and keeps their running values in registers. Each element is read once and written once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsl.axes import axes_of
from dsl.ir import Program, Scan, TensorType
from dsl.lower.cpp.generated.mapping import operand, results_of
from dsl.lower.cpp.generated.normalize import mode, with_x
from dsl.lower.cpp.generated.parts import MULTIPROCESSORS, Builder, Output, OwnPlan, Read, entry
from dsl.lower.cpp.generated.reduce import FILL
from dsl.lower.cpp.generated.space import Space, aligned, decode, grid_of, power_of_two_above, vector_width
from dsl.lower.cpp.generated.values import Reader, Value, value

THREADS = 128  # of a block whose rows or columns are not its threads' together
TEAM, WIDEST_TEAM = 256, 1024  # threads that walk along one row; the latter where there are few rows
AHEAD = 8  # rows that a thread reads before it adds them up


@dataclass(frozen=True)
class ScanPart:
    """`team` threads (0: one thread, across the rows) walk along `steps` vectors of `vector` elements of each of `rows`
    rows; across the rows, `steps` elements of each of `rows` vectors of columns."""

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    reads: tuple[Read, ...]
    outputs: tuple[Output, ...]
    op: str
    of: str
    reverse: bool
    rows: int
    steps: int
    team: int
    vector: int
    wide: bool
    decode_row: list[str]
    decode_step: list[str]
    grid: tuple[int, ...]
    threads: int
    ahead: int = AHEAD
    shared_bytes: int = 0
    template: str = "own/scan.cu.j2"


def plan_scan(program: Program, stage: Scan, types: dict[str, TensorType]) -> OwnPlan:
    builder = Builder(stage.name, "scan", types)
    shape, x = operand(stage.x, "x", types)
    rank = len(shape)
    axes = axes_of(stage, rank)
    stage = with_x(stage, axes)
    reader = Reader(axes, types, rank)
    reader.pointers[stage.x.name, x.strides, 0] = "x"  # what acc2 reads is there already
    of = value("value_of", stage.of, (), reader, "over")
    results, outputs = results_of(builder, stage, reader)
    builder.tensor("x", stage.x.name)
    builder.reads(reader)
    over = {p for name in stage.over for p in axes[name]}
    marks = tuple("scanned" if d in over else "kept" for d in range(rank))
    space = Space(shape, marks, (x, *(a for a in reader.accesses() if a.pointer != "x"), *outputs))
    space = space.ordered(sorted(range(rank), key=lambda d: (-space.of("x").strides[d], d)))
    long = [d for d, n in enumerate(space.sizes) if n > 1]
    along = bool(long) and space.marks[long[-1]] == "scanned"
    read = list(dict.fromkeys(["x", *of.reads, *(p for r in results for p in r.value.reads)]))
    written = tuple(Output(r.pointer, space.of(r.pointer).ctype, r.value.call("acc", "e_{}")) for r in results)
    fields = {
        "label": "part1", "entry": entry(0), "pointers": builder.pointers([*read, *(o.pointer for o in written)]),
        "values": (of, *(r.value for r in results)), "outputs": written, "op": stage.op,
        "of": of.call("e_x", "e_{}"), "reverse": stage.reverse,
    }  # fmt: skip
    builder.parts.append((_rows if along else _columns)(space, read, fields, stage.name))
    return builder.plan([of, *(r.value for r in results)])


def _rows(space: Space, read: list[str], fields: dict, name: str) -> ScanPart:
    inner, rows = space.only("scanned").merged(), space.only("kept").merged()
    width = _width(inner, rows, read, fields["outputs"])
    steps = inner.count // width
    team = min(power_of_two_above(steps), TEAM if rows.count >= 4 * MULTIPROCESSORS else WIDEST_TEAM)
    threads = team if team > 32 else THREADS
    wide, pointers = rows.count >= 2**31, [p for p, _ in fields["pointers"]]
    return ScanPart(
        **fields, reads=tuple(mode(inner.of(p), width) for p in read), rows=rows.count, steps=steps, team=team,
        vector=width, wide=wide, decode_row=decode("row", rows, pointers, wide=wide, tag="k", at="at"),
        decode_step=decode("r", inner, pointers, unit=width, tag="s", at="step"),
        grid=(grid_of(-(-rows.count // (threads // team)), name),), threads=threads,
    )  # fmt: skip


def _columns(space: Space, read: list[str], fields: dict, name: str) -> ScanPart:
    inner, columns = space.only("scanned").merged(), space.only("kept").merged()
    width = _width(columns, inner, read, fields["outputs"]) if columns.sizes else 1
    while width > 1 and columns.count // width < FILL:
        width //= 2
    count, pointers = columns.count // width, [p for p, _ in fields["pointers"]]
    wide = count >= 2**31
    modes = tuple(mode(columns.of(p), width) if columns.sizes else Read(p, "float", "scalar") for p in read)
    return ScanPart(
        **fields, reads=modes, rows=count, steps=inner.count, team=0, vector=width, wide=wide,
        decode_row=decode("row", columns, pointers, unit=width, wide=wide, tag="k", at="at"),
        decode_step=decode("r", inner, pointers, tag="s", at="step"), grid=(grid_of(-(-count // THREADS), name),),
        threads=THREADS,
    )  # fmt: skip


def _width(fast: Space, slow: Space, read: list[str], outputs: tuple[Output, ...]) -> int:
    """The elements of a vector along the fastest axis of `fast`, at most 16 bytes of what is read and written most."""
    written = [o.pointer for o in outputs]
    if fast.of("x").strides[-1] != 1 or any(fast.of(p).strides[-1] != 1 for p in written):
        return 1
    width = vector_width(fast, max(1, min(8, 16 // min(fast.of(p).size for p in ("x", *written)))))
    return aligned(width, fast, slow, (*read, *written))


__all__ = ["plan_scan"]
