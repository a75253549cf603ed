"""Reductions: along rows by teams of threads, or along columns if the contiguous axis is not reduced.

If the results are too few to fill the GPU, each is split over several blocks, which store partial results in scratch,
and a second part joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from dsl.axes import axes_of
from dsl.ir import Program, Reduce, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.mapping import operand
from dsl.lower.cpp.generated.parts import MULTIPROCESSORS, Builder, Output, OwnPlan, Read, access, entry
from dsl.lower.cpp.generated.space import Access, Space, decode, grid_of, power_of_two_above, vector_width
from dsl.lower.cpp.generated.values import Reader, Value, value

# op -> the struct in parts.cu.j2, its size in bytes, and the result of a struct that has joined `count` elements.
STRUCTS = {
    "sum": ("Sum", 4, "part.v"),
    "mean": ("Sum", 4, "part.v / {count}.0f"),
    "max": ("Max", 4, "part.v"),
    "min": ("Min", 4, "part.v"),
    "logsumexp": ("LogSumExp", 8, "part.m + logf(part.s)"),
    "argmax": ("ArgMax", 8, "part.i"),
    "squares": ("Squares", 4, "part.v"),
    "moments": ("Moments", 16, "part.mean"),
}
THREADS = 256
FILL = MULTIPROCESSORS * 1024  # threads that saturate memory


@dataclass(frozen=True)
class ReducePart:
    """A part of a reduction. `mode`: row | column | join.

    It has `results` outputs with `steps` vectors each, in `splits` pieces of `piece` vectors.
    """

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    reads: tuple[Read, ...]  # of the reduction: x, and the tensors of `of`
    late: tuple[Read, ...]  # of the epilogue
    outputs: tuple[Output, ...]
    mode: str
    struct: str
    of: str
    acc: str
    results: int
    steps: int
    splits: int
    piece: int
    team: int
    vector: int
    unroll: int
    inner: int  # column mode: vectors of the contiguous kept dimension
    across: int  # column mode: threads along it
    wide: bool
    decode_kept: list[str]
    decode_step: list[str]
    decode_out: list[str]
    index: bool
    index_step: int
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int = 0
    template: str = "own/reduce.cu.j2"


def plan_reduce(program: Program, stage: Reduce, types: dict[str, TensorType]) -> OwnPlan:
    builder = Builder(stage.name, "reduce", types)
    shape, x = operand(stage.x, "x", types)
    rank = len(shape)
    axes = axes_of(stage, rank)
    reduced = sorted({p for name in stage.over for p in axes[name]})
    early, late = Reader(axes, types, rank), Reader(_left(axes, reduced, stage.keepdim), types, rank)
    of = value("value_of", stage.of, (), early, "over")
    if stage.also:
        raise Refusal("cpp-also", f"{stage.name} is a reduction with a second result", "make it a stage of its own")
    finish = value("value_y", stage.epilogue, stage.lets, late)
    # Strides of the result and of what the epilogue reads, at the positions of x.
    order = list(range(rank)) if stage.keepdim else [d for d in range(rank) if d not in reduced]
    y = access("y", stage.type)
    y = Access("y", y.dtype, _spread(y.strides, order, rank, reduced))
    late_accesses = tuple(
        replace(a, strides=_spread(a.strides[: len(order)], order, rank, reduced)) for a in late.accesses()
    )
    builder.tensor("y", stage.name)
    builder.tensor("x", stage.x.name)
    builder.reads(early)
    clash = {p: f"{p}_l" for p in late.names if p in early.names}
    for pointer, name in late.names.items():
        builder.tensor(clash.get(pointer, pointer), name)
    late_accesses = tuple(replace(a, pointer=clash.get(a.pointer, a.pointer)) for a in late_accesses)
    finish_call = finish.name + "(" + ", ".join(["acc", *(f"e_{clash.get(r, r)}" for r in finish.reads)]) + ")"
    index = Access("index", x.dtype, _weights(shape, reduced))
    marks = tuple("reduced" if d in reduced else "kept" for d in range(rank))
    space = Space(shape, marks, (x, y, index, *early.accesses(), *late_accesses)).ordered(_by_stride(x, shape))
    _, _, result = STRUCTS[stage.op]
    count = prod(shape[d] for d in reduced)
    integer = stage.op == "argmax"
    expression = "acc_index" if integer else f"from_float<{y.ctype}>({finish_call})"
    output = Output("y", y.ctype, expression)
    reduction(
        builder,
        space,
        stage.op,
        early=["x", *early.names],
        late=[a.pointer for a in late_accesses],
        of=of,
        acc=result.format(count=count),
        outputs=[output],
        values=[] if integer else [finish],
    )
    return builder.plan([of, finish])


def _left(axes: dict[str, tuple[int, ...]], reduced: list[int], keepdim: bool) -> dict[str, tuple[int, ...]]:
    """The axes that an epilogue may name, at their positions in the result."""
    if keepdim:
        return axes
    place = {p: i for i, p in enumerate(p for p in range(8) if p not in reduced)}
    return {name: tuple(place[p] for p in at) for name, at in axes.items() if not set(reduced) & set(at)}


def _spread(strides: Sequence[int], order: Sequence[int], rank: int, reduced: Sequence[int]) -> tuple[int, ...]:
    """The strides of the result's axes at the positions of x, with 0 for reduced axes."""
    out = [0] * rank
    for s, d in zip(strides, order, strict=False):
        out[d] = 0 if d in reduced else s
    return tuple(out)


