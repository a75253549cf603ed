"""scan: running sums and products along one axis (E112, E119, E120)."""

from __future__ import annotations

from dsl.check.context import Clauses, Context, Typed, spans
from dsl.check.space import Space
from dsl.check.stages.generated import axes_over, both_axes, element_expression, number_input, operation
from dsl.check.tail import TAIL, read_tail
from dsl.fixes import write_clause
from dsl.ir import SCANS, Scan
from dsl.tree import StageNode

SCAN_CLAUSES = ("op", "over", "of", "reverse", *TAIL)


def scan(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Scan:
    """The typed stage; `type` is None after an error."""
    (x, t) = operands[0]
    t = number_input(ctx, node, x, t)
    op = operation(ctx, node, clauses, SCANS, ("op", "sum"), ("over", "n"))
    over, at = axes_over(ctx, node, clauses, t)
    if at is not None and len(at) > 1:
        what = ", ".join(over) if len(over) > 1 else f"{over[0]}, which is {len(at)} axes"
        help = write_clause("over", over[-1]) if len(over) > 1 else "view the axes as one first"
        ctx.error("E119", f"scan runs along one axis, not {what}", clauses["over"].span, help)
        at = None
    of = element_expression(ctx, node, clauses, t)
    space = None
    if t is not None:
        space = Space(t.shape, both_axes(len(t.shape)), whole=True, spoken="running value", before=True)
    tail = read_tail(ctx, node, clauses, space, t if at is not None and op is not None else None)
    return Scan(
        name=node.name.text, x=x, op=op or "sum", over=over, of=of, reverse="reverse" in clauses, span=node.span,
        clauses=spans(node), **tail.fields,
    )  # fmt: skip


__all__ = ["SCAN_CLAUSES", "scan"]
