"""t_attainable: the expected time of a program (or of PyTorch) on a device, to rank candidates and to predict.

Never a bound and never evidence: integrity checks and gaps use `sol.bounds`. A program's stages run one after another,
so its time is their sum; each product (a convolution as its implicit one) is priced by the tile and wave model of
`sol.model.tiles`, every other stage by its bytes at the copy rate, a direct convolution by its arithmetic too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace

from dsl import ir
from dsl.axes import parts_read
from dsl.functions import EVERY
from dsl.lower.plan.buffers import aliases
from dsl.printer import word_of
from dsl.rules import folds, legal, normalized
from dsl.rules.recurrent.layout import compute_of
from sol.hardware import Hardware
from sol.model.attention import attention_time
from sol.model.convolution import convolution_time, implicit
from sol.model.eager import predict_eager
from sol.model.launches import kernels
from sol.model.prediction import Attainable, StageTime, queued, stream_ms
from sol.model.recurrent import recurrent_time
from sol.model.rowmajor import rowmajor_time
from sol.model.scans import busy
from sol.model.tiles import GAP_MS, LAUNCH_MS, Product, TileTime, Tiling, tile_time

# Vector FLOPs per element for normalising a product's rows in its registers: 32768 x 1024 x 4096 in tf32 took 0.843 ms
# with the cooperative schedule, where nothing hides this work, and 0.743 ms with pingpong.
IN_REGISTERS_FLOPS = 100.0
FOLD_FLOPS = 10.0  # the same for what a convolution's kernel folds; not fitted yet

# Factor on the output traffic of a transposed convolution with a stride in `cpp`: each phase writes every second pixel,
# so it fills only parts of sectors. L2/2 and L2/26 in tf32 took 1.0 and 0.9 ms longer than whole rows would.
STRIDED = 3.0

# The median relative error of `predict` against recorded runs, as engine/results/sweep.md states it (a test compares).
KNOWN_ERROR: float | None = 0.114

CLASS_OF_COMPUTE = {
    ir.DType.F64: "f64",
    ir.DType.F32: "f32",
    ir.DType.TF32: "tf32",
    ir.DType.F16: "f16",
    ir.DType.BF16: "bf16",
    ir.DType.E4M3: "fp8",
    ir.DType.E5M2: "fp8",
    ir.DType.I8: "i8",
}
_DEFAULT_TILE = (128, 128, 32)


def _cost(e: ir.Expr, program: ir.Program, full: float, out: float) -> tuple[float, float, float]:
    """Vector FLOPs, special functions and operand bytes of an expression, per element of the product, which has `full`.

    Tensors smaller than the result (`out` elements) stay in caches and are not counted. (A transposed convolution's
    implicit product has more elements than its result.)
    """
    if isinstance(e, ir.Call):
        fn = EVERY.get(e.fn)
        flops, special = (float(fn.flops), float(fn.special)) if fn else (1.0, 0.0)
        if e.fn == "div" and isinstance(e.args[1], ir.Number):
            flops, special = 1.0, 0.0
        moved = 0.0
        for arg in e.args:
            f, s, b = _cost(arg, program, full, out)
            flops, special, moved = flops + f, special + s, moved + b
        return flops, special, moved
    if isinstance(e, ir.Load):
        kind = program.type_of(e.name)
        if kind is None:
            return 0.0, 0.0, 4.0 if {"m", "n"} <= set(e.axes) else 0.0
        return 0.0, 0.0, kind.bytes / full if kind.elements >= out else 0.0
    return 0.0, 0.0, 0.0


def _epilogue_cost(stage: ir.Stage, program: ir.Program, full: float) -> tuple[float, float, float]:
    """`_cost` summed over all expressions of a stage; further full results count as bytes."""
    out = min(full, stage.type.elements) if stage.type is not None else full
    costs = [_cost(e, program, full, out) for e in ir.expressions(stage)]
    flops, special, moved = (sum(c[i] for c in costs) for i in range(3))
    moved += sum(a.type.bytes for a in stage.also if a.type is not None) / full
    return flops, special, moved


def product_of(program: ir.Program, stage: ir.Collective) -> Product:
    """The matrix product of a checked product or convolution, with its epilogue's work.

    A convolution counts as its implicit product, a grouped product as one product of all its rows.
    """
    types = legal.types_of(program)
    first = stage.operands[0]
    operand = types[first.name].dtype
    compute = legal.compute_of(stage, types)
    stored = stage.type.dtype if stage.type else stage.store or operand
    shared = False
    if isinstance(stage, ir.Conv) and stage.transposed and legal.is_rowmajor(stage, types):
        w = types[stage.w.name]  # a plain convolution with flipped filters, counted at its results
        shape = ir.GemmShape(1, stage.type.elements // w.shape[1], w.shape[1], w.elements // w.shape[1])
    elif isinstance(stage, ir.Conv):
        shape = ir.conv_shape(program, stage)
    elif isinstance(stage, ir.GroupedGemm):
        (rows, k), n = types[stage.a.name].shape, types[stage.b.name].shape[-2 if stage.b.transposed else -1]
        shape = ir.GemmShape(1, rows, n, k)
    else:
        shape = ir.gemm_shape(program, stage)
        shared = len(types[stage.b.name].shape) == 2 and shape.l > 1
    full = float(shape.l * shape.m * shape.n)
    flops, special, extra = _epilogue_cost(stage, program, full)
    norm = joined_with(program, stage)
    if norm is not None:
        more = _epilogue_cost(norm, program, full)
        share = norm.type.elements / stage.type.elements
        own = IN_REGISTERS_FLOPS if isinstance(stage, ir.Gemm) else FOLD_FLOPS
        flops, special, extra = flops + own + share * more[0], special + share * more[1], extra + share * more[2]
    out = stored.bits / 8
    if norm is not None and isinstance(stage, ir.Conv):
        out = norm.type.bytes / full
    elif stage.type is not None and stage.type.elements != full:  # a reduction, pairs, a transposed convolution's sum
        out = stage.type.bytes / full
    again, run = 1.0, 0
    if isinstance(stage, ir.Conv):
        again = full * shape.k / shape.n / types[stage.x.name].elements
        if not stage.transposed:
            run = types[stage.w.name].shape[1]
        elif stage.stride[-1] > 1 and compute is ir.DType.TF32:
            out, extra = STRIDED * out, STRIDED * extra
    return Product(
        shape.l,
        shape.m,
        shape.n,
        shape.k,
        CLASS_OF_COMPUTE[compute],
        operand.bits / 8,
        out,
        extra,
        flops,
        special,
        shared_b=shared,
        across=_across(stage) if compute is ir.DType.TF32 else "",
        triangle=_triangular(stage, shape),
        again=again,
        run=run,
        cast_bytes=types[stage.b.name].dtype.bits / 8 if legal.casts(stage, types) else 0.0,
    )


def joined_with(program: ir.Program, stage: ir.Stage) -> ir.Normalize | ir.Reduce | ir.Pool | None:
    """The stage that runs in the kernel of this product or convolution, or None: a normalize of a product's rows
    (dsl.rules.normalized), which only `cpp` builds, and only in tf32; what folds a convolution's channels or pools its
    pixels (dsl.rules.folds), which only `cute` builds. While the tile is open, the stage that could run there."""
    c = stage.config if isinstance(stage, ir.Collective) else ir.Config()
    open_, types = not (c.tile and c.schedule), legal.types_of(program)
    if isinstance(stage, ir.Conv):
        reader = folds.reader(program, stage) if types[stage.x.name].layout == ir.NHWC else None
        return reader if reader is None or open_ or folds.fits(stage, c, reader) else None
    if not isinstance(stage, ir.Gemm) or program.arch not in (None, "sm_90a"):
        return None
    width = normalized.group(program, stage)
    if not width or c.backend == "cute" or legal.compute_of(stage, types) is not ir.DType.TF32:
        return None
    if not (open_ or normalized.fits(c, width)):
        return None
    return next(s for s in program.stages if stage.name in ir.reads(s))


def alone_ms(program: ir.Program, joined: ir.Normalize | ir.Reduce | ir.Pool, hw: Hardware) -> float:
    """The time of a stage that `joined_with` gives, where a configuration runs it as a kernel of its own."""
    return _own(program, joined, hw).ms


def _across(stage: ir.Collective) -> str:
    """The operands of a product that are not contiguous along K: "", "a", "b" or "ab"."""
    if not isinstance(stage, ir.Gemm):
        return ""
    return ("a" if stage.a.transposed else "") + ("" if stage.b.transposed else "b")


def _triangular(stage: ir.Collective, shape: ir.GemmShape) -> bool:
    """Return True if a product keeps one triangle of a square result."""
    e = stage.epilogue
    return isinstance(stage, ir.Gemm) and isinstance(e, ir.Call) and e.fn in ("triu", "tril") and shape.m == shape.n


def tiling_of(stage: ir.Collective) -> Tiling:
    """The stage's configuration as a Tiling; fields that are still auto get a default."""
    c = stage.config
    tile = c.tile or _DEFAULT_TILE
    cluster = c.cluster or (1, 1, 1)
    scheduler = c.scheduler or ir.Scheduler("persistent")
    return Tiling(
        tile,
        (cluster[0], cluster[1]),
        c.schedule or "cooperative",
        scheduler.kind,
        scheduler.splits,
        c.swizzle or 1,
    )


