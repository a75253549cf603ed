"""Canonical text of a program: `check(to_text(p)).program == p`, and equal programs print the same bytes."""

from __future__ import annotations

import hashlib
from math import copysign

from .functions import TABLE
from .ir import Acc, Call, Expr, Gemm, Load, Number, Program, Transform

_LEVEL = {"add": 1, "sub": 1, "mul": 2, "div": 2, "neg": 3}
_ATOM = 4


def to_text(program: Program) -> str:
    """The program as its author would write it: one clause a line, clauses left to `auto` left out."""
    params = ", ".join(f"{p.name}: {p.type}" for p in program.params)
    results = ", ".join(map(str, program.result_types))
    if len(program.result_types) != 1:
        results = f"({results})"
    lines = [f"program {program.name}({params}) -> {results} {{"]
    if program.arch:
        lines.append(f"  arch {program.arch}")
    for s in program.stages:
        clauses = _gemm_clauses(s) if isinstance(s, Gemm) else _transform_clauses(s)
        operands = (s.a, s.b) if isinstance(s, Gemm) else (s.x,)
        head = f"  {s.name} = {'gemm' if isinstance(s, Gemm) else 'transform'}"
        head += f"({', '.join(o.name + ('.T' if o.transposed else '') for o in operands)})"
        lines += [f"{head} {{", *(f"    {c}" for c in clauses), "  }"] if clauses else [head]
    lines += [f"  return {', '.join(program.results)}", "}"]
    return "\n".join(lines) + "\n"


def digest(program: Program) -> str:
    """12 hex digits of the SHA-256 of the canonical text: the namespace of generated code."""
    return hashlib.sha256(to_text(program).encode()).hexdigest()[:12]


def _gemm_clauses(s: Gemm) -> list[str]:
    c = s.config
    out = []
    for word, value in (
        ("compute", c.compute and c.compute.value),
        ("tile", c.tile and "x".join(map(str, c.tile))),
        ("cluster", c.cluster and "x".join(map(str, c.cluster))),
        ("schedule", c.schedule),
        (
            "scheduler",
            c.scheduler and (f"split_k({c.scheduler.splits})" if c.scheduler.kind == "split_k" else c.scheduler.kind),
        ),
        ("stages", c.stages),
        ("swizzle", c.swizzle),
        ("backend", c.backend),
        ("store", s.store and s.store.value),
        ("epilogue", None if isinstance(s.epilogue, Acc) else expression(s.epilogue)),
    ):
        if value is not None:
            out.append(f"{word} {value}")
    return out


def _transform_clauses(s: Transform) -> list[str]:
    return ([f"to {s.to.value}"] if s.to else []) + (["prepack"] if s.prepack else [])


def expression(e: Expr) -> str:
    """An epilogue expression with no bracket that its meaning does not need."""
    return _expression(e)[0]


def _expression(e: Expr) -> tuple[str, int]:
    if isinstance(e, Acc):
        return "acc", _ATOM
    if isinstance(e, Number):
        # A negative literal binds like an atom: the parser folds a minus that touches its digits.
        return repr(float(e.value)), _ATOM
    if isinstance(e, Load):
        return (f"{e.name}[{', '.join(e.axes)}]" if e.axes else e.name), _ATOM
    return _call(e)


def _call(e: Call) -> tuple[str, int]:
    fn = TABLE[e.fn]
    level = _LEVEL.get(e.fn)
    if level is None:
        return f"{e.fn}({', '.join(_expression(a)[0] for a in e.args)})", _ATOM
    if e.fn == "neg":
        text, inner = _expression(e.args[0])
        plain_number = isinstance(e.args[0], Number) and copysign(1.0, e.args[0].value) > 0
        return f"-({text})" if inner < level or plain_number else f"-{text}", level
    (left, left_level), (right, right_level) = _expression(e.args[0]), _expression(e.args[1])
    left = f"({left})" if left_level < level else left
    right = f"({right})" if right_level <= level else right
    return f"{left} {fn.infix} {right}", level
