"""The text of a convolution on the tensor cores, around the kernel class of conv_text.py.

conv_launches.py plans its launches, and conv_tiles.py their tiles.
"""

from __future__ import annotations

from math import gcd, prod

from dsl.ir import NHWC, Call, Conv, DType, Expr, Load, Program, TensorType, inlined, loads
from dsl.lower import Refusal
from dsl.lower.cute import expression, same_kernels
from dsl.lower.cute.conv import conv_text
from dsl.lower.cute.conv.conv_launches import Launch, read_strides, three
from dsl.lower.cute.conv.conv_store import WATCHED
from dsl.lower.cute.conv.conv_tiles import Tiling, boxes, tiled
from dsl.lower.cute.conv.folds import FOLD, POOL, FoldingConv, stored
from dsl.lower.cute.conv.whole_window import WHOLE
from dsl.lower.cute.generated_kernels import FLAG, WATCH, watched_results
from dsl.lower.cute.parts import GATE, GATE_IMPORTS, TENSOR_FLOAT
from dsl.lower.cute.stage import CUTE, Part, StagePlan, Text, types_of
from dsl.rules.cute.whole_window import TEAMS

STORED = (DType.F32, DType.F16, DType.BF16)
AT_ONCE = (2, 4)  # phases along w
_TAKEN = ("acc", "cute", "cutlass", "Float32", "fmax", "fmin", "rcp_approx", "select_")


def plan(program: Program, stage: Conv, gate: bool | None = None) -> StagePlan:
    """The plan of a tensor-core convolution. Raises Refusal.

    `gate`: in a guarded program, its kernels run only where the flag is set (True), or only where it is not (False).
    """
    types = types_of(program)
    folds = isinstance(stage, FoldingConv)
    x, w, y = types[stage.x.name], types[stage.w.name], stage.sums if folds else stage.type
    _refuse(stage, x, w, y)
    outs = (stage.name, *(a.name for a in stage.also))
    exprs = stage.exprs if folds else (stage.epilogue, *(a.expr for a in stage.also))
    reads_of = tuple(dict.fromkeys(load for e in exprs for load in loads(inlined(stage, e))))
    seen = (*reads_of, stage.result()) if folds else reads_of
    reads = tuple(read_strides(load, types[load.name], y) for load in seen)
    launches, tile = tiled(stage, types, reads, _window(stage))
    launches = stored(launches) if folds else launches
    out = Text()
    imports = _epilogue(out, stage, exprs, reads_of)
    out.gap(2)
    name = stage.name.upper()
    for number, launch in enumerate(launches):
        kind = "WatchedKernel" if watched_results(program, stage) else "ConvKernel"
        kind = {1: "FoldKernel"}.get(prod(stage.window), "PoolKernel") if folds else kind
        kind = f"whole_window({kind})" if tile.whole else kind
        kind = kind if gate is None else f"behind_gate({kind}, up={gate})"
        for text, *marks in _kernel(stage, w, y, launch, tile, number, kind, reads_of):
            out.add(text, *(("", mark) for mark in marks))
    out.gap(2)
    results, values = [f"out{i}" for i in range(len(outs))], [f"read{i}" for i in range(len(reads_of))]
    watches = [FLAG] if watched_results(program, stage) else []
    flag = [FLAG] if watches or gate is not None else []
    values += flag
    out.add(f"@cute.jit\ndef {stage.name}_launch({', '.join(['x', 'w', *results, *values])}, stream: CUstream):")
    for number in range(len(launches)):
        out.add(f"    {name}_{number}.launch(x, w, {_tuple(results)}, {_tuple(values)}, stream)")
    out.gap(2)
    shared = "\n".join(
        [
            conv_text.VERSION,
            *([TENSOR_FLOAT] if x.dtype is DType.F32 else []),
            *([WATCHED] if watches else []),
            *([FOLD, POOL] if folds else []),
            *([WHOLE] if tile.whole else []),
            *([GATE, conv_text.GATED] if gate is not None else []),
        ]
    )
    tensors = (stage.x.name, stage.w.name, *outs, *(f.name for f in reads_of), *flag)
    version = same_kernels.key(shared, "\n".join(out.lines), (stage.name, *tensors))
    dtypes = [CUTE[t.dtype] for t in (x, w, *([stage.type] * len(outs)), *(types[f.name] for f in reads_of))]
    dtypes += [CUTE[DType.I32]] * len(flag)
    dtype_list = ", ".join(f"cutlass.{d}" for d in dtypes)
    aligned = 2 + len(outs)
    text = f'{name} = ConvStage({stage.name}_launch, ({dtype_list}), {aligned}, "{version}")'
    out.add(text, ("", "compute"), ("", "store"))
    floats = (Part(TENSOR_FLOAT, 8),) if x.dtype is DType.F32 else ()
    parts = (*floats, Part(conv_text.CONV, 30), *((Part(WATCH, 35), Part(WATCHED, 36)) if watches else ()))
    parts += (Part(FOLD, 37),) if folds else ()
    parts += (Part(POOL, 38),) if folds and prod(stage.window) > 1 else ()
    parts += (Part(WHOLE, 34),) if tile.whole else ()
    imports |= {("cutlass", name) for name in ("Int32", "Uint32") if watches}
    modules = set(conv_text.MODULES)
    if gate is not None:
        parts += (Part(GATE, 7), Part(conv_text.GATED, 39))
        imports |= GATE_IMPORTS
        modules.add("inspect")
    return StagePlan(
        out,
        ", ".join(tensors),
        tuple(dict.fromkeys(tensors)),
        parts,
        frozenset(imports | set(conv_text.IMPORTS)),
        (),
        ("compute", "store"),
        frozenset(modules),
    )


