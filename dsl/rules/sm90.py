"""Products on sm_90a: TMA and warp-group instructions, one or two warp groups a tile.

The rules are those of CUTLASS 3.x (`sm90_gemm_tma_warpspecialized_{cooperative,pingpong}.hpp`) and quack
(`gemm_sm90.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dsl.ir import Config, DType
from dsl.rules import smem
from dsl.rules.cute import quack
from dsl.rules.problem import MAX_SPLITS, MAX_STAGES, MIN_STAGES, SCHEDULES, Objection, Problem, dims, kib, swizzle

# Accumulator registers a thread may hold. A thread has 240 registers; addresses and the epilogue need the rest.
MAX_ACCUMULATORS = 208
# Legal N of a tf32 `x @ w` tile on `cpp`, which computes the transposed result, so N takes the place of M
# (dsl.lower.cpp.gemm.gemm_3x).
TRANSPOSED_N = {"pingpong": (64, 128), "cooperative": (128, 256)}


def accumulators(tile: tuple[int, int, int], schedule: str) -> int:
    """f32 accumulators of a thread. pingpong has one warp group for a tile, cooperative two (three at M = 192)."""
    m, n, _ = tile
    groups = 1 if schedule == "pingpong" or m == 64 else (3 if m == 192 and n <= 128 else 2)
    return m * n // (128 * groups)


def _tile(p: Problem, tile: tuple[int, int, int], backend: str) -> Iterator[Objection]:
    m, n, k = tile
    inst = p.arch.instruction_k[p.compute]
    if m % p.arch.instruction_m or not 64 <= m <= 256:
        yield Objection("E203", "tile", f"tile M is {m}; one instruction covers 64 rows, so M is 64, 128, 192 or 256")
    elif m == 192 and backend == "cpp":
        yield Objection("E203", "tile", f"tile M 192 with {p.compute.value} is more than the `cpp` back end takes")
    if n % 16 or not 16 <= n <= 256:
        yield Objection("E203", "tile", f"tile N is {n}; it must be a multiple of 16 from 16 to 256")
    if k % inst or not inst <= k <= 256:
        yield Objection(
            "E203",
            "tile",
            f"tile K is {k}; {p.compute.value} instructions take K in steps of {inst}, from {inst} to 256",
        )


def _only_here(p: Problem, c: Config, backend: str) -> Iterator[Objection]:
    """Rules of one back end only; its refusals are in dsl.lower."""
    if backend == "cute" and c.stages is not None and c.tile and c.schedule:
        yield from unfilled(p, shared_memory(p, c.tile, c.schedule), c.stages)
    if backend == "cute" and p.b_along_n and c.tile and c.tile[0] == 192 and c.tile[1] > 128:
        # CuTe DSL 4.8.1 aborts: two warp groups cannot split the N of a tile that is contiguous along N.
        note = "store the second operand as [n, k] and read it with .T, or keep N to 128"
        yield Objection(
            "E203", "tile", f"tile {dims(c.tile[:2])} splits N, which the second operand lies along", (note,)
        )
    if backend == "cpp" and p.compute is DType.TF32 and p.free_major and c.tile and c.tile[2] != 32:
        yield Objection("E203", "tile", f"tf32 operands that both lie along M and N need tile K 32; K is {c.tile[2]}")
    elif backend == "cpp" and p.compute is DType.TF32 and c.tile and c.tile[2] < 32 and p.transposes:
        # Such an operand goes through registers, and CUTLASS asserts at least three instructions along K in that loop.
        note = "with the first operand as [m, k] and the second as [n, k], read with .T, every K passes"
        message = f"a tf32 operand that does not lie along K needs tile K 32 or more; K is {c.tile[2]}"
        yield Objection("E203", "tile", message, (note,))
    if p.compute is DType.TF32 and c.tile and c.tile[1] % 32 and c.tile[1] != 16:
        # CuTe slices the stage that TMA fills from a swizzled layout, and asserts that whole patterns divide it.
        yield Objection("E203", "tile", f"a tf32 tile needs N of 16 or in steps of 32; N is {c.tile[1]}")
    if backend == "cpp" and c.tile and c.stages and sliced(p, c.tile, c.stages) != c.stages:
        note = f"N {c.tile[1]} by K {c.tile[2]} is half a swizzle pattern, and CUTLASS takes stages out of whole ones"
        message = (
            f"a tf32 tile with N 16 and K up to 32 needs an even number of stages on `cpp`; this one has {c.stages}"
        )
        yield Objection("E210", "stages", message, (note,))
    transposed = backend == "cpp" and p.compute is DType.TF32 and p.a_along_k and p.b_along_n
    if transposed and c.tile and c.schedule in TRANSPOSED_N and c.tile[1] not in TRANSPOSED_N[c.schedule]:
        # The kernel computes the transposed result, so the warp groups split N instead of M.
        allowed = " or ".join(map(str, TRANSPOSED_N[c.schedule]))
        yield Objection(
            "E203",
            "tile",
            f"tf32 with a second operand that lies along N splits the tile's N: a {c.schedule} tile needs N {allowed}; "
            f"N is {c.tile[1]}",
            ("store the second operand as [n, k] and read it with .T for every N",),
        )


def _schedule(tile: tuple[int, int, int], schedule: str, backend: str) -> Iterator[Objection]:
    m, n, _ = tile
    if schedule == "cooperative" and m < 128:
        yield Objection("E207", "schedule", f"cooperative splits a tile between two warp groups of 64 rows; M is {m}")
    if schedule == "cooperative" and m == 192 and n % 32:
        yield Objection("E207", "schedule", f"a cooperative tile with M 192 needs N in steps of 32; N is {n}")
    if schedule == "pingpong" and m not in (64, 128, 192):
        yield Objection(
            "E207", "schedule", f"pingpong gives each warp group a whole tile of M 64, 128 or 192; M is {m}"
        )
    used = accumulators(tile, schedule)
    if used > MAX_ACCUMULATORS and (m, n) != (0, 0):
        yield Objection(
            "E209",
            "tile",
            f"a {dims(tile[:2])} tile needs {used} accumulator registers a thread; {MAX_ACCUMULATORS} can be kept",
            (f"{schedule}: {m} x {n} f32 accumulators over {m * n // used} threads; 255 registers a thread in all",),
        )


def cluster_objections(
    p: Problem, cluster: tuple[int, int, int], tile: tuple[int, int, int] | None, backend: str
) -> Iterator[Objection]:
    cm, cn, ck = cluster
    if ck != 1:
        yield Objection("E206", "cluster", f"cluster K is {ck}; blocks of one cluster share K, so it must be 1")
    elif any(c not in (1, 2, 4, 8) for c in (cm, cn)):
        yield Objection("E206", "cluster", f"cluster {dims(cluster)} is not made of powers of two")
    elif cm * cn > p.arch.max_cluster:
        yield Objection(
            "E206", "cluster", f"cluster {dims(cluster)} has {cm * cn} blocks; at most {p.arch.max_cluster}"
        )
    elif cm * cn > 4 and backend == "cute":
        yield Objection("E206", "cluster", f"cluster {dims(cluster)} has {cm * cn} blocks; `cute` takes at most 4")
    elif tile:
        for axis, c, size, t in (("M", cm, p.shape.m, tile[0]), ("N", cn, p.shape.n, tile[1])):
            count = -(-size // t)
            if c > count:
                note = f"{axis} = {size:,} is {count} tile{'s'[: count > 1]} of {t}"
                yield Objection("E206", "cluster", f"cluster {dims(cluster)} spans {c} tiles along {axis}", (note,))
        for axis, t, c in (("N", tile[1], cm), ("M", tile[0], cn)):
            if t % (8 * c):
                yield Objection(
                    "E206", "cluster", f"{c} blocks share a tile {axis} of {t}; each must load whole groups of 8 rows"
                )


def _scheduler(p: Problem, c: Config, backend: str) -> Iterator[Objection]:
    s = c.scheduler
    if s.kind == "persistent":
        return
    if s.kind == "stream_k" and backend == "cute":
        yield Objection("E208", "scheduler", "stream_k is built by the `cpp` back end, not by `cute`")
    if c.schedule == "pingpong":
        message = f"{s.kind} needs the cooperative schedule; this stage is pingpong"
        yield Objection("E208", "scheduler", message, schedule="cooperative")
    elif c.tile and c.tile[0] < 128:
        message = f"{s.kind} needs the cooperative schedule, so tile M >= 128; M is {c.tile[0]}"
        yield Objection("E208", "scheduler", message, schedule="cooperative")
    if s.kind == "split_k":
        if not 2 <= s.splits <= MAX_SPLITS:
            yield Objection("E208", "scheduler", f"split_k({s.splits}): from 2 to {MAX_SPLITS} splits are possible")
        elif c.tile:
            steps = -(-p.shape.k // c.tile[2])
            if s.splits > steps:
                note = f"K = {p.shape.k:,} is {steps} steps of {c.tile[2]}"
                yield Objection("E208", "scheduler", f"split_k({s.splits}) leaves splits with no work", (note,))


def shared_memory(p: Problem, tile: tuple[int, int, int], schedule: str) -> smem.Smem:
    """Shared memory of this problem's block under a tile and schedule."""
    return smem.of_gemm(tile, schedule, p.compute.bits, p.epilogue)


