"""Rewrites of expressions: name repeated parts with `let`, replace the element, rename the axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dsl.ir import Acc, Call, Expr, Let, Load, Number, Ref

DEEPEST = 40  # calls in calls, before an operation adds its own; a text may nest 48 levels
MOST = 120  # of them, each as often as it is read: a chain of 20 celu, which reads its argument twice, has a million


def shared(exprs: list[Expr], fresh: Callable[[str], str]) -> tuple[tuple[Let, ...], list[Expr]]:
    """The parts that several places read, in order of dependence, and the expressions over them. `fresh` returns an
    unused name."""
    reads: Counter[Expr] = Counter(exprs)
    seen: set[Expr] = set()
    todo = list(exprs)
    while todo:
        e = todo.pop()
        if e in seen or not isinstance(e, Call):
            continue
        seen.add(e)
        reads.update(e.args)
        todo += e.args
    lets: list[Let] = []
    named: dict[Expr, Ref] = {}

    def build(e: Expr) -> Expr:
        if not isinstance(e, Call):
            return e
        if e not in named:
            call = Call(e.fn, tuple(build(a) for a in e.args))
            if reads[e] < 2 or all(isinstance(a, Number) for a in e.args):
                return call
            name = fresh("t")
            lets.append(Let(name, call))
            named[e] = Ref(name)
        return named[e]

    built = [build(e) for e in exprs]
    return tuple(lets), built


def deep(e: Expr) -> bool:
    """Return True if an expression nests or repeats so many calls that no more should join it: a long chain of
    operations, or a recurrence that is written out, goes on in a stage of its own."""
    todo, level, calls = [e], 0, 0
    while todo and level < DEEPEST and calls < MOST:
        todo, level = [a for x in todo if isinstance(x, Call) for a in x.args], level + 1
        calls += len(todo)
    return bool(todo)


def on(e: Expr, acc: Expr) -> Expr:
    """The expression with `acc` replaced."""
    if isinstance(e, Acc):
        return acc
    return Call(e.fn, tuple(on(a, acc) for a in e.args)) if isinstance(e, Call) else e


def along(e: Expr, x: str) -> Expr:
    """An expression of vectors in the form that a map of one of them needs."""
    if isinstance(e, Load):
        return Acc() if e.name == x else Load(e.name, ("n",) if e.axes else ())
    return Call(e.fn, tuple(along(a, x) for a in e.args)) if isinstance(e, Call) else e


def on_axes(e: Expr, named: dict[str, str]) -> Expr:
    """The expression with its loads on other axes: `named` gives the new name of each."""
    if isinstance(e, Load):
        return Load(e.name, tuple(named[a] for a in e.axes))
    return Call(e.fn, tuple(on_axes(a, named) for a in e.args)) if isinstance(e, Call) else e
