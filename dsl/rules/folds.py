"""Rules of a convolution that `cute` fuses with the stage behind it (dsl.lower.cute.conv.folds).

Such a stage alone reads the convolution, and folds what one tile has: all channels of a pixel (a minimum, a softmax),
or the pixels of a pool's windows, which meet nowhere.
"""

from __future__ import annotations

from math import lcm, prod

from dsl.axes import image_axes
from dsl.functions import REDUCTIONS
from dsl.ir import (
    Acc,
    Call,
    Config,
    Conv,
    DType,
    Expr,
    Normalize,
    Pool,
    Program,
    Reduce,
    Stage,
    expressions,
    loads,
    reads,
)
from dsl.rules.conv import cute_holds, phases_of
from dsl.rules.problem import compute_of, is_direct, types_of

FOLDS = ("sum", "mean", "max", "min", "logsumexp")
NORMS = ("softmax", "log_softmax")
EDGES = (1, 2, 4)  # of a pool's windows; those of a tile's box are powers of two
# Accumulators of a thread; more leave no registers for the folds beside the coordinates of a result.
MAX_ACCUMULATORS = 128


def reader(program: Program, conv: Conv) -> Reduce | Normalize | Pool | None:
    """The stage that alone reads a convolution of a typed program and can be fused with it, None if there is none."""
    readers = [s for s in program.stages if conv.name in reads(s)]
    if program.arch not in (None, "sm_90a") or len(readers) != 1 or conv.name in program.results:
        return None
    stage, types, halves = readers[0], types_of(program), (DType.F16, DType.BF16)
    if conv.also or stage.also or conv.groups != 1 or stage.type is None or is_direct(conv, types):
        return None
    if compute_of(conv, types) not in halves or conv.type.shape[1] % 8 or stage.type.dtype not in (DType.F32, *halves):
        return None
    if not (_pools(conv, stage) if isinstance(stage, Pool) else _channels(stage)):
        return None
    names = set(image_axes(len(conv.type.shape)))
    mine = [x for e in expressions(stage) for x in loads(e)]
    if any(x.name == conv.name or x.starts or set(x.axes) - names for x in mine):
        return None
    return None if any(map(_folds, expressions(conv))) else stage


def _channels(stage: Stage) -> bool:
    ops = {Reduce: FOLDS, Normalize: NORMS}.get(type(stage), ())
    return bool(ops) and stage.op in ops and stage.over == ("c",) and isinstance(stage.of, Acc)


def _pools(conv: Conv, stage: Pool) -> bool:
    """Return True for windows that lie side by side in an image whose pixels one launch computes."""
    window = stage.window or ()
    beside = stage.stride == window and not any(stage.padding) and set(stage.dilation) <= {1}
    phases = prod(conv.stride) if conv.transposed else 1
    return beside and phases == 1 and prod(window) > 1 and all(edge in EDGES for edge in window)


def _folds(e: Expr) -> bool:
    return isinstance(e, Call) and (e.fn in (*REDUCTIONS, "triu", "tril") or any(map(_folds, e.args)))


def fits(conv: Conv, c: Config, stage: Stage) -> bool:
    """Return True if a tile has what `stage` folds, and registers for the folds of channels remain."""
    if not c.tile or c.compute not in (DType.F16, DType.BF16) or c.backend == "cpp":
        return False
    pixels, columns, _ = c.tile
    if isinstance(stage, Pool):
        return prod(stage.window) <= pixels
    groups = 1 if c.schedule == "pingpong" else 2
    enough = columns // phases_of(conv, pixels, columns) >= conv.type.shape[1]
    return enough and pixels * columns // (128 * groups) <= MAX_ACCUMULATORS


def preferred(conv: Conv, stage: Stage) -> tuple[tuple[tuple[int, int], str], ...]:
    """Tiles (M, N) and schedules that have all channels, the one with the most pixels first; none for a pool, which
    asks for no tile of its own."""
    phases = phases_of(conv)
    step = lcm(16, 8 * phases)  # whole instructions, and as many columns for each phase
    columns = -(-conv.type.shape[1] * phases // step) * step
    ways = (((256, columns), "cooperative"), ((128, columns), "pingpong"), ((128, columns), "cooperative"),
            ((64, columns), "pingpong"))  # fmt: skip
    return tuple(
        (tile, schedule)
        for tile, schedule in (() if isinstance(stage, Pool) else ways)
        if cute_holds((*tile, 64), schedule)
        and fits(conv, Config(compute=DType.F16, tile=(*tile, 64), schedule=schedule), stage)
    )
