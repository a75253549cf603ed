"""The plan of a product for quack: operands, results and configuration, or a Refusal.

quack multiplies A (l, m, k) by B (l, n, k), or by B (l, k, n) with b_kn. Either of the last two axes may be contiguous,
so `.T` needs at most a view. Batches that share B are one tall product if the epilogue allows it; otherwise the shared
operand has a batch stride of 0.

quack's D is the element-wise result. A product of pairs and an `also` use a separate tile store. A reduction stores one
value for each tile and row (or column), and a small kernel combines them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsl.functions import REDUCTIONS
from dsl.ir import Call, DType, Expr, Gemm, GroupedGemm, Program, TensorType, expressions, gemm_shape, inlined, loads
from dsl.lower import Refusal
from dsl.lower.cute import expression, generated_kernels
from dsl.lower.cute.gemm import gemm_operands
from dsl.lower.cute.gemm.gemm_operands import CUTE, TAKEN, Frame, Input, view
from dsl.lower.cute.stage import Scratch, types_of
from dsl.rules import legal
from dsl.rules.cute.cast_weight import casts_weight

FLOATS8 = (DType.E4M3, DType.E5M2)


@dataclass(frozen=True)
class Result:
    """One result of the launch. `key`: its name in the epilogue's return; `value`: the text of its element.

    kind     D | store (a tile store) | row | column (a reduction within a tile).
    op       of a reduction: sum | max | logsumexp.
    partial  the text of the tensor that the launch writes; `whole`: the final tensor of a reduction.
    finish   the text of the object that combines the tiles; None if there is only one.
    """

    key: str
    tensor: str
    value: str
    kind: str
    partial: str
    whole: str = ""
    op: str = ""
    finish: str | None = None
    scratch: Scratch | None = None


@dataclass(frozen=True)
class GemmPlan:
    """The plan of a product. `a` and `b` are the texts of the operands for quack."""

    name: str
    frame: Frame
    k: int
    a: str
    b: str
    b_kn: bool
    inputs: tuple[Input, ...]
    results: tuple[Result, ...]
    body: expression.Body
    splits: int
    remark: str  # on the layout of the batch; "" if it is the usual one
    ragged: tuple[bool, bool]  # M and N are no multiples of the tile
    compute: DType = DType.F16  # what the tensor cores multiply
    watched: tuple[tuple[str, str], ...] = ()  # for each result that a guard checks: an argument's name, its value
    casts: bool = False  # the second operand is cast as it is read (dsl.rules.cute.cast_weight)


def plan_gemm(program: Program, stage: Gemm | GroupedGemm) -> GemmPlan:
    """The plan of a gemm or grouped gemm. Raises Refusal."""
    types = types_of(program)
    c = stage.config
    for clause in ("compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle"):
        if getattr(c, clause) is None:
            raise Refusal(
                "cute-unresolved", f"stage {stage.name} leaves {clause} to auto",
                "resolve the program first (dsl.resolve)",
            )  # fmt: skip
    _refuse_precision(stage, types)
    grouped = isinstance(stage, GroupedGemm)
    exprs = tuple(inlined(stage, e) for e in expressions(stage))
    frame, k, remark = _frame(program, stage, types, exprs)
    ta, tb = types[stage.a.name], types[stage.b.name]
    for operand, t in ((stage.a, ta), (stage.b, tb)):
        _aligned(operand.name, t.shape[-1] * t.dtype.bits // 8, "reads", t)
    names = set(TAKEN)
    inputs = gemm_operands.inputs(exprs, types, frame, names)
    named = [(stage.name, stage.epilogue, stage.type), *((x.name, x.expr, x.type) for x in stage.also)]
    keys = [gemm_operands.argument(name, names) for name, _, _ in named]
    body = expression.write_all(
        stage.lets,
        tuple(e.args[0] if _reduction(e) else e for _, e, _ in named),
        {key: i.text for key, i in inputs.items()},
        names,
    )
    if body.indexed and (frame.pairs or grouped):
        columns_text = "columns in pairs" if frame.pairs else "groups of rows"
        raise Refusal(
            "cute-indexed",
            f"stage {stage.name} uses the indices of an element among {columns_text}",
            "use a map below it",
        )
    results, part = [], 0
    for (name, e, t), key, value in zip(named, keys, body.values, strict=True):
        if _reduction(e):
            results.append(_reduced(stage, frame, name, key, value, e.fn, t, part))
            part += results[-1].scratch is not None
        else:
            results.append(_stored(stage, frame, name, key, value, t))
    checked = set(generated_kernels.watched_results(program, stage))
    watched = tuple((gemm_operands.argument("watched", names), r.value) for r in results if r.tensor in checked)
    if stage.config.scheduler.kind == "split_k" and all(r.kind != "D" for r in results):
        message = f"{stage.name} stores no whole result, which quack needs to split K"
        raise Refusal("cute-split-k", message, "write scheduler persistent")
    _refuse_config(program, stage)
    rank, fold = (frame.l if frame.rank3 else 0), frame.fold
    a = view(stage.a.name, ta, rank, fold) + (".mT" if stage.a.transposed else "")
    b = view(stage.b.name, tb, 0 if grouped else rank, False)
    splits = c.scheduler.splits if c.scheduler.kind == "split_k" else 1
    columns = frame.n * (2 if frame.pairs else 1)
    ragged = (grouped or frame.m % c.tile[0] != 0, columns % c.tile[1] != 0)
    return GemmPlan(
        stage.name, frame, k, a, b, not stage.b.transposed, tuple(inputs.values()), tuple(results), body, splits,
        remark, ragged, c.compute, watched, legal.casts(stage, types),
    )  # fmt: skip


def _reduction(e: Expr) -> bool:
    return isinstance(e, Call) and e.fn in REDUCTIONS


def _frame(program, stage, types, exprs) -> tuple[Frame, int, str]:
    """The frame, K, and a remark on the layout of the batch."""
    ta, tb = types[stage.a.name], types[stage.b.name]
    if isinstance(stage, GroupedGemm):
        rows, k = ta.shape
        n = tb.shape[-2 if stage.b.transposed else -1]
        return Frame(stage.name, 1, rows, n, grouped=True), k, f"{tb.shape[0]} groups of rows"
    s = gemm_shape(program, stage)
    n = s.n // 2 if stage.pairs else s.n
    batched = max(len(ta.shape), len(tb.shape)) > 2
    axes = {load.axes for e in exprs for load in loads(e)}
    # Batch and rows can be one axis if no tensor is indexed by only one of them.
    free = axes <= {(), ("n",), ("l", "m"), ("l", "m", "n")} and not any(map(_by_row, exprs))
    if batched and len(tb.shape) == 2 and not stage.a.transposed and free:
        remark = f"the {s.l} batches share {stage.b.name}: one product of {s.l * s.m:,} rows"
        return Frame(stage.name, 1, s.l * s.m, n, fold=True, pairs=stage.pairs), s.k, remark
    remark = ""
    if batched and (len(ta.shape) == 2 or len(tb.shape) == 2):
        shared = stage.b.name if len(tb.shape) == 2 else stage.a.name
        remark = f"every batch reads the same {shared}: its batch stride is 0"
    return Frame(stage.name, s.l, s.m, n, rank3=batched, pairs=stage.pairs), s.k, remark


def _by_row(e: Expr) -> bool:
    """Return True if an expression needs the row index of an element within its batch."""
    if not isinstance(e, Call):
        return False
    return e.fn in (*expression.INDEXED, "col_sum") or any(map(_by_row, e.args))


def _stored(stage, f: Frame, name: str, key: str, value: str, t: TensorType) -> Result:
    if t.dtype not in CUTE:
        raise Refusal(
            "cute-dtype", f"quack stores f32, f16 and bf16, not {t.dtype.value}", "write store f16, bf16 or f32"
        )
    _aligned("the result", f.n * t.dtype.bits // 8, "writes", t)
    if f.pairs and t.dtype.bits != 16:
        raise Refusal(
            "cute-pairs-store", f"quack stores pairs of columns as f16 or bf16, not {t.dtype.value}", "write store f16"
        )
    main = name == stage.name and not f.pairs
    text = view(name, t, f.l if f.rank3 else 0, f.fold)
    return Result("D" if main else key, name, value, "D" if main else "store", text)


def _reduced(stage, f: Frame, name: str, key: str, value: str, fn: str, t: TensorType, part: int) -> Result:
    tile_m, tile_n, _ = stage.config.tile
    lead = (f.l,) if f.rank3 else ()
    if fn == "col_sum":
        if f.grouped:
            raise Refusal(
                "cute-grouped-columns", f"{name} adds rows over all groups; quack keeps groups apart",
                "store the product and add its rows in a reduce",
            )  # fmt: skip
        tiles, step = -(-f.m // tile_m), 2 if f.pairs else 1
        if tiles * step == 1:
            return Result(key, name, value, "column", f"{name}.view({', '.join(map(str, (*lead, 1, f.n)))})", op="sum")
        shape = (*lead, tiles, f.n * step)
        finish = f"Columns({'' if step == 1 else step})"
        kind, op = "column", "sum"
    else:
        tiles = -(-f.n * (2 if f.pairs else 1) // tile_n)
        kind, op = "row", {"row_sum": "sum", "row_max": "max", "row_logsumexp": "logsumexp"}[fn]
        if tiles == 1:
            return Result(key, name, value, kind, f"{name}.view({', '.join(map(str, (*lead, f.m, 1)))})", op=op)
        shape, finish = (*lead, f.m, tiles), f'Rows("{op}", {tiles})'
    scratch = Scratch(f"partial{part}", DType.F32, shape)
    return Result(key, name, value, kind, f"{stage.name}_{scratch.suffix}", name, op, finish, scratch)


def _aligned(name: str, size: int, does: str, t: TensorType) -> None:
    if size % 16:
        raise Refusal(
            "cute-alignment", f"rows of {name} are {size:,} bytes; TMA {does} rows of a multiple of 16",
            f"make its last axis a multiple of {128 // t.dtype.bits}",
        )  # fmt: skip


def _refuse_precision(stage, types: dict[str, TensorType]) -> None:
    compute = stage.config.compute
    if compute not in (DType.TF32, DType.F16, DType.BF16, *FLOATS8, DType.I8):
        raise Refusal(
            "cute-compute", f"quack multiplies on the tensor cores of sm_90a, which have no {compute.value}",
            "write compute f16",
        )  # fmt: skip
    read = DType.F32 if compute is DType.TF32 else compute
    casts = isinstance(stage, Gemm) and casts_weight(stage.a, types[stage.a.name], stage.b, types[stage.b.name])
    for side in (stage.a,) if casts else (stage.a, stage.b):
        dtype = types[side.name].dtype
        if dtype is not read and not (dtype in FLOATS8 and compute in FLOATS8):
            raise Refusal(
                "cute-operand",
                f"compute {compute.value} reads {read.value} operands, and {side.name} is {dtype.value}",
                f"{side.name}_c = transform({side.name}) {{ to {read.value} }}",
            )
    if compute not in (DType.F16, DType.BF16) and (stage.a.transposed or not stage.b.transposed):
        raise Refusal(
            "cute-k-major",
            f"tensor cores read {compute.value} along K only: the first operand without .T, the second with .T",
            f"store {stage.b.name} as [n, k] and read it with .T",
        )  # fmt: skip


def _refuse_config(program: Program, stage) -> None:
    c = stage.config
    if c.scheduler.kind == "stream_k":
        raise Refusal(
            "cute-stream-k",
            "quack has no stream_k scheduler; the `cpp` back end has",
            "write scheduler persistent or split_k(n)",
        )
    broken = legal.objections(legal.program_problem(program, stage), c, "cute")
    if broken:
        raise Refusal("cute-config", f"stage {stage.name}: {broken[0].message}", "leave the clause to auto")
