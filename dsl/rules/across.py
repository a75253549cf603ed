"""Rules of a convolution that `cute` fuses with what reduces its channels, or normalises them: a minimum, a softmax.

The two become one kernel if only that stage reads the convolution and one tile has all of its channels
(dsl.lower.cute.conv.across).
"""

from __future__ import annotations

from dsl.axes import image_axes
from dsl.functions import REDUCTIONS
from dsl.ir import Acc, Call, Config, Conv, DType, Expr, Normalize, Program, Reduce, expressions, loads, reads
from dsl.rules.conv import cute_holds, phases_of
from dsl.rules.problem import compute_of, is_direct, types_of

FOLDS = ("sum", "mean", "max", "min", "logsumexp")
NORMS = ("softmax", "log_softmax")
# Accumulators of a thread; more leave no registers for the folds beside the coordinates of a result.
MAX_ACCUMULATORS = 128


def reader(program: Program, conv: Conv) -> Reduce | Normalize | None:
    """The stage that alone reads a convolution of a typed program and folds its channels; None if the two cannot be
    fused, whatever the tile is."""
    readers = [s for s in program.stages if conv.name in reads(s)]
    if program.arch not in (None, "sm_90a") or len(readers) != 1 or conv.name in program.results:
        return None
    stage, types = readers[0], types_of(program)
    ops = {Reduce: FOLDS, Normalize: NORMS}.get(type(stage), ())
    if not ops or stage.op not in ops or stage.over != ("c",) or not isinstance(stage.of, Acc) or stage.x.transposed:
        return None
    if conv.also or stage.also or conv.groups != 1 or stage.type is None or is_direct(conv, types):
        return None
    halves = (DType.F16, DType.BF16)
    if compute_of(conv, types) not in halves or conv.type.shape[1] % 8 or stage.type.dtype not in (DType.F32, *halves):
        return None
    names = set(image_axes(len(conv.type.shape)))
    mine = [x for e in expressions(stage) for x in loads(e)]
    if any(x.name == conv.name or x.starts or set(x.axes) - names for x in mine):
        return None
    return None if any(map(_folds, expressions(conv))) else stage


def _folds(e: Expr) -> bool:
    return isinstance(e, Call) and (e.fn in (*REDUCTIONS, "triu", "tril") or any(map(_folds, e.args)))


def fits(conv: Conv, c: Config) -> bool:
    """Return True if a tile has all channels, and registers for their folds remain."""
    if not c.tile or c.compute not in (DType.F16, DType.BF16) or c.backend == "cpp":
        return False
    pixels, columns, _ = c.tile
    schedules = (c.schedule,) if c.schedule else ("cooperative", "pingpong")
    groups = max(2 if s == "cooperative" else 1 for s in schedules)
    enough = columns // phases_of(conv, pixels, columns) >= conv.type.shape[1]
    return enough and pixels * columns // (128 * groups) <= MAX_ACCUMULATORS


def preferred(conv: Conv) -> tuple[tuple[tuple[int, int], str], ...]:
    """Tiles (M, N) and schedules that fit, the one with the most pixels first."""
    columns = -(-conv.type.shape[1] * phases_of(conv) // 16) * 16
    ways = (((256, columns), "cooperative"), ((128, columns), "pingpong"), ((128, columns), "cooperative"),
            ((64, columns), "pingpong"))  # fmt: skip
    return tuple(
        (tile, schedule)
        for tile, schedule in ways
        if cute_holds((*tile, 64), schedule)
        and fits(conv, Config(compute=DType.F16, tile=(*tile, 64), schedule=schedule))
    )