def collective_time(program: ir.Program, stage: ir.Collective, hw: Hardware, p: Product | None = None) -> TileTime:
    """The time of a product or convolution by the model of its kernel. `p`: its product, if the caller has it."""
    p = p or product_of(program, stage)
    if stage.config.tile and legal.is_rowmajor(stage, legal.types_of(program)):
        return rowmajor_time(program, stage, p, hw)
    if hw.arch.startswith("sm_90") and implicit(program, stage):
        time = convolution_time(program, stage, p, hw)
        if time is not None:
            return time
    return tile_time(p, tiling_of(stage), hw)


def _product(program: ir.Program, stage: ir.Collective, hw: Hardware) -> StageTime:
    p = product_of(program, stage)
    time = collective_time(program, stage, hw, p)
    note = (
        f"{time.tiles} tiles in {time.waves} wave{'s' if time.waves > 1 else ''}, {time.busy:.0%} of the SMs' time used"
    )
    more = kernels(program, stage) - 1
    parts = {
        "launch": time.launch_ms + more * GAP_MS,
        "fill": time.fill_ms,
        "main": time.main_ms,
        "epilogue": time.epilogue_ms,
        "reduction": time.reduction_ms,
    }
    launches = time.launches + more
    note += f", {launches} kernels" if launches > 1 else ""
    ms = time.ms + more * GAP_MS
    return StageTime(stage.name, word_of(stage), ms, time.work_by, parts, p.flops, time.hbm_bytes, note)


