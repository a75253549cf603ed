"""Configurations worth trying for a product or a convolution, the most promising first.

Every legal combination of tile, cluster, schedule, scheduler and swizzle (dsl.rules.legal decides) is priced by the
tile and wave model of sol, which takes some 10 us each. If nvMatmulHeuristics is installed, its candidates are marked
as a second opinion. Its times are not used, because most of its list has the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from dsl.ir import Collective, Config, DType, Gemm, GemmShape, Program, Scheduler
from dsl.rules import legal
from sol.attainable import alone_ms, collective_time, joined_with, product_of
from sol.hardware import Hardware
from sol.model.tiles import Product, TileTime, Tiling, tiles_of

CLUSTERS = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1))
SPLITS = (2, 3, 4, 6, 8, 16, 32, 64, 128)
CLAUSES = ("tile", "cluster", "schedule", "scheduler", "swizzle")
WORSE = 1.5  # nothing is tried around a program whose predicted time is more than this factor above the best one's


@dataclass(frozen=True)
class Ranked:
    """A configuration with its predicted time, of the stage alone."""

    config: Config
    time: TileTime
    advised: bool = False  # nvMatmulHeuristics names its tile and cluster too

    @property
    def ms(self) -> float:
        return self.time.ms


def key(config: Config) -> tuple:
    """The key of a trial's configuration: every clause but the operand precision and the back end."""
    return tuple(getattr(config, c) for c in (*CLAUSES, "stages"))


def rank(program: Program, stage: Collective, hw: Hardware, backend: str) -> list[Ranked]:
    """Every legal configuration of the stage for a back end, fastest by the model first. Clauses that the stage's
    configuration fixes stay."""
    problem = legal.program_problem(program, stage)
    priced, joined = product_of(program, stage), joined_with(program, stage)
    advice = {a[:2] for a in heuristics(problem.shape, problem.compute)} if isinstance(stage, Gemm) else set()
    apart: tuple[Product, float] | None = None  # the product without what it could join, and the time of that
    out = []
    for config in _enumerate(problem, stage.config, priced, hw.sms, backend):
        one = replace(stage, config=config)
        if joined is None or joined_with(program, one) is not None:
            time = collective_time(program, one, hw, priced)
        else:
            apart = apart or (product_of(program, one), alone_ms(program, joined, hw))
            time = collective_time(program, one, hw, apart[0])
            time = replace(time, ms=time.ms + apart[1])
        advised = bool(advice) and (config.tile[:2], config.cluster[:2]) in advice
        out.append(Ranked(config, time, advised))
    if backend == "cute":  # quack groups tiles as widely as possible
        out.sort(key=lambda r: (round(r.ms, 6), not r.advised, -(r.config.swizzle or 0), repr(key(r.config))))
    else:  # among equals of the model prefer tall tiles and no groups: measured, they are as fast or faster
        out.sort(
            key=lambda r: (
                round(200 * math.log(r.ms)), not r.advised, -(r.config.tile[0]), r.config.swizzle or 0, r.ms,
                repr(key(r.config)),
            )
        )  # fmt: skip
    return out


