"""How a product's tiles are dealt out: groups of them, their order, splits of K with sums of their own, triangles."""

from __future__ import annotations

from dsl.ir import Call, Gemm, Number, TensorType, expressions
from dsl.lower.cpp.direct_reads import readable
from dsl.lower.cpp.epilogue import Tree
from dsl.rules.problem import triangle_side

AUTO, ALONG_M, ALONG_N = 0, 1, 2  # CUTLASS's RasterOrderOptions, as a launch is told them
SHORT_K = 256  # up to here a product stores for longer than it multiplies
STAYS = 17e6  # bytes of an operand that the L2 holds beside what is stored


def raster(n: int, k: int, bits: int, turned: bool, batched: bool) -> int:
    """Which way tiles are walked, in the program's m and n: CUTLASS walks the shorter side first. Where a product is
    mostly its stores and its second operand stays in L2, neighbours along n are better, as they share the result's
    rows in memory: 1.53 ms against 1.71 and, of a transposed result, 1.39 against 1.58 (32768 x 32768 x 64, tf32, one
    H200)."""
    if batched or k > SHORT_K or n * k * bits / 8 > STAYS:
        return AUTO
    return ALONG_M if turned else ALONG_N


def whole_groups(m: int, n: int, tile: tuple, cluster: tuple, most: int) -> int:
    """The largest group of at most `most` clusters, along m and n, that adds no tile to the launch.

    CUTLASS rounds the grid up to whole groups on both sides and computes the tiles beyond the edge like any other:
    groups of 8 clusters of 2 make 16 rows out of 8, twice the work (0.376 ms where 0.188 were due, on one H200).
    """
    rows, columns = (-(-size // (t * c)) * c for size, t, c in zip((m, n), tile, cluster, strict=False))
    for group in (8, 4, 2):
        whole = rows % (group * cluster[0]) == 0 and columns % (group * cluster[1]) == 0
        used = min(rows, columns) >= {8: 6, 4: 3, 2: 2}[group]  # below, CUTLASS takes a smaller group itself
        if group <= most and whole and used:
            return group
    return 1


def sums_apart(stage: Gemm, types: dict[str, TensorType], tree: Tree, element: str) -> bool:
    """Whether splits of K leave their sums side by side, rather than add them up one after the other as CUTLASS's
    do (64 of them: 0.2 ms): one product, whose result nothing else is made of."""
    if stage.also or stage.pairs or tree.totals or len(stage.type.shape) != 2 or element == "int8_t":
        return False
    return readable(expressions(stage), types, *stage.type.shape)


def triangle(stage: Gemm, m: int, n: int, tile: tuple, cluster: tuple) -> int:
    """Cluster tiles a side where the epilogue keeps one triangle of a square result and these tiles cover it in whole
    squares; 0 where every tile must be computed. See templates/triangle.cu.j2."""
    e = stage.epilogue
    if not isinstance(e, Call) or e.fn not in ("triu", "tril") or e.args[1:] not in ((), (Number(0.0),)):
        return 0
    return 0 if stage.also or stage.pairs else triangle_side(m, n, tile, cluster)
