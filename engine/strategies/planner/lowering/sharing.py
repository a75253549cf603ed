"""Expressions as trees become expressions with parts: what is computed twice is named by a `let`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dsl.ir import Call, Expr, Let, Number, Ref


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
