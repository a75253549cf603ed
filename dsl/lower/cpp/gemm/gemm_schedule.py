"""The schedule of a product's tiles: groups, order, splits of K with separate sums, triangles."""

from __future__ import annotations

from dsl.ir import Call, Gemm, Number, TensorType, expressions
from dsl.lower.cpp.direct_reads import readable
from dsl.lower.cpp.epilogue import Tree
from dsl.rules.problem import triangle_side

AUTO, ALONG_M, ALONG_N = 0, 1, 2  # CUTLASS's RasterOrderOptions
SHORT_K = 256  # up to this K a product takes longer to store than to multiply
STAYS = 17e6  # bytes of an operand that stay in L2 beside the stored result


def raster(n: int, k: int, bits: int, transposed_result: bool, batched: bool) -> int:
    """The order of the tiles, in the program's m and n. By default CUTLASS walks the shorter side first.

    If stores dominate a product and its second operand stays in L2, tiles that are neighbours along n are better,
    because they share rows of the result in memory: 1.53 ms against 1.71, and for a transposed result 1.39 against 1.58
    (32768 x 32768 x 64, tf32, one H200).
    """
    if batched or k > SHORT_K or n * k * bits / 8 > STAYS:
        return AUTO
    return ALONG_M if transposed_result else ALONG_N


def whole_groups(m: int, n: int, tile: tuple, cluster: tuple, most: int) -> int:
    """The largest group of at most `most` clusters, along m and n, that adds no tile to the launch.

    CUTLASS rounds the grid up to whole groups on both sides and computes the tiles beyond the edge too. Groups of 8
    clusters of 2 turn 8 rows into 16, which doubles the work (0.376 ms instead of 0.188 on one H200).
    """
    rows, columns = (-(-size // (t * c)) * c for size, t, c in zip((m, n), tile, cluster, strict=False))
    for group in (8, 4, 2):
        whole = rows % (group * cluster[0]) == 0 and columns % (group * cluster[1]) == 0
        used = min(rows, columns) >= {8: 6, 4: 3, 2: 2}[group]  # below this CUTLASS uses a smaller group
        if group <= most and whole and used:
            return group
    return 1


def sums_apart(stage: Gemm, types: dict[str, TensorType], tree: Tree, element: str) -> bool:
    """Return True if the splits of K store separate sums for a second kernel.

    CUTLASS's splits add to one sum in turn (0.2 ms for 64 splits). Separate sums need a single 2-D product with one
    element-wise result.
    """
    if stage.also or stage.pairs or tree.totals or len(stage.type.shape) != 2 or element == "int8_t":
        return False
    return readable(expressions(stage), types, *stage.type.shape)


def triangle(stage: Gemm, m: int, n: int, tile: tuple, cluster: tuple) -> int:
    """The number of cluster tiles along a side if only those of one triangle are computed; else 0.

    The epilogue must store one triangle of a square result that square cluster tiles cover; see
    templates/triangle.cu.j2.
    """
    e = stage.epilogue
    if not isinstance(e, Call) or e.fn not in ("triu", "tril") or e.args[1:] not in ((), (Number(0.0),)):
        return 0
    return 0 if stage.also or stage.pairs else triangle_side(m, n, tile, cluster)
