"""Canonical text of a program: `check(to_text(p)).program == p`, and equal programs print the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import copysign

from dsl.functions import COMPARISONS, EVERY
from dsl.ir import (
    Acc,
    Attention,
    Call,
    Concat,
    Config,
    Conv,
    Expr,
    Gemm,
    GroupedGemm,
    Load,
    Map,
    Normalize,
    Number,
    Pool,
    Program,
    Recurrent,
    Reduce,
    Ref,
    Scan,
    Stage,
    Transform,
)

_LEVEL = {**dict.fromkeys(COMPARISONS, 0), "add": 1, "sub": 1, "mul": 2, "div": 2, "neg": 3}
_ATOM = 4
_WORDS = {
    Gemm: "gemm", GroupedGemm: "grouped_gemm", Transform: "transform", Map: "map", Reduce: "reduce",
    Normalize: "normalize", Scan: "scan", Pool: "pool", Attention: "attention", Concat: "concat",
    Recurrent: "recurrent",
}  # fmt: skip


def to_text(program: Program) -> str:
    """The canonical text: one clause a line; clauses that are `auto` are left out."""
    params = ", ".join(f"{p.name}: {p.type}" for p in program.params)
    results = ", ".join(map(str, program.result_types))
    if len(program.result_types) != 1:
        results = f"({results})"
    lines = [f"program {program.name}({params}) -> {results} {{"]
    if program.arch:
        lines.append(f"  arch {program.arch}")
    if program.graph:
        lines.append("  launch graph")
    if program.guard:
        lines.append("  guard f32")
    for _, head, clauses in canonical_stages(program):
        lines += [f"  {head} {{", *(f"    {c}" for c in clauses), "  }"] if clauses else [f"  {head}"]
    lines += [f"  return {', '.join(program.results)}", "}"]
    return "\n".join(lines) + "\n"


def canonical_stages(program: Program) -> Iterator[tuple[str, str, list[str]]]:
    """(name, `name = word(operands)`, clauses in their canonical order) of each stage."""
    for s in program.stages:
        operands = ", ".join(o.name + (".T" if o.transposed else "") for o in s.operands)
        yield s.name, f"{s.name} = {word_of(s)}({operands})", _clauses(s)


def digest(program: Program) -> str:
    """12 hex digits of the SHA-256 of the canonical text: the namespace of generated code."""
    return hashlib.sha256(to_text(program).encode()).hexdigest()[:12]


def word_of(stage: Stage) -> str:
    """The keyword of a stage: gemm, conv_transpose2d, ..."""
    return stage.word if isinstance(stage, Conv) else _WORDS[type(stage)]


# ---- clauses, in the order printed ----


def _clauses(s: Stage) -> list[str]:
    clauses: list[tuple[str, object]] = []
    if isinstance(s, Transform):
        return _texts(_transform(s))
    if isinstance(s, Attention):
        return _texts(_attention(s))
    if isinstance(s, Conv):
        clauses = _conv(s) + _config(s.config)
    elif isinstance(s, Gemm | GroupedGemm):
        clauses = [*_config(s.config), ("pairs", getattr(s, "pairs", False))]
    elif isinstance(s, Map):
        clauses = [("crop", _dims(s.crop)), ("from", _dims(s.start))]
    elif isinstance(s, Concat):
        clauses = [("over", s.over)]
    elif isinstance(s, Recurrent):
        clauses = [("op", s.op), ("order", s.order if s.order != "tb" else None), ("layer", s.layer or None)]
        clauses += [("compute", s.compute and s.compute.value), ("cluster", s.cluster and f"{s.cluster}x1x1")]
    elif isinstance(s, Reduce):
        clauses = [("op", s.op), ("over", ", ".join(s.over)), ("of", _unless_acc(s.of)), ("keepdim", s.keepdim)]
    elif isinstance(s, Normalize):
        clauses = [
            ("op", s.op), ("groups", s.groups if s.op == "groupnorm" else None),
            ("eps", repr(float(s.eps)) if s.eps != 1e-5 else None), ("over", ", ".join(s.over) or None),
            ("of", _unless_acc(s.of)),
        ]  # fmt: skip
    elif isinstance(s, Scan):
        clauses = [("op", s.op), ("over", ", ".join(s.over)), ("of", _unless_acc(s.of)), ("reverse", s.reverse)]
    elif isinstance(s, Pool):
        clauses = [("op", s.op), ("window", _dims(s.window) or "global")]
        clauses += [("stride", _dims(s.stride) if s.stride != s.window else None)] if s.window else []
        clauses += [("padding", _dims(s.padding) if any(s.padding) else None)]
        clauses += [("dilation", _dims(s.dilation) if set(s.dilation) != {1} else None)]
    tail = [
        *(("let", f"{x.name} = {expression(x.expr)}") for x in s.lets),
        *(("also", f"{x.name} = {expression(x.expr)}") for x in s.also),
        ("store", " ".join(w for w in (s.store and s.store.value, s.store_layout) if w) or None),
        ("epilogue", _unless_acc(s.epilogue)),
    ]
    return _texts(clauses + tail)


def _texts(clauses: list[tuple[str, object]]) -> list[str]:
    return [word if value is True else f"{word} {value}" for word, value in clauses if value not in (None, False)]


def _dims(sizes: tuple[int, ...] | None) -> str | None:
    return "x".join(map(str, sizes)) if sizes else None


def _unless_acc(e: Expr) -> str | None:
    return None if isinstance(e, Acc) and not e.second else expression(e)


def _config(c: Config) -> list[tuple[str, object]]:
    scheduler = c.scheduler and (
        f"split_k({c.scheduler.splits})" if c.scheduler.kind == "split_k" else c.scheduler.kind
    )
    return [
        ("compute", c.compute and c.compute.value), ("tile", _dims(c.tile)), ("cluster", _dims(c.cluster)),
        ("schedule", c.schedule), ("scheduler", scheduler), ("stages", c.stages), ("swizzle", c.swizzle),
        ("backend", c.backend),
    ]  # fmt: skip


def _conv(s: Conv) -> list[tuple[str, object]]:
    return [
        ("stride", _dims(s.stride) if set(s.stride) != {1} else None),
        ("padding", _dims(s.padding) if any(s.padding) else None),
        ("output_padding", _dims(s.output_padding) if any(s.output_padding) else None),
        ("dilation", _dims(s.dilation) if set(s.dilation) != {1} else None),
        ("groups", s.groups if s.groups != 1 else None),
    ]


def _attention(s: Attention) -> list[tuple[str, object]]:
    return [
        ("order", s.order if s.order != "bhmd" else None), ("heads", _dims(s.heads)),
        ("scale", repr(float(s.scale))), ("causal", s.causal),
    ]  # fmt: skip


def _transform(s: Transform) -> list[tuple[str, object]]:
    return [
        ("interleave", s.other is not None), ("view", _dims(s.view)), ("permute", _dims(s.permute)),
        ("pad", _dims(s.pad)), ("crop", _dims(s.crop)), ("layout", s.store_layout), ("to", s.to and s.to.value),
        ("prepack", s.prepack),
    ]  # fmt: skip


# ---- expressions ----


def expression(e: Expr) -> str:
    """The text of an expression without redundant brackets."""
    return _expression(e)[0]


def _expression(e: Expr) -> tuple[str, int]:
    if isinstance(e, Acc):
        return "acc2" if e.second else "acc", _ATOM
    if isinstance(e, Number):
        # A negative literal binds like an atom: the parser folds a minus that touches its digits.
        return repr(float(e.value)), _ATOM
    if isinstance(e, Load):
        return (f"{e.name}[{', '.join(e.places)}]" if e.axes else e.name), _ATOM
    if isinstance(e, Ref):
        return e.name, _ATOM
    return _call(e)


def _call(e: Call) -> tuple[str, int]:
    fn = EVERY[e.fn]
    level = _LEVEL.get(e.fn)
    if level is None:
        return f"{e.fn}({', '.join(_expression(a)[0] for a in e.args)})", _ATOM
    if e.fn == "neg":
        text, inner = _expression(e.args[0])
        plain_number = isinstance(e.args[0], Number) and copysign(1.0, e.args[0].value) > 0
        return f"-({text})" if inner < level or plain_number else f"-{text}", level
    (left, left_level), (right, right_level) = _expression(e.args[0]), _expression(e.args[1])
    left = f"({left})" if left_level < level or level == left_level == 0 else left
    right = f"({right})" if right_level <= level else right
    return f"{left} {fn.infix} {right}", level
