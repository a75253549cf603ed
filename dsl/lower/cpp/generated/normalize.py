"""Normalisations. A row that fits in a block's registers is read once.

For a longer or strided row a reduction computes the statistics first (with several blocks a row if that fills the GPU),
and a second part applies them to each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from dsl.axes import axes_of
from dsl.ir import Acc, Call, DType, Expr, Load, Normalize, Program, Scan, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.epilogue import literal
from dsl.lower.cpp.generated.elementwise import Result, elementwise
from dsl.lower.cpp.generated.mapping import operand, results_of
from dsl.lower.cpp.generated.parts import Builder, Output, OwnPlan, Read, entry
from dsl.lower.cpp.generated.reduce import FILL, reduction
from dsl.lower.cpp.generated.space import Access, Space, aligned, decode, grid_of, vector_width
from dsl.lower.cpp.generated.values import Reader, Value, replaced, value

HELD = 32  # elements of a row that a thread holds in registers
SOFT = ("softmax", "log_softmax")


@dataclass(frozen=True)
class RowPart:
    """A part that reads each row once: `team` threads have its `steps` vectors in registers, `per_thread` each."""

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    reads: tuple[Read, ...]  # of `of`, x first
    late: tuple[Read, ...]  # of weight, bias and the epilogue, at each element
    outputs: tuple[Output, ...]
    op: str
    of: str
    affine: str
    eps: str
    rows: int
    count: int
    steps: int
    per_thread: int
    team: int
    vector: int
    wide: bool
    decode_row: list[str]
    decode_step: list[str]
    decode_late: list[str]
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int = 0
    template: str = "own/rows.cu.j2"


def plan_normalize(program: Program, stage: Normalize, types: dict[str, TensorType]) -> OwnPlan:
    if stage.op == "absmax":
        raise Refusal(
            "cpp-absmax", f"absmax of {stage.name} is built by `cute` alone", "leave backend out, or write cute"
        )
    builder = Builder(stage.name, "normalize", types)
    shape, x = operand(stage.x, "x", types)
    rank = len(shape)
    axes = axes_of(stage, rank)
    stage = with_x(stage, axes)
    reader = Reader(axes, types, rank)
    of = value("value_of", stage.of, (), reader, "over")
    results, outputs = results_of(builder, stage, reader)
    builder.tensor("x", stage.x.name)
    builder.reads(reader)
    over = _over(stage, axes, rank)
    extra, affine = _parameters(builder, stage, types, over, rank)
    marks = tuple("reduced" if d in over else "kept" for d in range(rank))
    space = Space(shape, marks, (x, *reader.accesses(), *extra, *outputs))
    if stage.op == "groupnorm":
        space = _split_channels(space, stage, shape)
    space = space.ordered(sorted(range(len(space.sizes)), key=lambda d: (-space.of("x").strides[d], d)))
    early = ["x", *of.reads]
    params = [a.pointer for a in extra]
    if stage.op == "batchnorm":
        acc = f"((({of.call('e_x', 'e_{}')}) - e_n_mean) * (1.0f / sqrtf(e_n_var + {literal(stage.eps)}))){affine}"
        elementwise(builder, space, results, acc=acc, values=[of])
    elif (part := _rows(builder, space, stage, of, early, params, results, affine)) is not None:
        builder.parts.append(part)
    else:
        _two_passes(builder, space, stage, of, early, results, affine)
    return builder.plan([of, *(r.value for r in results)])


def with_x(stage: Normalize | Scan, axes: dict) -> Normalize | Scan:
    """The stage with acc2, the element before the norm or the sum, computed from x where it is read: kernels of this
    back end keep a softmax's terms in the registers that held it."""
    before = replaced(stage.of, Load(stage.x.name, _every(axes)))

    def without(e: Expr) -> Expr:
        if isinstance(e, Acc):
            return before if e.second else e
        return replace(e, args=tuple(map(without, e.args))) if isinstance(e, Call) else e

    also = tuple(replace(a, expr=without(a.expr)) for a in stage.also)
    lets = tuple(replace(x, expr=without(x.expr)) for x in stage.lets)
    return replace(stage, epilogue=without(stage.epilogue), also=also, lets=lets)


