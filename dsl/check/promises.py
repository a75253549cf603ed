"""The results of a program beside the types that it promises after `->`: ways to keep a promise, or to change it."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

from dsl.axes import SPATIAL
from dsl.check.context import Context
from dsl.check.families import FAMILIES
from dsl.fixes import ChangeStage, DeclareResult, Help, ReturnView, SetClauses, help_of, or_else, written
from dsl.ir import NCHW, Pool, Stage, TensorType
from dsl.ir.views import view_strides
from dsl.tree import Word


def mismatch(ctx: Context, stage: Stage | None, name: Word, actual: TensorType, declared: TensorType) -> None:
    """Report that the result `name`, which `stage` writes, has another type than the program promises."""
    writer = ctx.writer.get(name.text, name.text)
    casts = stage is not None and "to" in FAMILIES[_word_of(stage)].clauses
    message = f"{name.text} is {actual}; the program promises {declared}"
    if actual.shape != declared.shape:
        ctx.error("E110", message, name.span, _of_shape(name.text, stage, actual, declared))
    elif actual.dtype is not declared.dtype:
        to = declared.dtype.value
        converted = help_of(f"to {to}", SetClauses((("to", to),)))
        if not casts:
            converted = help_of(f"store {to} in {writer}", SetClauses((("store", to),), writer))
        ctx.error("E110", message, name.span, or_else(converted, _promise(actual)))
    if actual.layout != NCHW and actual.shape == declared.shape:
        fix = SetClauses((("layout", NCHW) if casts else ("store", f"{declared.dtype.value} {NCHW}"),), writer)
        message = f"results are row-major; {name.text} is {actual.layout}"
        ctx.error("E111", message, name.span, help_of(f"{fix.text} in {writer}", fix))


def _of_shape(name: str, stage: Stage | None, actual: TensorType, declared: TensorType) -> Help | None:
    """A stage that gives the promised shape, and the promise of the actual one. The first way is the likelier one: axes
    of length 1 are the stage's, any other shape may be a slip after the arrow."""
    if isinstance(stage, Pool) and stage.window is None and declared.shape == actual.shape[:2]:
        over, op = ", ".join(SPATIAL[len(actual.shape) - 2]), {"avg": "mean"}.get(stage.op, stage.op)
        fix = ChangeStage("reduce", (("op", op), ("over", over)), ("window", "stride", "padding"))
        return or_else(help_of(f"{name} = reduce({stage.x.name}) {{ {written(fix.clauses)} }}", fix), _promise(actual))
    if not _is_view(actual, declared):
        return _promise(actual)
    view = "x".join(map(str, declared.shape))
    seen = help_of(f"return {name}_ after {name}_ = transform({name}) {{ view {view} }}", ReturnView(view))
    ones = [n for n in actual.shape if n > 1] == [n for n in declared.shape if n > 1]
    return or_else(seen, _promise(actual)) if ones else or_else(_promise(actual), seen)


def _is_view(a: TensorType, b: TensorType) -> bool:
    """Return True if one shape splits axes of the other, so that a view gives it."""
    ends, others = (set(accumulate((n for n in t.shape if n > 1), mul)) for t in (a, b))
    alike = ends <= others or others <= ends
    return alike and a.elements == b.elements and view_strides(a.shape, a.strides, b.shape) is not None


def _promise(actual: TensorType) -> Help:
    """The help that writes the type of a result after ->."""
    declared = str(TensorType(actual.dtype, actual.shape))
    return help_of(f"-> {declared}", DeclareResult(declared))


def _word_of(stage: Stage) -> str:
    """The keyword of a typed stage: gemm, conv2d, ..."""
    return getattr(stage, "word", None) or {"GroupedGemm": "grouped_gemm"}.get(
        type(stage).__name__, type(stage).__name__.lower()
    )
