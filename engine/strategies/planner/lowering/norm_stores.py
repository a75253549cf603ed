"""A norm stores what it reads: h = x + r and norm(h) in one stage where both are needed.

Every block of a transformer adds its result to the residual stream, normalises the sum, and reads the sum again later.
As two stages the sum is written and read once more; the norm has it in registers (`acc2`) and stores it beside its own
result. All results of a stage have one element type, so this is for modules in f16 and bf16: in an f32 module the
sum must keep f32, and the norm's result, which products read, is better rounded as it is stored.

And a norm computes what lies between it and a product (`late`), so that the product can store its own sum in half
precision, as torch.autocast does: a sigmoid, for example, leaves values so close to each other that to round them costs
more than twice the error that PyTorch has, and a norm reads a product's result from memory in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from dsl.ir import Acc, Call, Expr, Load, loads
from engine.strategies.planner.lowering.drafts import (
    Convolution,
    Draft,
    Elementwise,
    Normalization,
    Product,
    Source,
    reference,
    stage_of,
)
from engine.strategies.planner.lowering.lowering_context import key, unkey

_HALF = ("f16", "bf16")
_LINEAR = {"add", "sub", "mul", "div", "neg"}  # in these the rounding of a stored result is as large as that of its sum
Moved = dict[str, str]


def stored_by_norms(drafts: Sequence[Draft], results: list[str], move: Callable[[Draft, Moved], None]) -> list[str]:
    """Let norms store the sums that they read; returns the module's results by their new references. `move` renames
    the references that a draft reads."""
    for j, norm in enumerate(drafts):
        if not isinstance(norm, Normalization) or not norm.outs or norm.dtype not in _HALF:
            continue
        i = _sum_of(drafts, j, results)
        if i is None:
            continue
        whole, before = drafts[i], Load(key(reference(i), norm.shape), norm.names)
        norm.outs = [_with(e, before, Acc(second=True)) for e in norm.outs]
        norm.x, norm.of = whole.x, whole.outs[0]
        moved: Moved = {}
        others = [draft for draft in drafts if draft is not norm]
        if reference(i) in results or any(reference(i) in other.read() for other in others):
            norm.outs.append(Acc(second=True))
            moved = {reference(i): reference(j, len(norm.outs) - 1)}
        for other in others:
            move(other, moved)
        results = [moved.get(r, r) for r in results]
    return results


def late(drafts: Sequence[Draft], results: Sequence[str]) -> tuple[Draft, ...]:
    """The drafts with what lies between a product and the norm that alone reads it computed by the norm."""
    drafts = [copy(draft) for draft in drafts]
    for norm in drafts:
        at = stage_of(norm.x.of) if isinstance(norm, Normalization) else None
        if at is None or norm.x != Source(reference(at), drafts[at].shape):
            continue
        product = drafts[at]
        alone = reference(at) not in results and all(
            reference(at) not in other.read() for other in drafts if other is not norm
        )
        if not alone or not isinstance(product, Product | Convolution) or norm.of != Acc():
            continue
        if len(product.outs) != 1 or product.names != norm.names or not _bends(product.outs[0]):
            continue
        if not any(unkey(x.name)[0] == reference(at) for e in norm.outs for x in loads(e)):
            norm.of, product.outs = product.outs[0], [Acc()]
    return tuple(drafts)


def _bends(e: Expr) -> bool:
    return isinstance(e, Call) and (e.fn not in _LINEAR or any(map(_bends, e.args)))


def _sum_of(drafts: Sequence[Draft], j: int, results: Sequence[str]) -> int | None:
    """The draft that stores what norm `j` reads, if nothing that reads it comes before the norm."""
    norm = drafts[j]
    for i, whole in enumerate(drafts):
        if not isinstance(whole, Elementwise) or len(whole.outs) != 1 or whole.start is not None:
            continue
        if whole.dtype != norm.dtype:
            continue
        again = norm.x == whole.x and norm.of == whole.outs[0]
        if whole.shape != norm.shape or not (again or (norm.x.of == reference(i) and isinstance(norm.of, Acc))):
            continue
        readers = [k for k, draft in enumerate(drafts) if k != j and reference(i) in draft.read()]
        parts = [x for e in norm.outs for x in loads(e) if unkey(x.name)[0] == reference(i)]
        in_place = all(x == Load(key(reference(i), norm.shape), norm.names) for x in parts)
        if (readers or parts or reference(i) in results) and not _before(drafts, j) & set(readers) and in_place:
            return i
    return None


def _before(drafts: Sequence[Draft], j: int) -> set[int]:
    """The drafts that draft `j` waits for."""
    before: set[int] = set()
    todo = [j]
    while todo:
        more = {stage_of(name) for name in drafts[todo.pop()].read()} - {None} - before
        before |= more
        todo += more
    return before


def _with(e: Expr, old: Expr, new: Expr) -> Expr:
    """An expression with each `old` in it replaced."""
    if e == old:
        return new
    return replace(e, args=tuple(_with(a, old, new) for a in e.args)) if isinstance(e, Call) else e