def _every(axes: dict) -> tuple[str, ...]:
    """Names of axes that together are every axis of the stage, in order."""
    names: dict[int, str] = {}
    for name, positions in axes.items():
        if len(positions) == 1:
            names.setdefault(positions[0], name)
    return tuple(names[p] for p in sorted(names))


def _over(stage: Normalize, axes: dict, rank: int) -> set[int]:
    if stage.op == "batchnorm":
        return set()
    if stage.op == "groupnorm":
        return set(range(1, rank))  # its channels are split afterwards
    if stage.op == "instancenorm":
        return set(range(2, rank))
    return {p for name in stage.over for p in axes[name]}


def _parameters(builder: Builder, stage: Normalize, types: dict, over: set[int], rank: int) -> tuple[list[Access], str]:
    """The accesses of mean, var, weight and bias, and the C++ text after the normalised element."""
    names = ["mean", "var", "weight", "bias"] if stage.op == "batchnorm" else ["weight", "bias"]
    accesses, affine = [], ""
    for role, o in zip(names, stage.params, strict=False):
        kind, strides = types[o.name], [0] * rank
        dims = sorted(over) if stage.op in ("layernorm", "rmsnorm") else [1]
        if kind.elements > 1:
            own = [s for s, n in zip(kind.strides, kind.shape, strict=True)]
            if len(own) == len(dims):
                for d, s in zip(dims, own, strict=True):
                    strides[d] = s
            else:  # a parameter whose axes are merged
                for d in reversed(dims):
                    strides[d] = prod(builder.types[stage.x.name].shape[e] for e in dims if e > d)
        pointer = f"n_{role}"
        builder.tensor(pointer, o.name)
        accesses.append(Access(pointer, kind.dtype, tuple(strides)))
        if role in ("weight", "bias"):
            affine += f" {'*' if role == 'weight' else '+'} e_{pointer}"
    return accesses, affine


def _split_channels(space: Space, stage: Normalize, shape: tuple[int, ...]) -> Space:
    """The space with the channels as two axes: groups, and channels of a group."""
    if stage.groups < 1 or shape[1] % stage.groups:
        raise Refusal("cpp-groups", f"{shape[1]} channels are no {stage.groups} groups", "let groups divide them")
    each = shape[1] // stage.groups

    def split(a: Access) -> Access:
        return replace(a, strides=(a.strides[0], a.strides[1] * each, a.strides[1], *a.strides[2:]))

    sizes = (shape[0], stage.groups, each, *shape[2:])
    marks = ("kept", "kept", *("reduced",) * (len(sizes) - 2))
    return Space(sizes, marks, tuple(split(a) for a in space.accesses))


