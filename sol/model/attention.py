"""The time of an attention stage: its tiles in waves, each step's products and exponentials one after the other.

A block computes the results of one tile of queries, step by step over tiles of keys. The tensor cores multiply at their
peak while a warp group's exponentials wait for its scores, so the two add up. Fitted to two runs of flash-attn-4 on an
H200 in f16: 0.257 ms for 8 x 16 causal heads of 2048 x 128, and 0.212 ms for 32 x 32 heads of 512 x 64.
"""

from __future__ import annotations

from math import ceil

from dsl import ir
from dsl.printer import word_of
from dsl.rules.attention import tile
from sol.cost.windows import floor_sum
from sol.hardware import Hardware
from sol.model.prediction import StageTime, stream_ms
from sol.model.tiles import LAUNCH_MS

EXPONENTIALS = 1.5  # the time of an exponential with its maximum, sum and rounding, in that of the exponential alone


def attention_time(program: ir.Program, stage: ir.Attention, hw: Hardware) -> StageTime:
    """Predicted time of a checked attention on a device, as one launch of `dsl.lower.cute.attention.flash`."""
    cls = program.type_of(stage.q.name).dtype.value
    b, h, m, e = stage.by_head(stage.type.shape)
    n, d = _keys(program, stage)
    t = tile(d, e, stage.causal)
    rows = ceil(m / t.queries)
    steps, most = _steps(rows, n, t.queries if stage.causal else n, t.keys)
    scores = float(t.queries * t.keys)
    step = 2 * scores * (d + e) / (hw.peak(cls) / hw.sms) + EXPONENTIALS * scores / (hw.sfu / hw.sms)
    waves = max(b * h * steps / hw.sms, most * ceil(b * h * rows / hw.sms) * _even(stage))
    computed = waves * step * 1e3
    read = float(sum(program.type_of(name).bytes for name in ir.reads(stage)))
    moved = stream_ms(read, float(stage.type.bytes), hw) - LAUNCH_MS
    main = max(computed, moved)
    flops = 2.0 * b * h * (m * (m + 1) / 2 if stage.causal else m * n) * (d + e)
    by = "memory" if moved > computed else "tensor" if 2 * (d + e) / hw.peak(cls) > EXPONENTIALS / hw.sfu else "special"
    note = f"{b * h * rows:,} tiles of {t.queries} queries, at most {most} steps of {t.keys} keys"
    return StageTime(
        stage.name, word_of(stage), LAUNCH_MS + main, by, {"launch": LAUNCH_MS, "main": main}, flops,
        read + stage.type.bytes, note,
    )  # fmt: skip


def _steps(rows: int, n: int, queries: int, keys: int) -> tuple[int, int]:
    """The steps of all tiles of queries, and the most of one: row i reads min(n, (i + 1) * queries) keys. In closed
    form, because a graph may have any number of rows."""
    short = min(rows, n // queries)  # rows that read fewer than n keys, or just n
    total = floor_sum(short, queries, queries + keys - 1, keys) + (rows - short) * -(-n // keys)
    return total, -(-min(n, rows * queries) // keys)


def _even(stage: ir.Attention) -> float:
    """The share of the longest tile's steps that a wave takes: a causal kernel starts with the longest tiles."""
    return 0.5 if stage.causal else 1.0


def _keys(program: ir.Program, stage: ir.Attention) -> tuple[int, int]:
    """Positions of the keys, and elements of a head of q and k."""
    _, _, n, _ = stage.by_head(program.type_of((stage.k or stage.q).name).shape)
    return n, program.type_of(stage.q.name).shape[-1]


__all__ = ["attention_time"]
