"""What every stage but a transform ends with: let, also, epilogue, and the type in which the result is stored."""

from __future__ import annotations

from dataclasses import dataclass

from dsl import arch as arches
from dsl.check.context import Clauses, Context
from dsl.check.expressions import Expressions, Space
from dsl.diagnostics import listing
from dsl.functions import REDUCTIONS
from dsl.ir import Acc, Also, Call, DType, Expr, Let, TensorType
from dsl.tree import ClauseNode, RefNode, StageNode

TAIL = ("let", "also", "store", "epilogue")
RESERVED = ("acc", "acc2", "auto", "program", "arch", "launch", "guard", "return")


@dataclass(frozen=True)
class Tail:
    """The common fields of ir.StageBase; `type` is None after an error."""

    epilogue: Expr
    lets: tuple[Let, ...]
    also: tuple[Also, ...]
    store: DType | None
    store_layout: str | None
    type: TensorType | None

    @property
    def fields(self) -> dict:
        names = ("epilogue", "lets", "also", "store", "store_layout", "type")
        return {n: getattr(self, n) for n in names}


def expressions(ctx: Context, node: StageNode, space: Space | None) -> Expressions:
    """A checker of this stage's expressions; `keep` hands what they read to the context."""
    own = frozenset(c.value.name.text for c in node.clauses if c.keyword.text == "also")
    return Expressions(node.name.text, dict(ctx.types), ctx.later, ctx.report, space, own, ctx.closest)


def keep(ctx: Context, node: StageNode, found: Expressions) -> None:
    ctx.used |= found.used
    ctx.reads[node.name.text] |= found.used


def read_tail(
    ctx: Context,
    node: StageNode,
    clauses: Clauses,
    space: Space | None,
    natural: TensorType | None,
    stores: tuple[DType, ...] = arches.FLOATS,
) -> Tail:
    """Reads let, also, epilogue and store. `natural`: the result were the epilogue `acc` and nothing said of store;
    `stores`: the element types that this stage can store."""
    rank = len(natural.shape) if natural else None
    dtype, layout, ok = ctx.store(clauses, rank)
    if dtype is not None and dtype not in stores:
        names = listing([t.value for t in stores])
        ctx.error("E123", f"{node.op.text} stores {names}, not {dtype.value}", clauses["store"].span)
        ok = False
    found = expressions(ctx, node, space)
    lets = _lets(ctx, node, found)
    also = [(c, found.check(c.value.expr, "result")) for c in node.clauses if c.keyword.text == "also"]
    epilogue: Expr = Acc(span=node.span)
    c = clauses.get("epilogue")
    if c is not None and not is_auto(c):
        epilogue = found.check(c.value)
    found.unread()
    keep(ctx, node, found)

    reduced = _over(epilogue)
    result = None
    if natural is not None and ok:
        result = TensorType(dtype or natural.dtype, natural.shape, layout or natural.layout)
        if reduced:
            result = _reduced(natural, reduced)
            if dtype not in (None, DType.F32) or layout:
                message = f"{node.name.text} is a reduction, which gives f32"
                ctx.error("E123", message, clauses["store"].span, "store f32, or leave store out")
                result = None
    extras = []
    for c, expr in also:
        over = _over(expr)
        t = None
        if natural is not None and result is not None:
            t = _reduced(natural, over) if over else TensorType(result.dtype, natural.shape, layout or natural.layout)
        name = c.value.name
        extras.append(Also(name.text, expr, t, name.span))
    return Tail(epilogue, lets, tuple(extras), dtype, layout, result)


def _lets(ctx: Context, node: StageNode, found: Expressions) -> tuple[Let, ...]:
    lets = []
    for c in node.clauses:
        if c.keyword.text != "let":
            continue
        name = c.value.name
        taken = name.text in found.parts or name.text in ctx.types or name.text == node.name.text
        expr = found.let(name.text, c.value.expr, name.span)
        if name.text in RESERVED:
            ctx.error("E114", f"`{name.text}` is a word of the language", name.span, f"for example `{name.text}_`")
        elif taken:
            ctx.error("E102", f"`{name.text}` is already defined", name.span, "each name is written once")
            found.parts[name.text].read = True
        lets.append(Let(name.text, expr))
    return tuple(lets)


def is_auto(c: ClauseNode) -> bool:
    """`epilogue auto`: as if it were left out."""
    return isinstance(c.value, RefNode) and c.value.name.text == "auto" and c.value.axes is None


def _over(e: Expr) -> str | None:
    """The axis that a reduction at the top of an expression leaves out."""
    return REDUCTIONS[e.fn].over if isinstance(e, Call) and e.fn in REDUCTIONS else None


def _reduced(natural: TensorType, over: str) -> TensorType:
    shape = natural.shape
    return TensorType(DType.F32, shape[:-1] if over == "n" else (*shape[:-2], shape[-1]))
