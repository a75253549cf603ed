"""Pooling: a thread computes a few outputs, each from its window. Global pooling is a reduction."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import prod

from dsl.axes import SPATIAL, axes_of
from dsl.ir import Pool, Program, Reduce, TensorType
from dsl.lower.cpp.generated.mapping import operand, results_of
from dsl.lower.cpp.generated.parts import Builder, Output, OwnPlan, Read, entry
from dsl.lower.cpp.generated.reduce import plan_reduce
from dsl.lower.cpp.generated.space import Access, Space, decode, grid_of, vector_width
from dsl.lower.cpp.generated.values import Reader, Value

THREADS = 256


@dataclass(frozen=True)
class Window:
    """One spatial axis: its coordinate's name, window, stride, padding, dilation, the source's length and stride."""

    coordinate: str
    window: int
    stride: int
    padding: int
    dilation: int
    size: int
    step: int


@dataclass(frozen=True)
class PoolPart:
    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    x: Read
    reads: tuple[Read, ...]  # of the epilogue
    outputs: tuple[Output, ...]
    op: str
    windows: tuple[Window, ...]
    taps: int
    back: int  # offset of the padding, in elements: subtracted from the address of an output's first tap
    vectors: int
    vector: int
    unroll: int
    wide: bool
    decode: list[str]
    grid: tuple[int, ...]
    threads: int = THREADS
    shared_bytes: int = 0
    template: str = "own/pool.cu.j2"


def plan_pool(program: Program, stage: Pool, types: dict[str, TensorType]) -> OwnPlan:
    rank = len(types[stage.x.name].shape)
    if stage.window is None:
        reduce = Reduce(
            name=stage.name, x=stage.x, op="max" if stage.op == "max" else "mean", over=SPATIAL[rank - 2], keepdim=True,
            epilogue=stage.epilogue, lets=stage.lets, also=stage.also, store=stage.store, type=stage.type,
        )  # fmt: skip
        return dataclasses.replace(plan_reduce(program, reduce, types), kind="pool")
    builder = Builder(stage.name, "pool", types)
    _, x = operand(stage.x, "x", types)
    shape = stage.type.shape
    reader = Reader(axes_of(stage, rank), types, rank)
    results, outputs = results_of(builder, stage, reader)
    builder.tensor("x", stage.x.name)
    builder.reads(reader)
    n = rank - 2
    stride, padding = stage.stride or stage.window, stage.padding or (0,) * n
    dilation = stage.dilation or (1,) * n
    source = types[stage.x.name]
    steps = source.strides[2:]
    moved = Access("x", x.dtype, (*x.strides[:2], *(s * t for s, t in zip(steps, stride, strict=True))))
    marks = ("", "", *(f"s{i}!" for i in range(n)))
    space = Space(shape, marks, (moved, *outputs, *reader.accesses()))
    y = space.of("y")
    space = space.ordered(sorted(range(rank), key=lambda d: (-y.strides[d], d))).merged()
    across = space.marks[-1].endswith("!")  # the contiguous axis is a spatial one
    width = 1 if across or x.strides[1] != 1 else vector_width(space, min(8, 16 // x.size), steps)
    vectors = space.count // width
    unroll = 4 if width == 1 else 2
    while unroll > 1 and vectors < THREADS * unroll * 264:
        unroll //= 2
    wide = space.count >= 2**31
    windows = tuple(
        Window(f"i{space.marks.index(f's{i}!')}", *sizes)
        for i, sizes in enumerate(zip(stage.window, stride, padding, dilation, source.shape[2:], steps, strict=True))
    )
    reads = tuple(_read(a, width) for a in space.accesses if a.pointer in reader.names)
    names = ["x", *(r.pointer for r in reads), *(r.pointer for r in results)]
    builder.parts.append(
        PoolPart(
            label="part1",
            entry=entry(0),
            pointers=builder.pointers(names),
            values=tuple(r.value for r in results),
            x=Read("x", x.ctype),
            reads=reads,
            outputs=tuple(Output(r.pointer, space.of(r.pointer).ctype, r.value.call("acc", "e_{}")) for r in results),
            op=stage.op,
            windows=windows,
            taps=prod(stage.window),
            back=sum(p * s for p, s in zip(padding, steps, strict=True)),
            vectors=vectors,
            vector=width,
            unroll=unroll,
            wide=wide,
            decode=decode("v", space, names, unit=width, wide=wide),
            grid=(grid_of(-(-vectors // (THREADS * unroll)), stage.name),),
        )
    )
    return builder.plan([r.value for r in results])


def _read(a: Access, width: int) -> Read:
    step = a.strides[-1]
    if width == 1 or step == 0:
        return Read(a.pointer, a.ctype, "scalar")
    return Read(a.pointer, a.ctype, "vector" if step == 1 else "gather", step)
