"""The meaning of a program in PyTorch: the typed IR run stage by stage, rounded as the hardware rounds.

For use without a GPU: the operands of a product are rounded as the tensor cores round them, products accumulate in f32,
the epilogue is evaluated in f32, and the result is rounded to its stored type. With `exact` nothing is rounded and
everything is float64, the ideal that the program approximates. (Two properties of the hardware are not modelled: the
order of f32 sums, and the 14 bits or so in which Hopper's tensor cores add up fp8 products.)

A guarded program (dsl.guard) whose conversions meet values that f16 does not hold computes its rescue pipeline instead.
Here, chunks are 256 elements each, cut from the tensor row by row (for a result that is rounded when stored: in memory
order); kernels cut chunks along the elements of a warp.

A tensor keeps PyTorch's shape whatever its layout, so a change of layout computes nothing here. A stage's sizes come
from the given tensors, so the same program runs on fewer rows or smaller images; pads, crops and views scale with them
(see engine.evaluate.correctness.stage_meanings). Needs torch; only for workers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dsl.axes import axes_of
from dsl.check.program import check
from dsl.guard import CHUNK, HIGH, LOW, conversions, rescue, roomy
from dsl.ir import NHWC, DType, Map, Program, Recurrent, Reduce, Stage, Transform
from dsl.lower.plan.rescue import chosen
from dsl.narrowed import watched_stores
from dsl.rules import legal
from engine.evaluate.correctness import recurrent_meaning, stage_meanings
from engine.evaluate.correctness.expressions import FUNCTIONS, REDUCTIONS, Scope
from engine.evaluate.correctness.rounding import DTYPES, TORCH, stored, truncate_tf32

__all__ = ["FUNCTIONS", "TORCH", "checked_program", "run", "truncate_tf32"]


def checked_program(text: str) -> Program:
    """The typed program of a text. Raises ValueError if it fails its checks."""
    checked = check(text)
    if checked.program is None:
        raise ValueError(f"not a checked program: {checked.diagnostics[0].message}")
    return checked.program


def run(program: Program, inputs: Sequence[torch.Tensor], *, exact: bool = False) -> list[torch.Tensor]:
    """Results of a checked program on tensors in parameter order. Raises ValueError for an impossible shape.

    With `exact`, results of floating point types are float64; integers keep their type.
    """
    env = _parameters(program, inputs, exact)
    if _all(program, env, exact) is not None:
        return run(chosen(program), inputs)
    return [env[name] for name in program.results]


def tripped(program: Program, inputs: Sequence[torch.Tensor]) -> str | None:
    """The first tensor of a guarded program that trips its guard on these inputs, or None."""
    return _all(program, _parameters(program, inputs, False), False) if program.guard else None


def ranges(program: Program, inputs: Sequence[torch.Tensor]) -> dict[str, tuple[float, float]]:
    """Of each result in a guarded program that f16 holds narrowly or not: the least and the greatest of its chunks'
    largest magnitudes in f32, without chunks of zeros. A result with a NaN or an infinity is left out."""
    env = _parameters(program, inputs, False)
    _all(rescue(program), env, False)
    seen = {}
    for name in (n for s in program.stages for n in (s.name, *(a.name for a in s.also)) if n in env):
        x = env[name]
        if not x.is_floating_point() or x.dim() < 2:  # a cast has the range of what it casts
            continue
        most = _most(_in_memory(program, name, x))
        most = most[most != 0]
        if most.numel() and most.isfinite().all():
            least, greatest = most.min().item(), most.max().item()
            if not roomy(least, greatest):
                seen[name] = least, greatest
    return seen


def _parameters(program: Program, inputs: Sequence[torch.Tensor], exact: bool) -> dict[str, torch.Tensor]:
    if len(inputs) != len(program.params):
        raise ValueError(f"{program.name} takes {len(program.params)} tensors; {len(inputs)} given")
    pairs = zip(program.params, inputs, strict=True)
    return {p.name: _wide(x) if exact else x.to(TORCH[p.type.dtype]) for p, x in pairs}


def _all(program: Program, env: dict[str, torch.Tensor], exact: bool) -> str | None:
    """Compute every stage's results into `env` until a tensor trips the guard; return that tensor's name."""
    # By PyTorch's default, cuDNN's convolutions may use TF32; here every rounding is ours.
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for stage in program.stages:
            looks = program.guard and not exact
            names = conversions(program, stage) if looks else ()
            raised = next((name for name in names if trips(env[name])), None) or _run(stage, env, program, exact, looks)
            if raised is not None:
                return raised
    return None


def trips(x: torch.Tensor) -> bool:
    """Return True if f32 `x` trips a guard: a chunk's largest magnitude is neither 0 nor in f16's good range."""
    most = _most(x)
    return bool(((most != 0) & ~((most >= LOW) & (most <= HIGH))).any())


def _in_memory(program: Program, name: str, x: torch.Tensor) -> torch.Tensor:
    """A result with its axes in the order of memory."""
    return x.movedim(1, -1) if program.type_of(name).layout == NHWC else x


def _most(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude of each chunk; NaN where there is one. The last chunk has the first elements as well."""
    x = x.reshape(-1).abs()
    x = torch.cat([x, x[: -x.numel() % CHUNK]])
    return torch.nn.functional.pad(x, (0, -x.numel() % CHUNK)).view(-1, CHUNK).amax(1)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float64) if x.dtype.is_floating_point or x.dtype is torch.int8 else x


def _run(stage: Stage, env: dict[str, torch.Tensor], program: Program, exact: bool, looks: bool) -> str | None:
    """Compute a stage's results into `env`; return the one that tripped the guard when stored (`looks`: there is a
    guard)."""
    if isinstance(stage, Transform):
        x = stage_meanings.transform(stage, env, program)
        env[stage.name] = x if exact or stage.to is None else stored(x, stage.to)
        return None
    if isinstance(stage, Recurrent):
        sequence, *last = recurrent_meaning.recurrent(stage, env, exact)
        results = {stage.name: sequence, **{a.name: last[a.expr.second] for a in stage.also}}
        env |= {name: x if exact else stored(x, stage.type.dtype) for name, x in results.items()}
        return None
    rounds = not exact and legal.is_rowmajor(stage, legal.types_of(program))
    whole = program.type_of(stage.x.name).shape if isinstance(stage, Map) and stage.crop else ()
    acc, second = stage_meanings.compute(stage, env, exact, rounds, whole)
    if isinstance(stage, Reduce):
        if stage.op == "argmax":
            env[stage.name] = acc
            return None
        axes = stage_meanings.axes_left(stage, env[stage.x.name].dim())
    else:
        axes = axes_of(stage, acc.dim())
    scope = Scope(acc, axes, env, second)
    scope.define(stage)
    names = [(x.name, x.expr) for x in stage.also] + [(stage.name, stage.epilogue)]
    watched = watched_stores(program, stage) if looks else ()
    for name, expr in names:
        x = scope.result(expr)
        if name in watched and trips(_in_memory(program, name, x)):
            return name
        reduced = getattr(expr, "fn", None) in REDUCTIONS
        env[name] = x if exact else stored(x, DType.F32 if reduced else _stored_type(stage, env))
    return None


def _stored_type(stage: Stage, env: dict[str, torch.Tensor]) -> DType:
    """The stored element type. `type` may be that of a reduced result; then the elements' type is that of the clause or
    operand."""
    if stage.store is not None:
        return stage.store
    if stage.type is not None and getattr(stage.epilogue, "fn", None) not in REDUCTIONS:
        return stage.type.dtype
    return DTYPES[env[stage.operands[0].name].dtype]
