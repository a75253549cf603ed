"""What an axis is called where a stage's expressions index other tensors.

A gemm's result has `l` (all leading batch axes together), `m` and `n`. A convolution's and a pool's has `b` (batch),
`c` (channels) and the spatial `w`, `h w` or `d h w`. For map, reduce and normalize both families name the axes of x by
position, whichever reads better:

    rank 1   n            or c
    rank 2   m n          or b c
    rank 3   l m n        or b c w
    rank 4   l m n        or b c h w         (l: the first two)
    rank 5   b c d h w
"""

from __future__ import annotations

from dsl.ir import Conv, Gemm, GroupedGemm, Pool, Stage

SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def matrix_axes(rank: int) -> dict[str, tuple[int, ...]]:
    """Name -> positions, of a stack of matrices."""
    if rank == 1:
        return {"n": (0,)}
    lead = {"l": tuple(range(rank - 2))} if rank > 2 else {}
    return {**lead, "m": (rank - 2,), "n": (rank - 1,)}


def image_axes(rank: int) -> dict[str, tuple[int, ...]]:
    """Name -> positions, of batch, channels and space; empty for a rank that has none."""
    if rank == 1:
        return {"c": (0,)}
    names = ("b", "c", *SPATIAL.get(rank - 2, ()))
    return {n: (i,) for i, n in enumerate(names)} if len(names) == rank else {}


def axes_of(stage: Stage, rank: int) -> dict[str, tuple[int, ...]]:
    """The axes that a stage's expressions may name, each with its positions in a tensor of that rank."""
    if isinstance(stage, Gemm | GroupedGemm):
        return matrix_axes(rank)
    if isinstance(stage, Conv | Pool):
        return image_axes(rank)
    return {**matrix_axes(rank), **image_axes(rank)}