def _enumerate(p: legal.Problem, fixed: Config, priced: Product, sms: int, backend: str) -> Iterator[Config]:
    """The legal configurations."""
    if p.kind == "rowmajor":
        for tile in [fixed.tile] if fixed.tile else legal.tiles_for(p):
            stages = fixed.stages or legal.auto_stages(p, tile, None)
            config = replace(fixed, tile=tile, stages=stages)
            if stages >= legal.MIN_STAGES and not legal.objections(p, config, backend):
                yield config
        return
    k = 1024 // p.compute.bits
    deep = [t for t in legal.tiles_for(p) if t[2] == k] or legal.tiles_for(p)
    tiles = [fixed.tile] if fixed.tile else deep
    for tile, schedule in product(tiles, [fixed.schedule] if fixed.schedule else legal.SCHEDULES):
        # Clauses that are None are not checked, so what is illegal without the others is illegal with each of them.
        begun = replace(fixed, tile=tile, schedule=schedule, cluster=None, scheduler=None, swizzle=None)
        if legal.objections(p, begun, backend):
            continue
        grid = p.shape.l * tiles_of(priced, Tiling(tile, scheduler="stream_k"))
        short = min(-(-p.shape.m // tile[0]), -(-p.shape.n // tile[1]))
        schedulers = [Scheduler("persistent")]
        if p.kind == "gemm" and (grid < 2 * sms or priced.triangle):  # more than two waves gain nothing from a split K
            schedulers.append(Scheduler("stream_k"))
        if p.kind == "gemm" and grid < 2 * sms:
            schedulers += [Scheduler("split_k", s) for s in SPLITS if grid * s <= 4 * sms]
        swizzles = [s for s in legal.SWIZZLES if s <= max(1, short)]
        clusters = CLUSTERS if p.kind == "gemm" else legal.clusters(p)
        for cluster in [fixed.cluster] if fixed.cluster else clusters:
            if legal.objections(p, clustered := replace(begun, cluster=cluster), backend):
                continue
            for scheduler in [fixed.scheduler] if fixed.scheduler else schedulers:
                for i, swizzle in enumerate([fixed.swizzle] if fixed.swizzle else swizzles):
                    config = replace(clustered, scheduler=scheduler, swizzle=swizzle)
                    # Every swizzle that is enumerated is as legal as the others.
                    if i == 0 and legal.objections(p, config, backend):
                        break
                    yield config


def seeds(ranked: list[Ranked], how_many: int) -> list[Ranked]:
    """The best of each (tile, cluster) pair, and one of them advised by nvMatmulHeuristics when there is one."""
    out: list[Ranked] = []
    seen = set()
    for r in ranked:
        shape = (r.config.tile[:2], r.config.cluster)
        if shape not in seen:
            seen.add(shape)
            out.append(r)
    best = out[:how_many]
    if best and not any(r.advised for r in best):
        advised = next((r for r in out if r.advised and r.ms < 1.5 * best[0].ms), None)
        if advised:
            best[-1:] = [advised]
    return best


def neighbours(ranked: list[Ranked], config: Config, tried: set[tuple] = frozenset()) -> list[Ranked]:
    """Configurations that differ from `config` in one clause: the clause that was varied least (by the keys in `tried`)
    first, then by predicted time, because the model prices swizzles and clusters much alike and the device does not."""
    near = [r for r in ranked if 0 < _steps(r.config, config) <= 1]
    varied: dict[str, int] = {}
    for r in near:
        if key(r.config)[:5] in tried:
            clause = _clause(r.config, config)
            varied[clause] = varied.get(clause, 0) + 1
    return sorted(near, key=lambda r: varied.get(_clause(r.config, config), 0))


def around(ranked: list[Ranked], config: Config | None, tried: set[tuple]) -> Iterator[tuple[Ranked, bool]]:
    """What to try next around `config`: its neighbours (True), then the rest of the ranking (False). What was tried and
    what the model expects to be far worse than the best is left out. `config` None: the ranking alone."""
    near = neighbours(ranked, config, tried) if config else []
    beside = {id(r) for r in near}
    for r in (*near, *(r for r in ranked if id(r) not in beside)):
        if key(r.config)[:5] not in tried and r.ms <= WORSE * ranked[0].ms:
            yield r, id(r) in beside


def _clause(a: Config, b: Config) -> str:
    """The first clause in which two configurations differ."""
    return next((c for c in CLAUSES if getattr(a, c) != getattr(b, c)), "")


def _steps(a: Config, b: Config) -> int:
    """The number of clauses that differ. A tile more than one step away on either side counts as far."""
    if a.tile != b.tile and a.tile and b.tile and sum(map(_far, a.tile, b.tile)) > 1:
        return 9
    return sum(getattr(a, c) != getattr(b, c) for c in CLAUSES)


def _far(x: int, y: int) -> float:
    big, small = max(x, y), min(x, y)
    return 0 if big == small else 1 if big <= 2 * small else 9


def change(old: Config | None, new: Config) -> str:
    """The differences in one line: `tile 128x128x64 -> 128x256x64, cluster 1x1x1 -> 2x1x1`."""
    parts = []
    for c in CLAUSES:
        before, after = (getattr(old, c) if old else None), getattr(new, c)
        if before != after and after is not None:
            parts.append(f"{c} {_say(before)} -> {_say(after)}" if before is not None else f"{c} {_say(after)}")
    return ", ".join(parts) or "every choice left to the compiler"


def _say(value: object) -> str:
    if isinstance(value, tuple):
        return legal.dims(value)
    if isinstance(value, Scheduler):
        return f"split_k({value.splits})" if value.kind == "split_k" else value.kind
    return str(value)


def distinct(items: Iterable[Ranked]) -> list[Ranked]:
    out, seen = [], set()
    for r in items:
        if key(r.config) not in seen:
            seen.add(key(r.config))
            out.append(r)
    return out


@lru_cache(maxsize=256)
def heuristics(shape: GemmShape, compute: DType) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """(tile MxN, cluster MxN) that nvMatmulHeuristics advises on an H200, without duplicates; () if it is not installed
    or has no answer. It runs on the CPU, 20 ms the first time and 2 ms per query after."""
    try:
        import nvMatmulHeuristics as nmh
    except ImportError:
        return ()
    try:
        interface = nmh.NvMatmulHeuristicsInterfaceEx(
            backend=nmh.NvMatmulHeuristicsTarget.CUTLASS3,
            flags=nmh.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
            load_discovery_implicitly=True,
            gpu=nmh.NvMatmulHeuristicsNvidiaGpu["H200_SXM"],
        )
        backend = interface.createBackend(nmh.NvMatmulHeuristicsTarget.CUTLASS3)
        layout = nmh.NvMatmulHeuristicsMatmulLayout.TN_ROW_MAJOR
        problem = interface.makeNvMatmulHeuristicsProblem(shape.m, shape.n, shape.k, layout, shape.l)
        precision = {DType.TF32: "SSS", DType.F16: "HSH", DType.BF16: "TST"}.get(compute, "HSH")
        kernels = [c["kernel"] for c in interface.getEx(problem, 8, backend, precision=precision)]
    except Exception:  # it is only a second opinion, and the search continues without it
        return ()
    return tuple(dict.fromkeys(((k.cta_tile_m, k.cta_tile_n), (k.cluster_m, k.cluster_n)) for k in kernels))
