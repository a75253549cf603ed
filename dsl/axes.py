"""The names of the axes at which a stage's expressions read other tensors.

The axes of a gemm's result are `l` (all leading batch axes together), `m` and `n`. Those of a convolution's and a
pool's are `b` (batch), `c` (channels) and the spatial `w`, `h w` or `d h w`. In map, reduce and normalize both sets
name the axes of x by position:

    rank 1   n            or c
    rank 2   m n          or b c
    rank 3   l m n        or b c w
    rank 4   l m n        or b c h w         (l: the first two)
    rank 5   b c d h w
"""

from __future__ import annotations

from dsl.ir import (
    Attention,
    Conv,
    Gemm,
    GroupedGemm,
    Map,
    Pool,
    Recurrent,
    Stage,
    TensorType,
    expressions,
    loads,
    reads,
)

SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def matrix_axes(rank: int) -> dict[str, tuple[int, ...]]:
    """Name -> positions of the axes of a matrix or a batch of matrices."""
    if rank == 1:
        return {"n": (0,)}
    lead = {"l": tuple(range(rank - 2))} if rank > 2 else {}
    return {**lead, "m": (rank - 2,), "n": (rank - 1,)}


def image_axes(rank: int) -> dict[str, tuple[int, ...]]:
    """Name -> positions of the batch, channel and spatial axes; empty for a rank without these names."""
    if rank == 1:
        return {"c": (0,)}
    names = ("b", "c", *SPATIAL.get(rank - 2, ()))
    return {n: (i,) for i, n in enumerate(names)} if len(names) == rank else {}


def single_axes(rank: int) -> dict[str, int]:
    """The names of the axes of a stage's tensors that each stand for one axis -> its position."""
    return {n: at[0] for n, at in {**matrix_axes(rank), **image_axes(rank)}.items() if len(at) == 1}


def axes_of(stage: Stage, rank: int) -> dict[str, tuple[int, ...]]:
    """The axes that a stage's expressions may name -> their positions in a tensor of rank `rank`."""
    if isinstance(stage, Attention | Recurrent):
        return {}
    if isinstance(stage, Gemm | GroupedGemm):
        return matrix_axes(rank)
    if isinstance(stage, Conv | Pool):
        return image_axes(rank)
    return {**matrix_axes(rank), **image_axes(rank)}


def parts_read(stage: Stage, name: str, kind: TensorType) -> tuple[tuple[int, ...], ...]:
    """The shapes of the parts of a tensor that a typed stage reads, each once; the tensor's own where it is read
    whole."""
    if name not in reads(stage):
        return ()
    first = (0,) * len(kind.shape)
    parts: dict[tuple[int, ...], tuple[int, ...]] = {}
    if any(o.name == name for o in stage.operands):
        cut = isinstance(stage, Map) and stage.crop is not None
        parts[(stage.start or first) if cut else first] = stage.crop if cut else kind.shape
    axes = axes_of(stage, len(stage.type.shape)) if isinstance(stage, Map) else {}
    for load in (x for e in expressions(stage) for x in loads(e) if x.name == name):
        if not load.starts:
            parts.setdefault(first, kind.shape)
            continue
        extents = (stage.type.shape[axes[a][0]] for a in load.axes)
        shape = tuple(d if s is None else e for d, s, e in zip(kind.shape, load.starts, extents, strict=True))
        parts.setdefault(tuple(s or 0 for s in load.starts), shape)
    return tuple(parts.values())
