"""Fill in each `auto` with the configuration that a simple model of waves and bandwidth predicts to be fastest.

The search space is every configuration that `dsl.rules.legal` accepts; configurations that both back ends take come
first, and the clauses that the author wrote stay. The model gives a reasonable default; sol.attainable guides searches.

  waves    output tiles over the SMs that clusters can fill, rounded up;
  step     one K step of a tile: the longer of its tensor-core time and its share of L2 bandwidth, where a cluster's
           multicast divides the operand that its blocks share;
  tail     writing a tile; pingpong hides it under the next tile's mainloop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from dsl import guard
from dsl.arch import DEFAULT
from dsl.functions import REDUCTIONS
from dsl.ir import Attention, Call, Config, Conv, DType, Gemm, Program, Recurrent, Scheduler, Stage
from dsl.rules import folds, legal, normalized, rowmajor
from dsl.rules.recurrent.layout import compute_of, layout_of

# One H200 SM at 1.755 GHz: dense tensor-core FLOP/s by precision, and its share of L2 bandwidth (bytes/s).
_FLOPS = {
    DType.F32: 66.9e12 / 132, DType.TF32: 494.7e12 / 132, DType.F16: 989.4e12 / 132, DType.BF16: 989.4e12 / 132,
    DType.E4M3: 1978.9e12 / 132, DType.E5M2: 1978.9e12 / 132, DType.I8: 1978.9e12 / 132,
}  # fmt: skip
_L2 = 5.5e12 / 132
TF32_L2 = 1.4  # factor on the L2 bandwidth in tf32: 256x128 tiles in clusters of two reach 410 TFLOP/s without stalls
_L2_HOLDS = 0.7 * 50e6  # bytes that stay in L2 from wave to wave
_MEMORY = 4.2e12  # bytes/s
DEEP, FEW = 8, 4  # least K steps of a split, and least number of splits that is worth a second kernel
_LAUNCH = 1.5e-6  # exposed prologue and epilogue of a tile, seconds


def resolve(program: Program, sm_count: int = 132) -> Program:
    """The same program with every `auto` but `backend` filled in, for a device of `sm_count` SMs.

    Raises ValueError if a stage has no legal configuration; every stage of a checked program has one.
    """
    program = replace(program, arch=program.arch or DEFAULT)
    forced = {s.config.backend for s in program.stages if hasattr(s, "config")} - {None}
    forced |= set(guard.writers(program)) if program.guard else set()
    forced |= {"cute"} if any(isinstance(s, Attention) for s in program.stages) else set()
    forced |= {"cpp"} if any(isinstance(s, Recurrent) for s in program.stages) else set()
    # One back end builds the whole program: first try configurations that both take, unless one of them has a better
    # kernel, then those of one.
    both = [legal.BACKENDS] if legal.best_first(program) == legal.BACKENDS else []
    ways = [tuple(forced)] if forced else [*both, ("cpp",), ("cute",)]
    for backends in ways:
        stages = [_resolve(program, s, backends, sm_count) for s in program.stages]
        if None not in stages:
            return replace(program, stages=tuple(stages))
    raise ValueError(f"program {program.name} has no legal configuration; run it through dsl.check.program first")


def _resolve(program: Program, s: Stage, backends: tuple[str, ...], sm_count: int) -> Stage | None:
    """The stage with a configuration that all `backends` take; None if there is none."""
    types = legal.types_of(program)
    if isinstance(s, Recurrent):
        return replace(s, compute=compute_of(s, types), cluster=layout_of(s, types).cluster)
    if not legal.configured(s, types):
        return replace(s, config=replace(s.config, compute=DType.F32)) if isinstance(s, Conv) else s
    problem = legal.program_problem(program, s)
    config = _normalized(program, s, problem, backends, sm_count) or _folded(program, s, problem, backends, sm_count)
    config = config or complete(problem, replace(s.config, backend=None), sm_count, backends)
    reduced = isinstance(s.epilogue, Call) and s.epilogue.fn in REDUCTIONS
    store = s.store if reduced else s.store or s.type.dtype
    return config and replace(s, config=replace(config, backend=s.config.backend), store=store)


def _normalized(
    program: Program, s: Stage, p: legal.Problem, backends: tuple[str, ...], sm_count: int
) -> Config | None:
    """The configuration of a product that is fused with the norm that reads it: a tile of whole groups.

    None if the back end does not fuse the two, or if the author wrote the tile, schedule or scheduler.
    """
    if backends != ("cpp",) or not isinstance(s, Gemm) or p.arch.name != DEFAULT or _written(s.config):
        return None
    return _first(p, s.config, normalized.preferred(normalized.group(program, s)), sm_count, backends)


def _folded(program: Program, s: Stage, p: legal.Problem, backends: tuple[str, ...], sm_count: int) -> Config | None:
    """The configuration of a convolution that is fused with what folds its channels: a tile of all channels.

    None if `cute` does not fuse the two, or if the author wrote the tile, schedule or scheduler.
    """
    if "cute" not in backends or not isinstance(s, Conv) or p.kind != "conv" or _written(s.config):
        return None
    reader = folds.reader(program, s)
    return _first(p, s.config, folds.preferred(s, reader) if reader else (), sm_count, backends)


def _written(c: Config) -> bool:
    return bool(c.tile or c.schedule or (c.scheduler and c.scheduler.kind != "persistent"))


def _first(p: legal.Problem, c: Config, ways, sm_count: int, backends: tuple[str, ...]) -> Config | None:
    """The first legal configuration of these tiles and schedules."""
    for tile, schedule in ways:
        request = replace(c, backend=None, tile=(*tile, 1024 // p.compute.bits), schedule=schedule)
        config = complete(p, request, sm_count, backends)
        if config is not None:
            return config
    return None


# `complete` and `possible` look at thousands of configurations, and a search asks about the same few stages again with
# every program that it checks, resolves and predicts.
@lru_cache(maxsize=4096)
def complete(
    p: legal.Problem, c: Config, sm_count: int = 132, backends: tuple[str, ...] | None = None
) -> Config | None:
    """`c` with every None but `backend` filled in; None if no legal configuration agrees with `c`.

    All of `backends` take the result. Without `backends`, a configuration that more back ends take is preferred.
    """
    # A tile K other than one swizzle atom is tried only if nothing else is legal.
    if c.tile:
        return _best(p, c, [c.tile], sm_count, backends)
    tiles = legal.tiles_for(p)
    atom = [t for t in tiles if t[2] == 1024 // p.compute.bits and p.kind != "rowmajor"]
    return (atom and _best(p, c, atom, sm_count, backends)) or _best(p, c, tiles, sm_count, backends)


@lru_cache(maxsize=4096)
def possible(p: legal.Problem, c: Config) -> bool:
    """Return True if `complete` finds a configuration; much cheaper than `complete`."""
    if c.tile:
        return any(legal.backends(p, x) for x in _candidates(p, c, [c.tile]))
    return any(legal.backends(p, x) for x in _candidates(p, c, legal.tiles_for(p)))


def _best(p: legal.Problem, c: Config, tiles: list, sm_count: int, backends: tuple[str, ...] | None) -> Config | None:
    """The fastest legal completion over these tiles; completions that more back ends take come first."""
    second: Config | None = None
    needed = len(backends or ((c.backend,) if c.backend else legal.BACKENDS))
    for candidate in sorted(_candidates(p, c, tiles, sm_count), key=lambda x: (seconds(p, x, sm_count), _second(p, x))):
        able = legal.backends(p, candidate)
        if set(backends or ()) <= set(able):
            if len(able) >= needed:
                return candidate
            second = second or (candidate if able else None)
    return second


def _candidates(
    p: legal.Problem, c: Config, tiles: list[tuple[int, int, int]], sm_count: int = 132
) -> Iterator[Config]:
    for tile in tiles:
        for schedule in [c.schedule] if c.schedule else legal.schedules(p):
            stages = c.stages or legal.auto_stages(p, tile, schedule)
            if stages < legal.MIN_STAGES:
                continue
            for cluster in [c.cluster] if c.cluster else legal.clusters(p):
                if p.kind == "rowmajor":
                    yield replace(c, compute=p.compute, tile=tile, stages=stages)
                    continue
                swizzle = c.swizzle or _swizzle(p, tile)
                for scheduler in [c.scheduler] if c.scheduler else _schedulers(p, tile, cluster, schedule, sm_count):
                    yield replace(
                        c, compute=p.compute, tile=tile, cluster=cluster, schedule=schedule, scheduler=scheduler,
                        stages=stages, swizzle=swizzle,
                    )  # fmt: skip


def _schedulers(
    p: legal.Problem, tile: tuple[int, int, int], cluster: tuple[int, int, int], schedule: str | None, sm_count: int
) -> Iterator[Scheduler]:
    """The schedulers to try.

    Always persistent. With few tiles and a deep K also split-K with as many splits as fill the SMs. For a triangle also
    stream-K, because its number of tiles is no multiple of the number of SMs.
    """
    yield Scheduler("persistent")
    use = p.epilogue
    if p.kind != "gemm" or schedule != "cooperative" or use.reductions or use.pairs:
        return
    if legal.half_computed(p):  # only `cpp` skips the tiles of the other triangle
        yield Scheduler("stream_k")
    tiles = _tiles(p, tile, cluster)
    splits = min(sm_count // tiles, legal.MAX_SPLITS, p.shape.k // (DEEP * tile[2]))
    if splits >= FEW:
        yield Scheduler("split_k", splits)


def _tiles(p: legal.Problem, tile: tuple[int, int, int], cluster: tuple[int, int, int]) -> int:
    """The number of output tiles, rounded up to whole clusters."""
    (m, n, _), (cm, cn, _) = tile, cluster
    rows, columns = -(-p.shape.m // (m * cm)), -(-p.shape.n // (n * cn))
    half = legal.half_computed(p) and p.arch.name == DEFAULT
    half = half and legal.triangle_side(p.shape.m, p.shape.n, tile, cluster)
    return p.shape.l * cm * cn * (rows * (rows + 1) // 2 if half else rows * columns)


def _swizzle(p: legal.Problem, tile: tuple[int, int, int]) -> int:
    """The number of tiles grouped for reuse in L2.

    A wave walks the shorter side of the grid, so without groups every wave reads that side's operand again: from L2 if
    it fits, else from memory. In tf32 no groups are needed if it fits, or if the products take twice as long as the
    reads. Otherwise the group follows CUTLASS's thresholds on the shorter side.
    """
    rows, columns = -(-p.shape.m // tile[0]), -(-p.shape.n // tile[1])
    short = min(rows, columns)
    if p.compute is DType.TF32 and p.kind == "gemm":  # `cpp`; quack groups in its own way
        size = (p.shape.m if rows < columns else p.shape.n) * p.shape.k * p.compute.bits / 8
        again = size * max(1.0, p.shape.l * rows * columns / 132) / _MEMORY
        products = 2.0 * p.shape.l * p.shape.m * p.shape.n * p.shape.k / (132 * _FLOPS[p.compute])
        if size <= _L2_HOLDS or 2 * again <= products:
            return 1
    return 8 if short >= 6 else 4 if short >= 3 else 2 if short >= 2 else 1


def _second(p: legal.Problem, c: Config) -> tuple[float, int]:
    """The tie-breaker in tf32: the fewest operand bytes a block after multicast, then a tall tile before a wide one.

    A tall tile takes 1.34 ms and a wide one 1.36 ms for 16384 x 4096 x 4096 on an H200.
    """
    if p.compute is not DType.TF32 or p.kind != "gemm":
        return 0.0, 0
    (m, n, _), (cm, cn, _) = c.tile, c.cluster
    return m / cn + n / cm, -m


def seconds(p: legal.Problem, c: Config, sm_count: int = 132) -> float:
    """The predicted run time of a complete configuration, in seconds; the module's docstring describes the model."""
    if p.kind == "rowmajor":
        return rowmajor.seconds(p, c, sm_count)
    m, n, k = c.tile
    cm, cn, _ = c.cluster
    tiles = _tiles(p, c.tile, c.cluster)
    splits = c.scheduler.splits
    slots = max(1, sm_count // (cm * cn)) * cm * cn
    waves = -(-tiles * splits // slots)
    if c.scheduler.kind == "stream_k":
        waves = tiles / slots
    # wgmma reads its 64-row A slice and its B tile from shared memory: 128 bytes a cycle, N / 2 cycles an instruction.
    sliced, width = 64, n
    if p.compute is DType.TF32 and p.transposes:
        # An A slice contiguous along M goes through registers element by element, five times as slowly. If only b does
        # not lie along K, the kernel computes the transposed result (dsl.lower.cpp.gemm.gemm_3x).
        sliced, width = 320, m if p.a_along_k else n
    starved = max(1.0, (sliced + width) / (2 * width))
    math = 2 * m * n * k / _FLOPS[p.compute] * starved
    load = (m / cn + n / cm) * k * p.compute.bits / 8 / (_L2 * (TF32_L2 if p.compute is DType.TF32 else 1.0))
    store = m * n * (p.epilogue.store_bits + sum(p.epilogue.full_bits)) / 8 / (_L2 / 2)
    tail = (store + _LAUNCH) * (0.3 if c.schedule == "pingpong" else 1.0)
    steps = -(-p.shape.k // (k * splits))
    sums = 8 * splits * p.shape.m * p.shape.n / (132 * _L2) + 2e-6 if splits > 1 else 0.0  # write, read, add
    return waves * (max(math, load) * steps + tail) + sums