def _epilogue(out: Text, stage: Conv, exprs: tuple[Expr, ...], reads: tuple[Load, ...]) -> set[tuple[str, str]]:
    """Add the functions of the epilogue. Returns their imports."""
    names = _argument_names(reads)
    operands = dict(zip(((f.name, f.axes) for f in reads), names, strict=True))
    body = expression.write_all(stage.lets, exprs, operands, {*names, *_TAKEN})
    first = out.next
    out.add(f"def {stage.name}_epilogue({', '.join(['acc', *names])}):")
    for line in (*(f"# {note}" for note in body.notes), *body.lines):
        out.add(f"    {line}")
    out.add(f"    return {_tuple([f'cutlass.Float32({value})' for value in body.values])}")
    out.span(("", "epilogue"), first)
    return set(body.imports)


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' * (len(names) == 1)})"


def _refuse(stage: Conv, x: TensorType, w: TensorType, y: TensorType) -> None:
    compute = DType.TF32 if x.dtype is DType.F32 else x.dtype
    if compute not in (DType.TF32, DType.F16, DType.BF16) or w.dtype is not x.dtype:
        raise Refusal(
            "cute-conv-dtype",
            f"the cute back end convolves f32, f16 and bf16 on sm_90a, not {x.dtype.value} by {w.dtype.value}",
            f"transform {stage.x.name} and {stage.w.name} to f16",
        )
    if compute is DType.TF32 and stage.transposed:
        raise Refusal(
            "cute-conv-compute",
            f"tensor cores read tf32 along the input channels only, and {stage.w.name} lies along the output channels",
            f"transform {stage.x.name} and {stage.w.name} to f16",
        )
    if x.layout != NHWC or w.layout != NHWC:
        raise Refusal(
            "cute-conv-layout",
            f"{stage.name} reads {stage.x.name} {x.layout} and {stage.w.name} {w.layout}; tensor cores take nhwc",
            f"transform {stage.x.name} and {stage.w.name} with layout nhwc",
        )
    row = 128 // x.dtype.bits
    for reason, count, least in (("input", x.shape[1], row), ("output", y.shape[1], 8)):
        if (count := count // stage.groups) % least:
            raise Refusal(
                "cute-conv-channels",
                f"{stage.name} has {count} {reason} channels a group; the kernel takes a multiple of {least}",
                "pad the channels, or write compute f32 for a direct convolution",
            )
    if any(a.type not in (None, y) for a in stage.also) or any(map(_has_other_work, _written(stage))):
        raise Refusal(
            "cute-epilogue", f"{stage.name} reduces, or selects by place, in a convolution's epilogue",
            "reduce in a stage of its own",
        )  # fmt: skip
    if y.dtype not in STORED:
        raise Refusal("cute-dtype", f"convolutions store f32, f16 and bf16, not {y.dtype.value}", "store f16")
    if stage.config.compute not in (None, compute):
        raise Refusal(
            "cute-conv-compute", f"{stage.name} computes {stage.config.compute.value} from {x.dtype.value}", None
        )
    for t in (x, w, y):
        if t.elements // t.shape[0] >= 2**31:
            raise Refusal("cute-size", f"an image of {stage.name} has 2^31 elements or more", None)


def _window(stage: Conv) -> tuple[int, int, int]:
    """The pixels of a pool's windows that lie in one box."""
    return stage.window if isinstance(stage, FoldingConv) else (1, 1, 1)


def _written(stage: Conv) -> list[Expr]:
    return [inlined(stage, e) for e in (stage.epilogue, *(a.expr for a in stage.also))]


def _has_other_work(e: Expr) -> bool:
    """Raise Refusal for functions that need a gemm's tile."""
    return isinstance(e, Call) and (
        e.fn in (*expression.INDEXED, "row_sum", "row_max", "col_sum", "row_logsumexp")
        or any(map(_has_other_work, e.args))
    )


def _argument_names(reads: tuple[Load, ...]) -> list[str]:
    names: list[str] = []
    for load in reads:
        name = f"{load.name}_{''.join(load.axes)}" if load.axes else load.name
        while name in names or name in _TAKEN:
            name += "_"
        names.append(name)
    return names


# ---- text -----------------------------------------------------------------------------------------------------


def _vector(tile: Tiling, launch: Launch, box: tuple[int, int, int], dtype: DType) -> int:
    """Elements of one store of a thread for results contiguous along w: up to 16 bytes, if rows are aligned to it. 0:
    rows that begin anywhere are cut at each 16 bytes. In a transposed convolution on an H200 stores of one element took
    1.7 times as long as predicted, those of two 1.2 times, of four as predicted (engine/results, kernelbench-248)."""
    first, b, c, along_w, h, d = launch.strides
    if along_w != 1:
        return 1
    unit, row = 128 // dtype.bits, box[0] * launch.phases
    vector = gcd(unit, first, b, c, h, d, launch.width, row)
    # Pixels of one phase lie side by side in shared memory, where two leave at once.
    apart = vector < unit if launch.phases > 1 else vector == 1
    return 0 if apart and row >= unit else vector


def _at_once(launch: Launch, box: tuple[int, int, int], dtype: DType) -> bool:
    """Return True if a thread stores the phases of a pixel from its registers: eight pixels of a row are whole sectors
    of memory, and the epilogue reads nothing by pixel (each load would wait behind a store)."""
    first, b, c, along_w, h, d = launch.strides
    sector = 256 // dtype.bits
    rows = not any(n % sector for n in (first, b, c, h, d, launch.width, 8 * launch.phases))
    by_pixel = any(any(strides[3:]) for strides in launch.reads)
    return along_w == 1 and launch.phases in AT_ONCE and box[0] % 8 == 0 and rows and not by_pixel


def _kernel(stage: Conv, w: TensorType, y: TensorType, launch: Launch, tile: Tiling, number: int, kind: str, reads):
    """The lines of one kernel of class `kind`, each with the clauses that determine it. `reads`: of its expressions."""
    channels = y.shape[1] // stage.groups
    taps_w = prod(w.shape[2:])
    if stage.transposed:
        per_group = w.shape[1]
        # Groups are consecutive along C, the weight's outermost axis.
        extents = (per_group, taps_w, w.shape[0], 1)
        strides = (1, per_group, per_group * taps_w, 0)
    else:
        # A merged run replaces the window's innermost axis.
        taps = taps_w * w.shape[1] // launch.run
        extents = (launch.run, taps, channels, stage.groups)
        strides = (1, launch.run, launch.run * taps, launch.run * taps * channels)
    last = launch.strides[2] == 1
    window = _window(stage)
    box = tile.whole.box if tile.whole else boxes(tile.pixels, launch.out, last, window)
    block, parts = tile.run_box(launch.run, launch.taps)
    dtype = stage.type.dtype
    part = tile.part(tile.n // launch.phases, launch.phases, last, dtype.bits)
    yield (f"{stage.name.upper()}_{number} = {kind}(",)
    yield (f"    {stage.name}_epilogue,",)
    yield f"    box={box}, tile_n={tile.n}, run_box={block}, parts={parts}, unit={tile.unit},", "tile"
    resident = f"{tile.resident} block{'s' * (tile.resident > 1)} at once on a multiprocessor"
    yield f"    warp_groups={tile.warp_groups}, resident={tile.resident}, grid={tile.grid},  # {resident}", "schedule"
    yield f"    stages={tile.stages},", "stages"
    if tile.whole:
        yield f"    teams={TEAMS}, edges={tile.whole.edges}, pitch={tile.whole.pitch},", "tile"
    yield f"    axes=({', '.join(a.text() for a in launch.axes)}),", "stride", "padding", "dilation"
    if isinstance(stage, FoldingConv):
        pooled = f", window={window}, pooled={three(stage.type.shape[2:], 1)}" if prod(window) > 1 else ""
        needs = tuple(tuple(i for i, load in enumerate(reads) if load in loads(e)) for e in stage.exprs)
        yield (f'    fold="{stage.reader.op}", needs={needs}{pooled},',)
    yield f"    run={launch.run}, channels={channels}, groups={stage.groups}, images={y.shape[0]},", "groups"
    yield (f"    w_along_c={not stage.transposed}, w_view=({extents}, {strides}),",)
    yield f"    views={launch.views},", "stride"
    yield f"    remainders={launch.remainders}, void={launch.void}, seen={launch.seen},", "stride"
    at_once = "Watched" not in kind and _at_once(launch, box, dtype)
    yield (f"    out={launch.out}, width={launch.width}, part={part}, vector={_vector(tile, launch, box, dtype)},",)
    yield f"    strides={launch.strides}, at_once={at_once},", "store"
    yield f"    reads={launch.reads},", "epilogue"
    yield (")",)


__all__ = ["plan"]
