"""The clauses of every stage but a transform: let, also, epilogue and store."""

from __future__ import annotations

from dataclasses import dataclass

from dsl import arch as arches
from dsl.check.context import Clauses, Context
from dsl.check.expressions import Expressions
from dsl.check.space import Space
from dsl.diagnostics import listing
from dsl.fixes import Help, Rewrite, help_of, leave_clause, or_else, write_clause
from dsl.functions import REDUCTIONS
from dsl.ir import Acc, Also, Call, DType, Expr, Let, TensorType
from dsl.tree import ClauseNode, RefNode, StageNode

TAIL = ("let", "also", "store", "epilogue")
RESERVED = ("acc", "acc2", "inf", "auto", "program", "arch", "launch", "guard", "return")


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


def another_name(name: str) -> Help:
    """The help for a word of the language that stands where a new name is due."""
    return help_of(f"for example `{name}_`", Rewrite(f"{name}_"))


def expressions(ctx: Context, node: StageNode, space: Space | None) -> Expressions:
    """A checker of this stage's expressions. Call `record_reads` when all of them are checked."""
    own = frozenset(c.value.name.text for c in node.clauses if c.keyword.text == "also")
    return Expressions(node.name.text, dict(ctx.types), ctx.later, ctx.report, space, own, ctx.closest)


def record_reads(ctx: Context, node: StageNode, checker: Expressions) -> None:
    """Add the names that the stage's expressions read to the context."""
    ctx.used |= checker.used
    ctx.reads[node.name.text] |= checker.used


def read_tail(
    ctx: Context,
    node: StageNode,
    clauses: Clauses,
    space: Space | None,
    natural: TensorType | None,
    stores: tuple[DType, ...] = arches.FLOATS,
) -> Tail:
    """Read let, also, epilogue and store.

    `natural` is the type of the result with the epilogue `acc` and without a store clause; `stores` are the element
    types that this stage can store.
    """
    rank = len(natural.shape) if natural else None
    dtype, layout, ok = ctx.store(clauses, rank)
    if dtype is not None and dtype not in stores:
        names = listing([t.value for t in stores])
        ctx.error("E123", f"{node.op.text} stores {names}, not {dtype.value}", clauses["store"].span)
        ok = False
    checker = expressions(ctx, node, space)
    lets = _lets(ctx, node, checker)
    also = [(c, checker.check(c.value.expr, "result")) for c in node.clauses if c.keyword.text == "also"]
    epilogue: Expr = Acc(span=node.span)
    c = clauses.get("epilogue")
    if c is not None and not is_auto(c):
        epilogue = checker.check(c.value)
    checker.unread()
    record_reads(ctx, node, checker)

    reduced = _over(epilogue)
    result = None
    if natural is not None and ok:
        result = TensorType(dtype or natural.dtype, natural.shape, layout or natural.layout)
        if reduced and space is not None and not space.product:
            result = None  # reported; what the stage after it reduces to is open
        elif reduced:
            result = _reduced(natural, reduced)
            if dtype not in (None, DType.F32) or layout:
                message = f"{node.name.text} is a reduction, which gives f32"
                help = or_else(write_clause("store", "f32"), leave_clause("store"))
                ctx.error("E123", message, clauses["store"].span, help)
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


def _lets(ctx: Context, node: StageNode, checker: Expressions) -> tuple[Let, ...]:
    lets = []
    for c in node.clauses:
        if c.keyword.text != "let":
            continue
        name = c.value.name
        defined = name.text in checker.parts or name.text in ctx.types or name.text == node.name.text
        expr = checker.let(name.text, c.value.expr, name.span)
        if name.text in RESERVED:
            ctx.error("E114", f"`{name.text}` is a word of the language", name.span, another_name(name.text))
        elif defined:
            ctx.error("E102", f"`{name.text}` is already defined", name.span, "each name is written once")
            checker.parts[name.text].read = True
        lets.append(Let(name.text, expr))
    return tuple(lets)


def is_auto(c: ClauseNode) -> bool:
    """Return True for `epilogue auto`, which is the same as no epilogue."""
    return isinstance(c.value, RefNode) and c.value.name.text == "auto" and c.value.axes is None


def _over(e: Expr) -> str | None:
    """The axis that the outermost reduction of an expression reduces; None without a reduction."""
    return REDUCTIONS[e.fn].over if isinstance(e, Call) and e.fn in REDUCTIONS else None


def _reduced(natural: TensorType, over: str) -> TensorType:
    shape = natural.shape
    return TensorType(DType.F32, shape[:-1] if over == "n" else (*shape[:-2], shape[-1]))