# Vector FLOPs per input element of a stage's own operation, without its expressions: one addition or comparison for a
# reduction; mean, variance, subtract and multiply for a norm.
_OWN_FLOPS = {"reduce": 1.0, "normalize": 5.0}
# Share of the FMA pipes' peak that a direct convolution reaches. Transposed with a stride it tries every position of
# its window for every result: 16 and 23 TFLOP/s of these in two grouped ones on an H100.
FMA_RATE, TRIED_RATE = 0.6, 0.3
SECTOR_BYTES = 32


def _vector_flops(program: ir.Program, stage: ir.Stage) -> float:
    """Vector FLOPs of a stage that runs in a generated kernel; a pool counts its window, a copy nothing."""
    x = program.type_of(stage.operands[0].name)
    full = float(stage.type.elements if isinstance(stage, ir.Map) else max(x.elements, stage.type.elements))
    flops = _epilogue_cost(stage, program, full)[0] + _OWN_FLOPS.get(word_of(stage), 0.0)
    if isinstance(stage, ir.Pool):
        flops += math.prod(stage.window or x.shape[2:]) * stage.type.elements / full
    return flops * full


def _apart(program: ir.Program, stage: ir.Stage) -> float:
    """How many times a stage reads its bytes. A pool between two layouts reads a sector for each element of its
    windows, from L2 at about twice the copy rate: 9 ms in place of 0.5 for 0.96 GB and 9 places on an H200."""
    x = program.type_of(stage.operands[0].name)
    if not isinstance(stage, ir.Pool) or x.layout == stage.type.layout or not stage.window:
        return 1.0
    return max(1.0, math.prod(stage.window) * SECTOR_BYTES * 8 / x.dtype.bits / 2)


def _own(program: ir.Program, stage: ir.Stage, hw: Hardware) -> StageTime:
    """The time of a stage that runs in a generated kernel: its traffic at the copy rate or, if that takes longer, a
    direct convolution's products on the FMA pipes."""
    kind = word_of(stage)
    if isinstance(stage, ir.Transform) and stage.prepack:
        return StageTime(stage.name, kind, 0.0, "launch", {}, note="prepacked once a weight version, not timed")
    read = float(sum(_read([stage], name, program.type_of(name)) for name in ir.reads(stage)))
    written = float(stage.type.bytes + sum(a.type.bytes for a in stage.also))
    ms = stream_ms(read * _apart(program, stage), written, hw)
    if isinstance(stage, ir.Scan):
        ms = LAUNCH_MS + (ms - LAUNCH_MS) / busy(stage, program.type_of(stage.x.name))
    flops, products = _vector_flops(program, stage), 0.0
    if isinstance(stage, ir.Conv):
        shape = ir.conv_shape(program, stage)
        products = 2.0 * shape.l * shape.m * shape.n * shape.k
    tried = products * (math.prod(stage.stride) if isinstance(stage, ir.Conv) and stage.transposed else 1)
    rate = FMA_RATE if tried == products else TRIED_RATE
    computed = LAUNCH_MS + tried / (rate * hw.vector_peak("f32")) * 1e3
    bound, main = "vector" if computed > ms else "memory", max(ms, computed) - LAUNCH_MS
    launches = kernels(program, stage)
    launch = LAUNCH_MS + (launches - 1) * GAP_MS
    note = f", {launches} kernels" if launches > 1 else ""
    x = program.type_of(stage.operands[0].name)
    return StageTime(
        stage.name,
        kind,
        launch + main,
        bound,
        {"launch": launch, "main": main},
        flops + products,
        read + written,
        (f"{x} to {stage.type}" if x.shape != stage.type.shape else f"{x.dtype.value} to {stage.type.dtype.value}")
        + note,
    )


