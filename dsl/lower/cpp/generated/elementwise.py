"""Element-wise parts: streaming in the result's order, or in tiles if the source is contiguous along another axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsl.lower.cpp.generated.parts import Builder, Output, Read, entry
from dsl.lower.cpp.generated.space import Space, decode, grid_of, power_of_two_above, vector_width
from dsl.lower.cpp.generated.values import Value

THREADS = 256
ROW_BYTES = 8  # of the narrowest tensor: an access of so many is wide enough to stay within its row
ONCE = 64 << 20  # bytes; a larger tensor is read past the caches, because it does not fit in L2


@dataclass(frozen=True)
class Stream:
    """A streaming part: `vectors` vectors of `vector` elements, and `tail` elements after the last whole vector."""

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    reads: tuple[Read, ...]
    outputs: tuple[Output, ...]
    vectors: int
    vector: int
    unroll: int
    wide: bool
    decode: list[str]
    decode_each: list[str]
    decode_tail: list[str]
    tail: int
    guard: str
    select: str
    acc: str
    x: Read
    grid: tuple[int, ...]
    threads: int = THREADS
    shared_bytes: int = 0
    template: str = "own/stream.cu.j2"


@dataclass(frozen=True)
class Tile:
    """A part through shared memory: tiles of tile_a elements along the source's axis by tile_b along the result's."""

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    reads: tuple[Read, ...]
    outputs: tuple[Output, ...]
    tile_a: int
    tile_b: int
    size_a: int
    size_b: int
    limit_a: int
    limit_b: int
    tiles_a: int
    tiles_b: int
    vector_x: int
    vector_y: int
    flat_x: bool
    flat_y: bool
    x_b: int
    wide: bool
    decode: list[str]
    guard: str
    acc: str
    x: Read
    grid: tuple[int, ...]
    pad: int = 1
    threads: int = THREADS
    shared_bytes: int = 0
    template: str = "own/tile.cu.j2"


@dataclass(frozen=True)
class Result:
    """An output of an element-wise part: its pointer and the function of its elements."""

    pointer: str
    value: Value
    copied: bool = False


def elementwise(
    builder: Builder,
    space: Space,
    results: Sequence[Result],
    *,
    acc: str = "e_x",
    values: Sequence[Value] = (),
    limits: dict[int, int] | None = None,
    select: int | None = None,
) -> None:
    """Add the part that computes `results` at every point of `space`, whose dimensions may have any order.

    `acc`: the C++ expression of acc over `e_x` and the other elements. `limits`: dimension -> length of the source;
    beyond it the source is zero. `select`: a dimension of length 2 whose second half is read from the tensor `x_2`.
    """
    limits = limits or {}
    y = space.of(results[0].pointer)
    order = sorted(range(len(space.sizes)), key=lambda d: (-y.strides[d], d))
    marks = tuple(f"{d}!" if d in limits or d == select else m for d, m in enumerate(space.marks))
    space = Space(space.sizes, marks, space.accesses).ordered(order)
    space = space.merged()
    at = {m: d for d, m in enumerate(space.marks)}
    ends = {at[f"{d}!"]: limit for d, limit in limits.items()}
    chosen = None if select is None else at[f"{select}!"]
    outputs = {r.pointer for r in results}
    x = space.of("x")
    along = [d for d in range(len(space.sizes)) if x.strides[d] == 1 and space.sizes[d] > 1]
    last = len(space.sizes) - 1
    if along and along[-1] != last and chosen is None and _worth_tiling(space, along[-1]):
        builder.parts.append(_tile(builder, space, results, along[-1], ends, acc, values, outputs))
    else:
        builder.parts.append(_stream(builder, space, results, ends, chosen, acc, values, outputs))


def _worth_tiling(space: Space, a: int) -> bool:
    return space.sizes[a] * space.sizes[-1] >= 256 and min(space.sizes[a], space.sizes[-1]) > 1


def _outputs(space: Space, results: Sequence[Result], a: int | None = None) -> tuple[Output, ...]:
    written = []
    for r in results:
        one = space.of(r.pointer)
        steps = (one.strides[a], one.strides[-1]) if a is not None else (0, 0)
        written.append(Output(r.pointer, one.ctype, r.value.call("acc", "e_{}"), r.copied, *steps))
    return tuple(written)


def _stream(
    builder: Builder,
    space: Space,
    results: Sequence[Result],
    ends: dict[int, int],
    chosen: int | None,
    acc: str,
    values: Sequence[Value],
    outputs: set[str],
) -> Stream:
    if not space.sizes:
        space = Space((1,), ("",), tuple(replace(a, strides=(0,)) for a in space.accesses))
    main = [a for a in space.accesses if a.pointer in outputs or a.pointer in ("x", "x_2")]
    most = max(1, min(16, 16 // min(a.size for a in main)))
    rank = len(space.sizes)
    width = vector_width(space, 1 if chosen == rank - 1 else most, [n for d, n in ends.items() if d == rank - 1])
    total, tail, each = space.count, 0, False
    flat = space.with_only({a.pointer for a in main}).merged()
    even = not ends and chosen is None and len(flat.sizes) == 1
    even = even and all(a.strides == (1,) and a.first % most == 0 for a in flat.accesses)
    short = width * min(a.size for a in main) < ROW_BYTES
    if even and (rank == 1 or (width < most and short)):
        # Source and result are contiguous, so vectors may cross the rows of other tensors, which each element then
        # finds by itself: some fifty instructions where a norm reads seven of them.
        width = min(most, power_of_two_above(max(1, total // 2)))
        each, tail = rank > 1, total % width
    reads = []
    for a in space.accesses:
        if a.pointer in outputs:
            continue
        streams = a.pointer in ("x", "x_2")
        if each and not streams:
            mode = "each" if any(a.strides) else "scalar"
        elif width == 1 or a.strides[-1] == 0:
            mode = "scalar"
        else:
            mode = "vector" if a.strides[-1] == 1 else "gather"
        once = streams and mode == "vector" and total * a.size >= ONCE
        reads.append(Read(a.pointer, a.ctype, mode, a.strides[-1], once))
    vectors = total // width
    widest = max((a.size for a in main), default=4)
    unroll = max(1, min(4 if width > 1 else 8, 64 // (width * widest)))
    while unroll > 1 and vectors < THREADS * unroll * 264:
        unroll //= 2
    wide = total >= 2**31
    pointers = [a.pointer for a in space.accesses]
    if each:
        flat_pointers = [p for p in pointers if p in {a.pointer for a in flat.accesses}]
        lines = decode("v", flat, flat_pointers, unit=width, wide=wide)
        still = [r.pointer for r in reads if r.mode == "scalar"]
        lines += [f"int const at_{p} = 0;" for p in still]
        varying = [r.pointer for r in reads if r.mode == "each"]
        element = "(v * V + j)"
        lines_each = decode(element, space, varying, wide=wide, tag="n", at="each") if varying else []
    else:
        lines, lines_each = decode("v", space, pointers, unit=width, wide=wide), []
    guard = " && ".join(f"i{d} < {n}u" for d, n in sorted(ends.items()))
    names = [*(r.pointer for r in reads), *(r.pointer for r in results)]
    return Stream(
        label=f"part{len(builder.parts) + 1}",
        entry=entry(len(builder.parts)),
        pointers=builder.pointers(names),
        values=tuple(values) + tuple(r.value for r in results),
        reads=tuple(reads),
        outputs=_outputs(space, results),
        vectors=vectors,
        vector=width,
        unroll=unroll,
        wide=wide,
        decode=lines,
        decode_each=lines_each,
        decode_tail=decode("element", space, pointers, wide=wide) if tail else [],
        tail=tail,
        guard=guard,
        select="" if chosen is None else f"i{chosen}",
        acc=acc,
        x=next(r for r in reads if r.pointer == "x"),
        grid=(grid_of(-(-vectors // (THREADS * unroll)), builder.name),),
    )


def _tile(
    builder: Builder,
    space: Space,
    results: Sequence[Result],
    a: int,
    ends: dict[int, int],
    acc: str,
    values: Sequence[Value],
    outputs: set[str],
) -> Tile:
    b = len(space.sizes) - 1
    size_a, size_b = space.sizes[a], space.sizes[b]
    x = space.of("x")
    limit_a, limit_b = ends.get(a, size_a), ends.get(b, size_b)
    tile_b = size_b if size_b <= 64 else 64
    tile_a = size_a if size_a <= 64 else 64
    if tile_b < 64 and size_a > 64:
        tile_a = min(power_of_two_above(size_a), max(64, 4096 // power_of_two_above(tile_b)))
    elif tile_a < 64 and size_b > 64:
        tile_b = min(power_of_two_above(size_b), max(64, 4096 // power_of_two_above(tile_a)))
    outer = space.ordered([d for d in range(len(space.sizes)) if d not in (a, b)])
    flat_x = tile_a == size_a == limit_a and x.strides[b] == size_a
    flat_y = tile_b == size_b and all(space.of(r.pointer).strides[a] == size_b for r in results)
    vector_x = _width(
        16 // x.size, [limit_b * size_a, tile_a * tile_b] if flat_x else [tile_a, limit_a, size_a, x.strides[b]],
        [x.first, *(s for d, s in enumerate(x.strides) if d not in (a, b))],
    )  # fmt: skip
    ys = [space.of(r.pointer) for r in results]
    vector_y = _width(
        16 // min(o.size for o in ys),
        [size_a * size_b, tile_a * tile_b] if flat_y else [tile_b, size_b, *(o.strides[a] for o in ys)],
        [s for o in ys for d, s in enumerate(o.strides) if d not in (a, b)],
    )
    tiles_a, tiles_b = -(-size_a // tile_a), -(-size_b // tile_b)
    blocks = tiles_a * tiles_b * outer.count
    reads = [
        Read(o.pointer, o.ctype, "each", a=o.strides[a], b=o.strides[b])
        for o in space.accesses
        if o.pointer not in outputs
    ]
    wide = blocks >= 2**31
    # Coordinates of the outer dimensions keep the names that the guard uses.
    guard_of = {d: k for k, d in enumerate(d for d in range(len(space.sizes)) if d not in (a, b))}
    guard = " && ".join(f"i{guard_of[d]} < {n}u" for d, n in sorted(ends.items()) if d in guard_of)
    names = [*(r.pointer for r in reads), *(r.pointer for r in results)]
    return Tile(
        label=f"part{len(builder.parts) + 1}",
        entry=entry(len(builder.parts)),
        pointers=builder.pointers(names),
        values=tuple(values) + tuple(r.value for r in results),
        reads=tuple(reads),
        outputs=_outputs(space, results, a),
        tile_a=tile_a,
        tile_b=tile_b,
        size_a=size_a,
        size_b=size_b,
        limit_a=limit_a,
        limit_b=limit_b,
        tiles_a=tiles_a,
        tiles_b=tiles_b,
        vector_x=vector_x,
        vector_y=vector_y,
        flat_x=flat_x,
        flat_y=flat_y,
        x_b=x.strides[b],
        wide=wide,
        decode=decode("rest", outer, [o.pointer for o in outer.accesses], wide=wide),
        guard=guard,
        acc=acc,
        x=next(r for r in reads if r.pointer == "x"),
        grid=(grid_of(blocks, builder.name),),
    )


def _width(most: int, lengths: Sequence[int], strides: Sequence[int]) -> int:
    """The largest power of two up to `most` that divides all lengths and strides."""
    while most > 1 and any(n % most for n in (*lengths, *strides)):
        most //= 2
    return max(1, most)
