"""The memory of every tensor of a pipeline, for both back ends.

Parameters and results are the caller's tensors; a stage writes its result directly into the output. The results of
prepack stages have memory of their own, because they outlive the call. Every other tensor is an intermediate: it is
live from the stage that writes it to the last stage that reads it. Intermediates that are never live together share the
bytes of one workspace. A transform that changes no byte (a `view`) is an alias of its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsl.ir import NCHW, Acc, Program, Stage, TensorType, Transform, reads

ALIGNMENT = 256  # bytes; cudaMalloc's alignment, and more than any vector access or TMA descriptor needs

INPUT, OUTPUT, WORKSPACE, PREPACKED = "input", "output", "workspace", "prepacked"


@dataclass(frozen=True)
class Place:
    """Where a tensor is. `at`: its index among the parameters or results, else its offset in bytes."""

    where: str  # input | output | workspace | prepacked
    at: int


@dataclass(frozen=True)
class Buffers:
    """The plan of a program.

    places     every parameter, stage result and `also` by name.
    workspace  bytes that the intermediates share; its content is not needed between calls.
    prepacked  bytes of the results of prepack stages; valid as long as their parameters do not change.
    views      stages that launch nothing, because they are aliases of their source.
    sources    indices of the parameters that prepack stages read, ascending.
    """

    places: dict[str, Place]
    workspace: int
    prepacked: int
    views: frozenset[str]
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `size` bytes that is live from stage `first` to stage `last`, inclusive."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan(program: Program) -> Buffers:
    """The places of all tensors of a checked program.

    Raises ValueError if a result is no stage, is returned twice, or is prepacked; back ends refuse these before.
    """
    types = types_of(program)
    index = {p.name: i for i, p in enumerate(program.params)}
    written = {name for stage in program.stages for name in (stage.name, *(a.name for a in stage.also))}
    for name in program.results:
        if name not in written or program.results.count(name) > 1:
            raise ValueError(f"result {name} is {'returned twice' if name in written else 'computed by no stage'}")
    root, views = _roots(program, types)
    places = {name: Place(INPUT, i) for name, i in index.items()}
    for i, name in enumerate(program.results):
        places[root[name]] = Place(OUTPUT, i)
    prepacked = _prepacked(program, root, index, set(program.results))
    at = 0
    for name in prepacked:
        places[name] = Place(PREPACKED, at)
        at += rounded(types[name].bytes)
    offsets, total = assign(_lifetimes(program, types, root, places))
    places |= {name: Place(WORKSPACE, offset) for name, offset in offsets.items()}
    sources = {index[p] for origins in prepacked.values() for p in origins}
    return Buffers({n: places[root[n]] for n in types}, total, at, frozenset(views), tuple(sorted(sources)))


def aliases(program: Program) -> frozenset[str]:
    """The stages of a checked program that launch nothing, because they are aliases of their source."""
    return frozenset(_roots(program, types_of(program))[1])


def types_of(program: Program) -> dict[str, TensorType]:
    """The type of every tensor by name: parameters, then the result and second results of each stage."""
    types = {p.name: p.type for p in program.params}
    for stage in program.stages:
        types[stage.name] = stage.type
        types |= {a.name: a.type for a in stage.also}
    missing = [name for name, kind in types.items() if kind is None]
    if missing:
        raise ValueError(f"{missing[0]} has no type yet")
    return types


def rounded(size: int) -> int:
    """`size` in bytes, rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def changes_no_byte(stage: Stage, source: TensorType) -> bool:
    """Return True for a transform whose result has the same bytes as its source: same type, same order in memory."""
    if not isinstance(stage, Transform) or stage.other is not None or stage.x.transposed or stage.prepack:
        return False
    if stage.type.dtype is not source.dtype or stage.type.elements != source.elements:
        return False
    if not isinstance(stage.epilogue, Acc) or stage.also:
        return False
    if stage.view is None and stage.permute is None:
        return _in_order(source) == _in_order(stage.type)
    if not _row_major(source) or not _row_major(stage.type):
        return False
    shape = stage.view or source.shape
    moved = [axis for axis in stage.permute or range(len(shape)) if shape[axis] > 1]
    return moved == sorted(moved)