def _read(stages: Iterable[ir.Stage], name: str, kind: ir.TensorType) -> float:
    """The bytes of a tensor that stages read, at most all of it. Parts that two maps read in common count twice."""
    parts = [math.prod(part) for s in stages for part in parts_read(s, name, kind)]
    return min(kind.elements, sum(parts)) * kind.dtype.bits / 8


def _limit_ms(program: ir.Program, stages: Iterable[StageTime], hw: Hardware) -> float:
    """The least time of any run of this program in ms: its products at the measured rate of their classes or, if that
    takes longer, each external tensor read once and each result written once at the copy rate."""
    prepacked = {s.name for s in program.stages if isinstance(s, ir.Transform) and s.prepack}
    outside = {p.name for p in program.params} | prepacked
    run = [s for s in program.stages if s.name not in prepacked]
    readers: dict[str, list[ir.Stage]] = {}
    for s in run:
        for n in ir.reads(s):
            if n in outside:
                readers.setdefault(n, []).append(s)
    moved = sum(_read(some, n, program.type_of(n)) for n, some in readers.items())
    moved += sum(t.bytes for t in program.result_types)
    types = legal.types_of(program)
    products = 0.0
    for s, time in zip(program.stages, stages, strict=True):
        if legal.configured(s, types):
            products += time.flops / hw.ceiling(CLASS_OF_COMPUTE[legal.compute_of(s, types)])
        elif isinstance(s, ir.Attention):
            products += time.flops / hw.ceiling(CLASS_OF_COMPUTE[s.type.dtype])
        elif isinstance(s, ir.Recurrent):
            products += time.flops / hw.ceiling(CLASS_OF_COMPUTE[compute_of(s, types)])
    return 1e3 * max(products, moved / hw.copy_rate)


def _above(limit: float, stages: tuple[StageTime, ...]) -> tuple[StageTime, ...]:
    """Stretch the longest stage where the sum is below 1.02 times the limit. The new sum is 1 to 1.02 times the limit
    and grows with the old one, so programs keep their order."""
    total = sum(s.ms for s in stages)
    if total >= 1.02 * limit:
        return stages
    more = limit * (1 + 0.02 * total / (1.02 * limit)) - total
    at = max(range(len(stages)), key=lambda i: stages[i].ms)
    s = stages[at]
    s = replace(s, ms=s.ms + more, parts={**s.parts, "main": s.parts.get("main", 0.0) + more})
    return (*stages[:at], s, *stages[at + 1 :])


def _stage(program: ir.Program, stage: ir.Stage, hw: Hardware, free: Collection[str]) -> StageTime:
    """`free`: stages that launch nothing."""
    if stage.name in free:
        note = f"the bytes of {stage.operands[0].name} in another shape, no kernel"
        return StageTime(stage.name, word_of(stage), 0.0, "launch", {}, note=note)
    if legal.configured(stage, legal.types_of(program)):
        return _product(program, stage, hw)
    if isinstance(stage, ir.Attention):
        return attention_time(program, stage, hw)
    if isinstance(stage, ir.Recurrent):
        return recurrent_time(program, stage, hw)
    joins = isinstance(stage, ir.Normalize | ir.Reduce | ir.Pool)
    source = next((s for s in program.stages if joins and s.name == stage.x.name), None)
    if source is not None and joined_with(program, source) is stage:
        return StageTime(stage.name, word_of(stage), 0.0, "launch", {}, note=f"in the kernel of {source.name}")
    return _own(program, stage, hw)


def predict(program: ir.Program, hw: Hardware) -> Attainable:
    """The expected time of a checked (best: resolved) program on a device, stage by stage. Takes well under 1 ms.

    Raises HardwareError when the device has no units of a stage's compute type.
    """
    free = aliases(program)
    stages = queued(_stage(program, s, hw, free) for s in program.stages)
    stages = _above(_limit_ms(program, stages, hw), stages)
    longest = max(stages, key=lambda s: s.ms)
    notes = [f"{s.name}: {s.note}" for s in stages if s.note]
    return Attainable(sum(s.ms for s in stages), stages, longest.bound_by, tuple(notes))


__all__ = [
    "KNOWN_ERROR", "Attainable", "StageTime", "collective_time", "predict", "predict_eager", "product_of", "queued",
    "tiling_of",
]  # fmt: skip
