"""A product in f32 on the CUDA cores, for the rescue pipeline of a guarded program (dsl.guard).

A block computes a tile of 64 x 64 in K steps of 16 through shared memory, and a thread computes 4 x 4 elements of it.
This slow fallback takes any transposition, batch and size. It runs only if values are out of f16's range.
"""

from __future__ import annotations

from dsl.axes import axes_of
from dsl.ir import DType, Gemm, Operand, Program, TensorType, gemm_shape, inlined, loads
from dsl.lower import Refusal
from dsl.lower.cute import expression
from dsl.lower.cute.generated_kernels import THREADS, own_plan
from dsl.lower.cute.space import WIDE, Strides, load_strides
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.walk import MOST, add_launch, unique

TILE, DEPTH = 64, 16
EACH = 4  # rows and columns of a thread; TILE / EACH threads along each side


def plan(program: Program, stage: Gemm) -> StagePlan:
    """The plan of a product in f32. Raises Refusal for operands that are not f32, and for pairs."""
    types = types_of(program)
    if stage.pairs or {types[o.name].dtype for o in stage.operands} != {DType.F32}:
        raise Refusal("cute-compute", f"{stage.name} is no product of f32 tensors", "leave guard out")
    text = Text()
    outs = [(a.name, inlined(stage, a.expr)) for a in stage.also] + [(stage.name, inlined(stage, stage.epilogue))]
    reads = tuple(dict.fromkeys(load for _, e in outs for load in loads(e)))
    names = unique([stage.a.name, stage.b.name, *(load.name for load in reads), *(name for name, _ in outs)])
    imports: set[tuple[str, str]] = set()
    values = [f"value{i}" for i in range(len(reads))]
    for name, e in outs:
        operands = dict(zip(((x.name, x.axes) for x in reads), values, strict=True))
        body = expression.write(e, operands, {"acc", "offset", *values})
        imports |= body.imports
        text.add(f"def {name}_element({', '.join(['acc', 'offset', *values])}):")
        for line in (*(f"# {note}" for note in body.notes), *body.lines):
            text.add(f"    {line}")
        text.add(f"    return Float32({body.value})")
        text.gap(2)
    grid = _kernel(text, program, stage, types, [name for name, _ in outs], reads, names)
    add_launch(text, stage.name, names, [(f"{stage.name}_kernel", names, grid)])
    return own_plan(program, stage, text, f"{stage.name}_launch", names, imports=frozenset(imports))


def _matrix(t: TensorType, o: Operand, first: int) -> tuple[int, int, int]:
    """(batch stride, stride of axis `first` of the last two after `.T`, stride of the other one)."""
    rank = len(t.shape)
    batch = t.shape[-1] * t.shape[-2] if rank > 2 else 0
    row, column = t.strides[-2:]
    if o.transposed:
        row, column = column, row
    return (batch, row, column) if first == 0 else (batch, column, row)


def _wide(tensor: TensorType) -> bool:
    return tensor.elements >= WIDE


def _side(name: str, tensor: str, t: TensorType, strides: tuple[int, int, int], size: int, depth: int) -> list[str]:
    """The lines that load a slice (DEPTH of K by TILE rows or columns from `<name>_first`) to shared memory.

    Neighbouring threads read neighbouring elements along the contiguous axis.
    """
    batch, across, along = strides
    if along == 1:  # K is contiguous
        place = [f"deep = thread % {DEPTH}", f"far = thread // {DEPTH} + turn * {THREADS // DEPTH}"]
    else:
        place = [f"far = thread % {TILE}", f"deep = thread // {TILE} + turn * {THREADS // TILE}"]
    as_index = "Int64({})" if _wide(t) else "({})"
    terms = [f"{as_index.format('batch')} * {batch}"] if batch else []
    terms += [f"{as_index.format(f'{name}_first + far')} * {across}", f"{as_index.format('begin + deep')} * {along}"]
    return [
        f"        for turn in cutlass.range_constexpr({TILE * DEPTH // THREADS}):",
        *(f"            {line}" for line in place),
        "            one = cute.make_rmem_tensor((1,), Float32)",
        "            one.fill(0.0)",
        f"            if ({name}_first + far < {size}) & (begin + deep < {depth}):",
        f"                fetch(one, {tensor}, {' + '.join(terms)})",
        f"            {name}[deep, far] = one[0]",
    ]


