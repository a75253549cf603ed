"""Products on sm_90a whose weight is f32 and whose other operand is f16 or bf16: the weight is cast as it is read.

A cast apart reads and writes the whole weight before the product reads it once more. Here TMA brings the f32 weight
into shared memory; each warp group loads its part into registers, rounds it there, and multiplies from them. The
registers hold rows of the first factor, so the kernel (quack's, with a load of ours) computes the transposed result:
its rows are our columns, and its columns our rows. Only `cute` writes it.

Measured on an H200: nine linear layers of the suite, 1024 x 8192 x 8192, take 0.271 to 0.289 ms with the cast of x, and
0.287 to 0.311 ms with a cast of both; a product of 16 x 16384 x 16384 takes 0.26 ms for 0.52.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsl.ir import Config, DType, Operand, TensorType
from dsl.rules import sm90, smem
from dsl.rules.problem import MAX_STAGES, MIN_STAGES, Objection, Problem, swizzle

HALVES = (DType.F16, DType.BF16)
DEPTH = 64  # tile K: four instructions, which the loop overlaps with its loads
LINE = 32  # f32 values of 128 bytes: a row of the weight in shared memory
COLUMNS = (64, 128)  # tile N: 64 columns a warp group. With 256 or 192 the registers spill (1.5 and 0.63 ms for 0.25)


def casts_weight(a: Operand, ta: TensorType, b: Operand, tb: TensorType) -> bool:
    """Return True if a product of these operands may cast the second as it reads it: an f32 matrix [n, k] read with
    .T, whose rows are whole lines, beside an f16 or bf16 matrix [m, k]."""
    matrices = len(ta.shape) == len(tb.shape) == 2 and b.transposed and not a.transposed
    return matrices and ta.dtype in HALVES and tb.dtype is DType.F32 and tb.shape[-1] % LINE == 0


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of such a product that this configuration breaks."""
    out = list(_elsewhere(p, backend))
    elsewhere = len(out)
    if c.tile:
        out += _tile(p, c.tile)
    tile_ok = len(out) == elsewhere
    if c.stages is not None and not MIN_STAGES <= c.stages <= MAX_STAGES:
        out.append(Objection("E210", "stages", f"stages {c.stages}: from {MIN_STAGES} to {MAX_STAGES} are possible"))
    if c.tile and not out:
        out += _smem(p, c)
    if c.schedule == "pingpong":
        message = "a weight that is cast as it is read is multiplied cooperatively; this stage is pingpong"
        out.append(Objection("E207", "schedule", message, schedule="cooperative"))
    if c.cluster:
        out += sm90.cluster_objections(p, c.cluster, c.tile if tile_ok else None, "cute")
    if c.scheduler and c.scheduler.kind != "persistent":
        message = f"a weight that is cast as it is read is scheduled persistent, not {c.scheduler.kind}"
        out.append(Objection("E208", "scheduler", message))
    return out + swizzle(c)


def _elsewhere(p: Problem, backend: str) -> Iterator[Objection]:
    use = p.epilogue
    if p.arch.name != "sm_90a":
        message = f"{p.arch.name} casts no operand as it reads it; sm_90a does"
        yield Objection("E202", "compute", message)
    if backend != "cute":
        message = f"`{backend}` multiplies two operands of one type; `cute` casts an f32 weight as it reads it"
        yield Objection("E212", "backend", message)
    elif use.reductions or use.pairs or use.indexed or len(use.stored_bits) > 1:
        message = "beside a weight that is cast as it is read, `cute` stores one whole result, element by element"
        yield Objection("E212", "backend", message)


def _tile(p: Problem, tile: tuple[int, int, int]) -> Iterator[Objection]:
    m, n, k = tile
    if n not in COLUMNS:
        allowed = " or ".join(map(str, COLUMNS))
        yield Objection("E203", "tile", f"a weight that is cast as it is read has tile N {allowed}; N is {n}")
    if m % 16 or not 16 <= m <= 256:
        yield Objection("E203", "tile", f"a weight that is cast as it is read has tile M 16 to 256, in 16s; M is {m}")
    if k != DEPTH:
        yield Objection("E203", "tile", f"a weight that is cast as it is read has tile K {DEPTH}; K is {k}")


def shared_memory(p: Problem, tile: tuple[int, int, int]) -> smem.Smem:
    """Shared memory of a block: stages of f32 weights beside the other operand's type."""
    m, n, k = tile
    turned = smem.of_gemm((n, m, k), "cooperative", p.compute.bits, p.epilogue)
    return smem.Smem((n * 4 + m * p.compute.bits // 8) * k, turned.epilogue, turned.barriers)


def _smem(p: Problem, c: Config) -> Iterator[Objection]:
    s, stages = shared_memory(p, c.tile), c.stages if c.stages is not None else MIN_STAGES
    yield from sm90.smem_objections(p, s, max(stages, 1), c.stages is not None)
    if c.stages is not None:
        yield from sm90.unfilled(p, s, c.stages)


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    return [(m, n, DEPTH) for n in COLUMNS for m in (256, 16, 32, 64, 96, 128, 160, 192, 208, 224)]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return ("cooperative",)


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    return sm90.clusters(p)


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """As many stages as fit in shared memory."""
    return min(MAX_STAGES, shared_memory(p, tile).max_stages(p.arch.smem_block))