def unfilled(p: Problem, s: smem.Smem, stages: int) -> Iterator[Objection]:
    """The rule that `cute` takes as many stages as fit."""
    fit = min(MAX_STAGES, s.max_stages(p.arch.smem_block))
    if stages < fit:
        yield Objection("E210", "stages", f"`cute` fills shared memory with stages: {fit} here, not {stages}")


def smem_objections(p: Problem, s: smem.Smem, stages: int, explicit: bool) -> Iterator[Objection]:
    """`explicit`: the stages are written, not the fewest that a pipeline has."""
    total = s.total(stages)
    if total > p.arch.smem_block:
        yield Objection(
            "E204",
            "tile",
            f"tile needs {total:,} bytes of shared memory; {p.arch.name} gives a block {p.arch.smem_block:,}",
            (
                f"mainloop {stages} stages x {kib(s.stage)} + epilogue {kib(s.epilogue)} + barriers {kib(s.barriers)}"
                + ("" if explicit else f" (a pipeline has at least {MIN_STAGES} stages)"),
            ),
        )


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of a gemm or grouped gemm on sm_90a that this configuration breaks."""
    out: list[Objection] = []
    if backend == "cute" and p.compute is DType.TF32 and p.transposes:
        note = "keep the first operand as [m, k] and the second as [n, k], read with .T"
        message = "`cute` multiplies tf32 that lies along K alone, as the instructions do; `cpp` transposes others"
        out.append(Objection("E212", "backend", message, (note,)))
    if backend == "cute" and p.epilogue.batch_scalars:
        message = "`cute` reads vectors along m or n, not one value a batch at [l]; `cpp` does"
        out.append(Objection("E212", "backend", message))
    elsewhere = len(out)
    if c.tile:
        out += _tile(p, c.tile, backend)
    tile_ok = bool(c.tile) and len(out) == elsewhere
    if c.stages is not None and not MIN_STAGES <= c.stages <= MAX_STAGES:
        out.append(Objection("E210", "stages", f"stages {c.stages}: from {MIN_STAGES} to {MAX_STAGES} are possible"))
    if tile_ok:
        choices = [c.schedule] if c.schedule else list(SCHEDULES)
        broken = {s: list(_schedule(c.tile, s, backend)) for s in choices}
        best = min(choices, key=lambda s: len(broken[s]))
        out += broken[best]
        if not broken[best]:
            stages = c.stages if c.stages is not None else MIN_STAGES
            fits = {
                s: list(smem_objections(p, shared_memory(p, c.tile, s), max(stages, 1), c.stages is not None))
                for s in choices if not broken[s]
            }  # fmt: skip
            out += min(fits.values(), key=len)
    if tile_ok:
        out += _only_here(p, c, backend)
    if backend == "cute":
        used = accumulators(c.tile, c.schedule) if tile_ok and c.schedule else None
        out += quack.objections(p, c if tile_ok else replace(c, tile=None), used, MAX_ACCUMULATORS)
    if c.cluster:
        out += cluster_objections(p, c.cluster, c.tile if tile_ok else None, backend)
    if c.scheduler:
        out += _scheduler(p, c if tile_ok else replace(c, tile=None), backend)
    if p.kind == "grouped_gemm":
        out += grouped(p, c, backend)
    return out + swizzle(c)


def grouped(p: Problem, c: Config, backend: str) -> Iterator[Objection]:
    """Rules of a grouped product. The sizes of the groups, and so the number of tiles, are known only at run time."""
    if c.scheduler and c.scheduler.kind != "persistent":
        yield Objection(
            "E208", "scheduler", f"a grouped product is scheduled persistent; {c.scheduler.kind} is for gemm"
        )
    if backend == "cpp" and c.cluster and c.cluster[0] != 1:
        message = f"`cpp` has no cluster of {c.cluster[0]} along M here: its blocks would share a matrix of two groups"
        yield Objection("E206", "cluster", message)
    if backend == "cpp" and p.compute is DType.TF32 and p.b_along_n:
        note = "store the second operand as [group, n, k] and read it with .T"
        yield Objection("E203", "tile", "a grouped product in tf32 reads both operands along K", (note,))


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    """Tiles worth proposing; K is 128 bytes of operand (one swizzle atom), or half or twice that."""
    return tiles_of(p.compute)


def tiles_of(compute: DType) -> list[tuple[int, int, int]]:
    k = 1024 // compute.bits
    sizes = [(m, n) for m in (64, 128, 256) for n in (16, 32, 64, 96, 128, 160, 192, 208, 224, 256)]
    return [(m, n, kk) for kk in (k, k // 2, 2 * k) for m, n in sizes if m * n <= 128 * 2 * MAX_ACCUMULATORS]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return SCHEDULES


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    """The choices of `cluster auto`."""
    return ((2, 1, 1), (1, 2, 1), (1, 1, 1))


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """As many stages as fit in shared memory."""
    return sliced(p, tile, min(MAX_STAGES, shared_memory(p, tile, schedule).max_stages(p.arch.smem_block)))


def sliced(p: Problem, tile: tuple[int, int, int], stages: int) -> int:
    """The largest number of stages up to `stages` that CuTe can slice: even if a stage is half a swizzle pattern."""
    half = p.compute is DType.TF32 and tile[1] == 16 and tile[2] <= 32
    return stages // 2 * 2 if half else stages