def _rows(
    builder: Builder,
    space: Space,
    stage: Normalize,
    of: Value,
    early: Sequence[str],
    params: Sequence[str],
    results: Sequence[Result],
    affine: str,
) -> RowPart | None:
    """The part that reads each row once; None if rows are strided or too long."""
    long = [d for d, n in enumerate(space.sizes) if n > 1]
    x, outs = space.of("x"), [r.pointer for r in results]
    if not long or space.marks[long[-1]] != "reduced" or x.strides[long[-1]] != 1:
        return None
    after = list(dict.fromkeys([*params, *(p for r in results for p in r.value.reads)]))
    inner = space.only("reduced").merged()
    rows = space.only("kept").merged()
    if not inner.sizes or any(inner.of(o).strides[-1] != 1 for o in outs):
        return None
    main = [x, *(space.of(o) for o in outs)]
    width = vector_width(inner, max(1, min(8, 16 // min(a.size for a in main))))
    width = aligned(width, inner, rows, (*early, *after, *outs))
    steps = inner.count // width
    team = 1
    while (team < steps and team < 8) or (team < 512 and -(-steps // team) > max(1, 16 // width)):
        team *= 2
    while team < min(steps, 256) and rows.count * team < FILL:
        team *= 2
    per_thread = -(-steps // team)
    if per_thread * width > HELD or (rows.count < 64 and inner.count > 16384):
        return None  # too long for registers, or so few rows that each needs several blocks
    threads = team if team > 32 else 128
    wide = rows.count >= 2**31
    modes = tuple(mode(inner.of(p), width) for p in early)
    last = tuple(mode(inner.of(p), width) for p in after)
    early_decode = decode("r", inner, early, unit=width, tag="s", at="step")
    late_decode = decode("r", inner, [*after, *outs], unit=width, tag="t", at="step2")
    pointers = list(dict.fromkeys([*early, *after, *outs]))
    return RowPart(
        label="part1",
        entry=entry(0),
        pointers=builder.pointers(pointers),
        values=(of, *(r.value for r in results)),
        reads=modes,
        late=last,
        outputs=tuple(Output(r.pointer, space.of(r.pointer).ctype, r.value.call("acc", "e_{}")) for r in results),
        op=stage.op,
        of=of.call("e_x", "e_{}"),
        affine=affine,
        eps=literal(stage.eps),
        rows=rows.count,
        count=inner.count,
        steps=steps,
        per_thread=per_thread,
        team=team,
        vector=width,
        wide=wide,
        decode_row=decode("row", rows, pointers, wide=wide, tag="k", at="at"),
        decode_step=early_decode,
        decode_late=late_decode,
        grid=(grid_of(-(-rows.count // (threads // team)), stage.name),),
        threads=threads,
    )


def mode(a: Access, width: int) -> Read:
    """How vectors of `width` elements along the fastest axis are read."""
    step = a.strides[-1]
    if width == 1 or step == 0:
        return Read(a.pointer, a.ctype, "scalar")
    return Read(a.pointer, a.ctype, "vector" if step == 1 else "gather", step)


def _two_passes(
    builder: Builder,
    space: Space,
    stage: Normalize,
    of: Value,
    early: Sequence[str],
    results: Sequence[Result],
    affine: str,
) -> None:
    """Add a reduction that stores the statistics of every row in scratch, and an element-wise part."""
    outer = [d for d, m in enumerate(space.marks) if m == "kept"]
    strides, step = [0] * len(space.sizes), 1
    for d in reversed(outer):
        strides[d], step = step, step * space.sizes[d]
    count = prod(n for n, m in zip(space.sizes, space.marks, strict=True) if m == "reduced")
    stats = [Access(f"stat{i}", DType.F32, tuple(strides)) for i in range(2)]
    for a in stats:
        builder.room(a.pointer, step * 4)
    eps = literal(stage.eps)
    element = of.call("e_x", "e_{}")
    op, first, second, acc = {
        "softmax": ("logsumexp", "part.m", "1.0f / part.s", f"__expf({element} - e_stat0) * e_stat1"),
        "log_softmax": ("logsumexp", "part.m", "logf(part.s)", f"({element} - e_stat0) - e_stat1"),
        "rmsnorm": ("squares", "0.0f", f"1.0f / sqrtf(part.v / {count}.0f + {eps})", f"({element}) * e_stat1{affine}"),
    }.get(
        stage.op,
        ("moments", "part.mean", f"1.0f / sqrtf(part.m2 / part.n + {eps})", f"({element} - e_stat0) * e_stat1{affine}"),
    )
    whole = Space(space.sizes, space.marks, (*space.accesses, *stats))
    index = Access("index", DType.F32, (0,) * len(space.sizes))
    reduction(
        builder,
        Space(whole.sizes, whole.marks, (*whole.accesses, index)),
        op,
        early=early,
        late=[],
        of=of,
        acc="0.0f",
        outputs=[Output("stat0", "float", first), Output("stat1", "float", second)],
        values=[],
    )
    used = {a.pointer for a in whole.accesses}
    marks = ("",) * len(whole.sizes)
    elementwise(builder, Space(whole.sizes, marks, whole.with_only(used).accesses), results, acc=acc, values=[of])