def _row_major(kind: TensorType) -> bool:
    """Return True if the elements are in row-major order; axes of length 1 do not count."""
    long = [axis for axis in kind.memory_order if kind.shape[axis] > 1]
    return kind.layout == NCHW or long == sorted(long)


def _in_order(kind: TensorType) -> list[tuple[int, int]]:
    return [(axis, kind.shape[axis]) for axis in kind.memory_order if kind.shape[axis] > 1]


def _roots(program: Program, types: dict[str, TensorType]) -> tuple[dict[str, str], set[str]]:
    """The root of each tensor (the tensor that it is an alias of, or itself), and the views.

    A result needs its own output, so a view is copied if it would alias two results, or a parameter and a result.
    """
    root = {name: name for name in types}
    views: set[str] = set()
    fixed = {p.name for p in program.params} | {s.name for s in program.stages if getattr(s, "prepack", False)}
    results = set(program.results)
    bound = fixed | results  # roots whose place is decided
    for stage in program.stages:
        if not changes_no_byte(stage, types[stage.operands[0].name]):
            continue
        source = root[stage.operands[0].name]
        if stage.name in results:
            if source in bound:
                continue
            bound.add(source)
        root[stage.name] = source
        views.add(stage.name)
    return root, views


def _prepacked(
    program: Program, root: dict[str, str], index: dict[str, int], results: set[str]
) -> dict[str, tuple[str, ...]]:
    """The results of prepack stages, each with the parameters that it is computed from."""
    prepacked: dict[str, tuple[str, ...]] = {}
    for stage in program.stages:
        if not getattr(stage, "prepack", False):
            continue
        origins = tuple(dict.fromkeys(p for o in stage.operands for p in prepacked.get(root[o.name], (root[o.name],))))
        computed = [name for name in origins if name not in index]
        if computed or stage.name in results:
            reason = f"reads {computed[0]}, which is computed in each call" if computed else "is returned"
            raise ValueError(f"{stage.name} is prepacked and {reason}")
        prepacked[stage.name] = origins
    return prepacked


def _lifetimes(
    program: Program, types: dict[str, TensorType], root: dict[str, str], places: dict[str, Place]
) -> list[Lifetime]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, stage in enumerate(program.stages):
        for name in (stage.name, *(a.name for a in stage.also)):
            if root[name] == name and name not in places:
                first[name] = last[name] = number
        for name in reads(stage):
            if root[name] in last:
                last[root[name]] = number
    return [Lifetime(name, types[name].bytes, first[name], last[name]) for name in first]


def assign(buffers: Sequence[Lifetime]) -> tuple[dict[str, int], int]:
    """An offset for each buffer, so that live buffers do not overlap, and the total size in bytes.

    Each buffer goes into the lowest gap that fits. Several orders are tried, and the first one with the smallest total
    wins. Minimising the total is NP-hard; for a dozen stages one of these orders nearly always reaches the peak.
    """
    orders = (
        sorted(buffers, key=lambda b: (-b.size, b.first, b.name)),
        sorted(buffers, key=lambda b: (b.first, -b.size, b.name)),
        sorted(buffers, key=lambda b: (-(b.last - b.first), -b.size, b.name)),
        sorted(buffers, key=lambda b: (-b.size * (b.last - b.first + 1), b.first, b.name)),
        sorted(buffers, key=lambda b: (-b.last, -b.size, b.name)),
    )
    return min((_fit(order) for order in orders), key=lambda packing: packing[1])


def peak(buffers: Sequence[Lifetime]) -> int:
    """The most bytes that are live at any stage, a lower bound of every plan."""
    return max((sum(rounded(o.size) for o in buffers if o.first <= b.first <= o.last) for b in buffers), default=0)


def _fit(order: Sequence[Lifetime]) -> tuple[dict[str, int], int]:
    placed: list[tuple[int, Lifetime]] = []
    for buffer in order:
        at = 0
        for offset, other in sorted(((o, b) for o, b in placed if b.meets(buffer)), key=lambda x: x[0]):
            if at + rounded(buffer.size) <= offset:
                break
            at = max(at, offset + rounded(other.size))
        placed.append((at, buffer))
    total = max((offset + rounded(b.size) for offset, b in placed), default=0)
    return {b.name: offset for offset, b in placed}, total
