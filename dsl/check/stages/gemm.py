"""gemm and grouped_gemm: operands, pairs, and their configurations."""

from __future__ import annotations

from dataclasses import replace

from dsl import arch as arches
from dsl.axes import matrix_axes
from dsl.check.configure import check_config, read_config
from dsl.check.context import Clauses, Context, Typed, spans
from dsl.check.shapes import aligned, product_shape
from dsl.check.space import Space
from dsl.check.tail import TAIL, Tail, read_tail
from dsl.fixes import DeclareParameter, SetClauses, help_of
from dsl.ir import NCHW, DType, Gemm, GroupedGemm, TensorType, expressions, loads
from dsl.tree import StageNode

CONFIG = ("compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle", "backend")
GEMM_CLAUSES = (*CONFIG, "pairs", *TAIL)
GROUPED_CLAUSES = (*CONFIG, *TAIL)


def gemm(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Gemm:
    """The typed stage; its `type` is None after an error."""
    (a, ta), (b, tb) = operands
    shape = None if ta is None or tb is None else product_shape("gemm", a, ta, b, tb, ctx.error)
    pairs = "pairs" in clauses
    if pairs and shape is not None:
        if shape[-1] % 2:
            message = f"pairs combines two columns into one; this product has {shape[-1]:,}"
            ctx.error("E314", message, clauses["pairs"].span, "make N even")
            shape = None
        else:
            shape = (*shape[:-1], shape[-1] // 2)
    space = None if shape is None else Space(shape, matrix_axes(len(shape)), product=True, pairs=pairs)
    tail = read_tail(ctx, node, clauses, space, _natural(ctx, node, clauses, ta, shape))
    config = read_config(clauses, ctx.error)
    stage = Gemm(
        name=node.name.text, a=a, b=b, config=config, pairs=pairs, span=node.span, clauses=spans(node), **tail.fields
    )
    return _configured(ctx, stage, tail)


def grouped_gemm(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> GroupedGemm:
    """The typed stage of [T, K] x [E, K, N] with E group sizes that sum to T; its `type` is None after an error."""
    (a, ta), (b, tb), (sizes, ts) = operands
    shape = None
    ok = True
    if a.transposed:
        ctx.error("E104", "the rows of the first operand are grouped; it is read without .T", a.span)
        ok = False
    if ta is not None and len(ta.shape) != 2:
        ctx.error("E104", f"the first operand is [T, K], all groups' rows; {a.name} is {ta}", a.span)
        ok = False
    if tb is not None and len(tb.shape) != 3:
        ctx.error("E104", f"the second operand is [E, K, N], one matrix a group; {b.name} is {tb}", b.span)
        ok = False
    if ts is not None and (sizes.transposed or ts.dtype is not DType.I32 or len(ts.shape) != 1):
        ctx.error("E104", f"the third operand is i32[E], the rows of each group; {sizes.name} is {ts}", sizes.span)
        ok = False
    elif ok and ts is not None and tb is not None and ts.shape[0] != tb.shape[0]:
        message = f"{sizes.name} has {ts.shape[0]:,} sizes; {b.name} has {tb.shape[0]:,} matrices"
        declared = f"i32[{tb.shape[0]}]"
        help = help_of(f"declare {sizes.name}: {declared}", DeclareParameter(sizes.name, declared))
        ctx.error("E105", message, sizes.span, help)
        ok = False
    if ok and ta is not None and tb is not None:
        flat = replace(tb, shape=tb.shape[1:])
        shape = product_shape("grouped_gemm", a, ta, b, flat, ctx.error)
    space = None if shape is None else Space(shape, matrix_axes(2))
    tail = read_tail(ctx, node, clauses, space, _natural(ctx, node, clauses, ta, shape))
    config = read_config(clauses, ctx.error)
    stage = GroupedGemm(
        name=node.name.text, a=a, b=b, sizes=sizes, config=config, span=node.span, clauses=spans(node), **tail.fields
    )
    return _configured(ctx, stage, tail) if ts is not None else replace(stage, type=None)


def _natural(ctx: Context, node: StageNode, clauses: Clauses, ta, shape) -> TensorType | None:
    """The type of the result without a store clause: that of the operands. None after an error."""
    if shape is None:
        return None
    dtype = ta.dtype
    if dtype in arches.BYTES:
        c = clauses.get("store")
        if c is None or not any(w.text in [t.value for t in arches.FLOATS] for w in c.value):
            message = f"a product of {dtype.value} needs a store clause"
            help = help_of("store f16, bf16 or f32", SetClauses((("store", "f16"),)))
            ctx.error("E123", message, c.span if c else node.span, help)
            return None
        dtype = DType.F16  # the store clause replaces it
    return TensorType(dtype, shape, NCHW)


def _configured(ctx: Context, stage: Gemm | GroupedGemm, tail: Tail) -> Gemm | GroupedGemm:
    """The stage itself, after checking its alignment and configuration."""
    if stage.type is None:
        return stage
    ready = all(ctx.types.get(x.name) is not None for e in expressions(stage) for x in loads(e))
    fits = aligned(stage, ctx.types, ctx.error)
    if fits and ready and ctx.arch is not None:
        check_config(ctx.arch, stage, ctx.types, ctx.error)
    return stage