def _kernel(
    text: Text, program: Program, stage: Gemm, types: dict[str, TensorType], outs: list[str], reads, names: list[str]
) -> str:
    """Add `<name>_kernel`. Returns the text of its grid."""
    s = gemm_shape(program, stage)
    down, across = -(-s.m // TILE), -(-s.n // TILE)
    if s.l * down * across > MOST:
        raise Refusal("cute-size", f"{stage.name} has {s.l * down * across:,} tiles; a kernel counts {MOST:,}", None)
    ta, tb, t = types[stage.a.name], types[stage.b.name], types[outs[-1]]
    rank, lanes = len(t.shape), TILE // EACH
    axes = axes_of(stage, rank)
    arguments = ", ".join(f"{n}: cute.Tensor" for n in names)
    lines = [
        "@cute.kernel",
        f"def {stage.name}_kernel({arguments}):",
        f'    """{s.l} x {s.m} x {s.n} x {s.k} in f32: tiles of {TILE} x {TILE}, {EACH * EACH} elements a thread."""',
        "    thread, _, _ = cute.arch.thread_idx()",
        "    block, _, _ = cute.arch.block_idx()",
        "    thread, block = Uint32(thread), Uint32(block)",
        "    allocator = cutlass.utils.SmemAllocator()",
        f"    layout = cute.make_layout(({DEPTH}, {TILE}), stride=({TILE + 1}, 1))",
        "    rows = allocator.allocate_tensor(Float32, layout, byte_alignment=16)",
        "    columns = allocator.allocate_tensor(Float32, layout, byte_alignment=16)",
        f"    batch = block // {down * across}",
        f"    rows_first = block // {across} % {down} * {TILE}",
        f"    columns_first = block % {across} * {TILE}",
        f"    y_thread, x_thread = thread // {lanes}, thread % {lanes}",
        f"    sums = cute.make_rmem_tensor(({EACH * EACH},), Float32)",
        "    sums.fill(0.0)",
        f"    for step in cutlass.range({-(-s.k // DEPTH)}, unroll=1):",
        f"        begin = Uint32(step) * {DEPTH}",
        *_side("rows", stage.a.name, ta, _matrix(ta, stage.a, 0), s.m, s.k),
        *_side("columns", stage.b.name, tb, _matrix(tb, stage.b, 1), s.n, s.k),
        "        cute.arch.barrier()",
        f"        for place in cutlass.range_constexpr({DEPTH}):",
        f"            taps = [rows[place, y_thread + i * {lanes}] for i in range({EACH})]",
        f"            weights = [columns[place, x_thread + j * {lanes}] for j in range({EACH})]",
        f"            for i in cutlass.range_constexpr({EACH}):",
        f"                for j in cutlass.range_constexpr({EACH}):",
        f"                    sums[i * {EACH} + j] = sums[i * {EACH} + j] + taps[i] * weights[j]",
        "        cute.arch.barrier()",
        f"    for i in cutlass.range_constexpr({EACH}):",
        f"        for j in cutlass.range_constexpr({EACH}):",
        f"            row = rows_first + y_thread + i * {lanes}",
        f"            column = columns_first + x_thread + j * {lanes}",
        f"            if (row < {s.m}) & (column < {s.n}):",
    ]
    lines.append("                reads = []") if reads else None
    for load in reads:
        strides = load_strides(types[load.name], load, axes, rank)
        spot = _spot(strides, types[load.name], t)
        lines.append(f"                reads.append(Float32(read({load.name}, {spot}, 1)[0]))")
    values = "".join(f", reads[{i}]" for i in range(len(reads)))
    for name in outs:
        lines += [
            "                out = cute.make_rmem_tensor((1,), Float32)",
            f"                out[0] = {name}_element(sums[i * {EACH} + j], Int32(column) - Int32(row){values})",
            f"                write({name}, {_spot(t.strides, t, t)}, out)",
        ]
    text.add("\n".join(lines))
    return f"grid=({s.l * down * across}, 1, 1), block=({THREADS}, 1, 1)"


def _spot(strides: Strides, t: TensorType, result: TensorType) -> str:
    """The text of the offset of the element at batch, row, column; all batch axes are one."""
    terms, as_index = [], "Int64({})" if _wide(t) else "{}"
    rank = len(result.shape)
    lead = [s for s, d in zip(strides[:-2], result.shape[:-2], strict=True) if d > 1]
    for word, stride in (
        ("batch", lead[-1] if rank > 2 and lead else 0),
        ("row", strides[-2]),
        ("column", strides[-1]),
    ):
        if stride:
            one = as_index.format(word)
            terms.append(one if stride == 1 else f"{one} * {stride}")
    return " + ".join(terms) or "0"
