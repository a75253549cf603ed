"""Rewrites of expressions: what is computed twice is named by a `let`; the same over another element or other axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dsl.ir import Acc, Call, Expr, Let, Load, Number, Ref


def shared(exprs: list[Expr], fresh: Callable[[str], str]) -> tuple[tuple[Let, ...], list[Expr]]:
    """The parts that several places read, in the order in which they need each other, and the expressions over them.
    `fresh` answers a name that nothing has yet."""
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
            made = Call(e.fn, tuple(build(a) for a in e.args))
            if reads[e] < 2 or all(isinstance(a, Number) for a in e.args):
                return made
            name = fresh("t")
            lets.append(Let(name, made))
            named[e] = Ref(name)
        return named[e]

    built = [build(e) for e in exprs]
    return tuple(lets), built


def on(e: Expr, acc: Expr) -> Expr:
    """The expression over another element."""
    if isinstance(e, Acc):
        return acc
    return Call(e.fn, tuple(on(a, acc) for a in e.args)) if isinstance(e, Call) else e


def along(e: Expr, x: str) -> Expr:
    """An expression of vectors as a map of one of them has it."""
    if isinstance(e, Load):
        return Acc() if e.name == x else Load(e.name, ("n",) if e.axes else ())
    return Call(e.fn, tuple(along(a, x) for a in e.args)) if isinstance(e, Call) else e


def on_axes(e: Expr, named: dict[str, str]) -> Expr:
    """The expression with its loads on other axes: `named` gives the new name of each."""
    if isinstance(e, Load):
        return Load(e.name, tuple(named[a] for a in e.axes))
    return Call(e.fn, tuple(on_axes(a, named) for a in e.args)) if isinstance(e, Call) else e