def _weights(shape: tuple[int, ...], reduced: Sequence[int]) -> tuple[int, ...]:
    """The weight of each coordinate in the index of an argmax, which is row-major over the reduced axes."""
    out, step = [0] * len(shape), 1
    for d in reversed(reduced):
        out[d], step = step, step * shape[d]
    return tuple(out)


def _by_stride(x: Access, shape: Sequence[int]) -> list[int]:
    """Dimensions from the slowest to the fastest in memory."""
    return sorted(range(len(shape)), key=lambda d: (-x.strides[d], d))


def reduction(
    builder: Builder,
    space: Space,
    op: str,
    *,
    early: Sequence[str],
    late: Sequence[str],
    of: Value,
    acc: str,
    outputs: Sequence[Output],
    values: Sequence[Value],
) -> None:
    """Add the parts that reduce `space` over its dimensions marked `reduced`.

    `early`: pointers that are read at each element (x first); `late`: those read at each result. `acc`: the C++ result
    of the struct `part`; `outputs`: expressions of it.
    """
    struct, size, _ = STRUCTS[op]
    index = op == "argmax"
    seen = [*early, *(["index"] if index else [])]
    out = [o.pointer for o in outputs]
    reduced = space.only("reduced").with_only(seen).merged()
    outer = space.only("kept").with_only({*early, *late, *out}).merged()
    x = space.of("x")
    long = [d for d in range(len(space.sizes)) if space.sizes[d] > 1]
    contiguous = max(long, key=lambda d: (-x.strides[d], d)) if long else None
    column = contiguous is not None and space.marks[contiguous] == "kept" and x.strides[contiguous] == 1
    most = min(8, 16 // x.size)
    inner = outer if column else reduced
    # The tensors that are read at each element must allow vectors; other dimensions must preserve their alignment.
    width = vector_width(inner.with_only(early), most)
    other = reduced if column else outer
    for p in early:
        if inner.sizes and inner.of(p).strides[-1] == 1:
            while width > 1 and any(s % min(width, 16 // inner.of(p).size) for s in other.of(p).strides):
                width //= 2
    modes = tuple(_read(inner.of(p), width) for p in early)
    last = tuple(Read(p, space.of(p).ctype, "scalar") for p in late)
    shape = _columns(outer, reduced, width, size) if column else _rows(outer, reduced, width)
    team, across, splits, threads, unroll = shape
    steps = reduced.count if column else reduced.count // width
    piece = -(-steps // splits)
    inner_vectors = (outer.sizes[-1] // width) if column else 1
    wide = outer.count >= 2**31 or steps >= 2**31
    if index and reduced.count >= 2**31:
        raise Refusal(
            "cpp-size", f"{builder.name} reduces {reduced.count:,} elements, more than an i32 index can count", None
        )
    if column:
        blocks = -(-inner_vectors // across) * (outer.count // outer.sizes[-1])
    else:
        blocks = -(-outer.count // (threads // team))
    if splits > 1:
        builder.room(f"partial{len(builder.parts)}", splits * outer.count * size)
    partial = f"partial{len(builder.parts)}"
    final = tuple(outputs)
    common = {"struct": struct, "of": of.call("e_x", "e_{}"), "acc": acc, "results": outer.count, "unroll": unroll}
    common |= {"wide": wide, "index": index}
    common["index_step"] = reduced.of("index").strides[-1] if index and reduced.sizes else 0
    pointers = [*early, *([partial] if splits > 1 else [*late, *out])]
    unit_kept, unit_step = (width, 1) if column else (1, width)
    builder.parts.append(
        ReducePart(
            label=f"part{len(builder.parts) + 1}",
            entry=entry(len(builder.parts)),
            pointers=builder.pointers(pointers),
            values=(of, *(() if splits > 1 else values)),
            reads=modes,
            late=() if splits > 1 else last,
            outputs=() if splits > 1 else final,
            mode="column" if column else "row",
            steps=steps,
            splits=splits,
            piece=piece,
            team=team,
            vector=width,
            inner=inner_vectors,
            across=across,
            decode_kept=decode("keep", outer, early, unit=unit_kept, wide=wide, tag="k", at="at"),
            decode_step=decode("r", reduced, seen, unit=unit_step, wide=wide, tag="s", at="step"),
            decode_out=[] if splits > 1 else decode("result", outer, [*late, *out], wide=wide, tag="o", at="to"),
            grid=(grid_of(blocks, builder.name), splits),
            threads=threads,
            **common,
        )
    )
    if splits > 1:
        team = 1 if outer.count >= FILL // 8 else min(32, power_of_two_above(splits))
        builder.parts.append(
            ReducePart(
                label=f"part{len(builder.parts) + 1}",
                entry=entry(len(builder.parts)),
                pointers=builder.pointers([partial, *late, *out]),
                values=tuple(values),
                reads=(),
                late=last,
                outputs=final,
                mode="join",
                steps=splits,
                splits=1,
                piece=splits,
                team=team,
                vector=1,
                inner=1,
                across=1,
                decode_kept=[],
                decode_step=[],
                decode_out=decode("result", outer, [*late, *out], wide=wide, tag="o", at="to"),
                grid=(grid_of(-(-outer.count * team // THREADS), builder.name), 1),
                threads=THREADS,
                **common,
            )
        )


def _read(inner: Access, width: int) -> Read:
    step = inner.strides[-1] if inner.strides else 0
    if width == 1 or step == 0:
        return Read(inner.pointer, inner.ctype, "scalar")
    return Read(inner.pointer, inner.ctype, "vector" if step == 1 else "gather", step)


def _rows(outer: Space, reduced: Space, width: int) -> tuple[int, int, int, int, int]:
    """Threads of each result, 1, pieces of each result, threads of a block, vectors in flight in each thread."""
    steps = reduced.count // width
    team = power_of_two_above(-(-steps // 4))
    while team < steps and outer.count * team < FILL and team < THREADS:
        team *= 2
    team = min(team, 32) if steps <= 512 and outer.count * 32 >= FILL else min(team, THREADS)
    team = max(1, team)
    threads = team if team > 32 else THREADS
    unroll = 4 if steps >= 4 * team else (2 if steps >= 2 * team else 1)
    splits = 1
    if team == THREADS and outer.count < 2 * MULTIPROCESSORS:
        splits = max(1, min(-(-4 * MULTIPROCESSORS // outer.count), steps // (THREADS * 4)))
    return team, 1, splits, threads, unroll


def _columns(outer: Space, reduced: Space, width: int, size: int) -> tuple[int, int, int, int, int]:
    """Threads of each result, threads along the contiguous dimension, pieces, threads of a block, vectors in flight."""
    inner = outer.sizes[-1] // width
    columns = outer.count // width
    deep = 1
    while deep < 32 and 2 * deep <= reduced.count and columns * deep < FILL:
        deep *= 2
    across = min(THREADS // deep, power_of_two_above(inner))
    while deep * across < THREADS and 2 * deep <= reduced.count:
        deep *= 2
    while deep * across * width * size > 40 << 10:
        deep //= 2
    splits = max(1, min(-(-FILL // (columns * deep)), reduced.count // (deep * 8), 512))
    unroll = max(1, min(8, reduced.count // (deep * splits)))
    return deep, across, splits, deep * across, power_of_two_above(unroll) if unroll < 3 else (4 if unroll < 8 else 8)
