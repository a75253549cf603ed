"""The table of stages, each with its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsl.check.context import Clauses, Context, Typed
from dsl.check.stages.attention import ATTENTION_CLAUSES, attention
from dsl.check.stages.concat import CONCAT_CLAUSES, MOST, concat
from dsl.check.stages.conv import CONV_CLAUSES, TRANSPOSED_CLAUSES, conv
from dsl.check.stages.gemm import GEMM_CLAUSES, GROUPED_CLAUSES, gemm, grouped_gemm
from dsl.check.stages.generated import (
    MAP_CLAUSES,
    NORMALIZE_CLAUSES,
    POOL_CLAUSES,
    REDUCE_CLAUSES,
    map_,
    normalize,
    pool,
    reduce,
)
from dsl.check.stages.recurrent import MOST as MOST_RECURRENT
from dsl.check.stages.recurrent import RECURRENT_CLAUSES, recurrent
from dsl.check.stages.scan import SCAN_CLAUSES, scan
from dsl.check.stages.transform import TRANSFORM_CLAUSES, transform
from dsl.fixes import Clause, written
from dsl.ir import Stage
from dsl.tree import StageNode

__all__ = ["FAMILIES", "OPS", "Context", "Family"]


@dataclass(frozen=True)
class Family:
    """One kind of stage: how many tensors it takes, its clauses, an example, and the function that types it.

    The example is `call`, followed by the clauses of `block` if there are any.
    """

    least: int
    most: int
    clauses: tuple[str, ...]
    call: str
    doc: str
    check: Callable[[Context, StageNode, list[Typed], Clauses], Stage]
    block: tuple[Clause, ...] = ()

    @property
    def example(self) -> str:
        return f"{self.call} {{ {written(self.block)} }}" if self.block else self.call


FAMILIES: dict[str, Family] = {
    "gemm": Family(2, 2, GEMM_CLAUSES, "gemm(x, w.T)", "a product of matrices, or of batches of them", gemm),
    "grouped_gemm": Family(
        3, 3, GROUPED_CLAUSES, "grouped_gemm(x, w.T, sizes)", "rows in groups, each times its own matrix", grouped_gemm
    ),
    **{
        f"conv{d}d": Family(2, 2, CONV_CLAUSES, f"conv{d}d(x, w)", f"a convolution over {axes}", conv)
        for d, axes in ((1, "w"), (2, "h, w"), (3, "d, h, w"))
    },
    **{
        f"conv_transpose{d}d": Family(
            2, 2, TRANSPOSED_CLAUSES, f"conv_transpose{d}d(x, w)", f"a transposed convolution over {axes}", conv
        )
        for d, axes in ((1, "w"), (2, "h, w"), (3, "d, h, w"))
    },
    "attention": Family(
        1,
        3,
        ATTENTION_CLAUSES,
        "attention(q, k, v)",
        "softmax(scale * q @ k.T) @ v without the scores in memory",
        attention,
    ),
    "recurrent": Family(
        2,
        MOST_RECURRENT,
        RECURRENT_CLAUSES,
        "recurrent(gates, weights)",
        "the steps in time of an LSTM, GRU or RNN",
        recurrent,
        (("op", "lstm"),),
    ),
    "transform": Family(
        1,
        2,
        TRANSFORM_CLAUSES,
        "transform(x)",
        "another type, layout or shape of the same values",
        transform,
        (("to", "f16"),),
    ),
    "map": Family(1, 1, MAP_CLAUSES, "map(x)", "each element by itself", map_, (("epilogue", "relu(acc)"),)),
    "concat": Family(2, MOST, CONCAT_CLAUSES, "concat(x, y)", "tensors one after another", concat, (("over", "n"),)),
    "reduce": Family(
        1, 1, REDUCE_CLAUSES, "reduce(x)", "one value over some axes", reduce, (("op", "sum"), ("over", "n"))
    ),
    "scan": Family(
        1, 1, SCAN_CLAUSES, "scan(x)", "running sums and products along an axis", scan, (("op", "sum"), ("over", "n"))
    ),
    "normalize": Family(
        1, 5, NORMALIZE_CLAUSES, "normalize(x)", "softmax and the norms", normalize, (("op", "softmax"), ("over", "n"))
    ),
    "pool": Family(
        1, 1, POOL_CLAUSES, "pool(x)", "max or mean over windows of space", pool, (("op", "max"), ("window", "2x2"))
    ),
}

OPS = tuple(FAMILIES)
