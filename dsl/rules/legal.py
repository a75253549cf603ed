"""The legal configurations of a stage: tile, cluster, schedule, scheduler, stages and swizzle, by shape and arch.

`objections` returns the rules that a configuration breaks on one back end; clauses that are `auto` (None) are not
checked. The checker reports them as errors, and the resolver searches for a configuration without any. The rules are
those of the back ends' libraries, with one module of `dsl.rules` for each kind of kernel.
"""

from __future__ import annotations

from types import ModuleType

from dsl.arch import ARCHS, DEFAULT
from dsl.ir import Config, DType, Gemm, Program, Recurrent
from dsl.rules import conv, normalized, rowmajor, simt, sm80, sm90, sm100
from dsl.rules.cute import cast_weight
from dsl.rules.problem import (
    BACKENDS,
    DIRECT_CHANNELS,
    MAX_SPLITS,
    MAX_STAGES,
    MIN_STAGES,
    SCHEDULERS,
    SCHEDULES,
    SWIZZLES,
    Objection,
    Problem,
    casts,
    compute_of,
    configured,
    dims,
    half_computed,
    is_direct,
    is_rowmajor,
    kib,
    problem_of,
    program_problem,
    triangle_side,
    types_of,
)
from dsl.rules.sm90 import MAX_ACCUMULATORS, accumulators, shared_memory

__all__ = [
    "ARCHS", "BACKENDS", "DIRECT_CHANNELS", "MAX_ACCUMULATORS", "MAX_SPLITS", "MAX_STAGES", "MIN_STAGES",
    "SCHEDULERS", "SCHEDULES", "SWIZZLES", "Objection", "Problem", "accumulators", "auto_stages", "backends",
    "best_first", "casts", "clusters", "compute_of", "configured", "dims", "half_computed", "is_direct", "is_rowmajor",
    "kib",
    "objections", "problem_of", "program_problem", "schedules", "shared_memory", "tiles", "tiles_for",
    "triangle_side", "types_of",
]  # fmt: skip


def rules_of(p: Problem) -> ModuleType:
    """The module with the rules of this problem."""
    if p.kind == "rowmajor":
        return rowmajor
    if p.casts:
        return cast_weight
    if p.compute is DType.F32:
        return simt
    if p.arch.name in ("sm_80", "sm_89"):
        return sm80
    if p.arch.name == "sm_100a":
        return sm100
    return conv if p.kind == "conv" else sm90


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule that this configuration breaks on `backend` (cute | cpp); clauses that are None are not checked."""
    return rules_of(p).objections(p, c, backend)


def backends(p: Problem, c: Config) -> tuple[str, ...]:
    """The back ends that take this configuration."""
    names = (c.backend,) if c.backend else BACKENDS
    return tuple(b for b in names if not objections(p, c, b))


def best_first(program: Program) -> tuple[str, ...]:
    """The back ends, the one to prefer first: `cute`, which builds in seconds, but for a recurrent stage, which `cpp`
    alone writes, and for a product of which `cpp` computes less (half the tiles of a triangle) or, in tf32, moves less
    (it normalises the result in the same kernel)."""
    if any(isinstance(s, Recurrent) for s in program.stages):
        return BACKENDS[::-1]
    if program.arch in (None, DEFAULT):
        products = [s for s in program.stages if isinstance(s, Gemm)]
        problems = [(s, program_problem(program, s)) for s in products if s.config.backend is None]
        if any(
            half_computed(p) or (p.compute is DType.TF32 and normalized.preferred(normalized.group(program, s)))
            for s, p in problems
        ):
            return BACKENDS[::-1]
    return BACKENDS


def tiles(compute: DType) -> list[tuple[int, int, int]]:
    """Tiles of a gemm on sm_90a worth proposing."""
    return list(simt.TILES) if compute is DType.F32 else sm90.tiles_of(compute)


def tiles_for(p: Problem) -> list[tuple[int, int, int]]:
    """Tiles of this problem worth proposing."""
    return rules_of(p).tiles(p)


def schedules(p: Problem) -> tuple[str | None, ...]:
    """The choices of `schedule auto`; (None,) if this kind of kernel has no schedules."""
    return rules_of(p).schedules(p)


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    """The choices of `cluster auto`."""
    return rules_of(p).clusters(p)


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """The value of `stages auto` for a tile and schedule; below the legal minimum if the tile does not fit."""
    return rules_of(p).auto_stages(p, tile, schedule)
