"""How many kernels a stage launches. Most stages launch one; some need a second one, which adds its gap to the time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import prod

from dsl import ir
from dsl.axes import axes_of
from dsl.functions import REDUCTIONS
from dsl.lower.cute.reduce.norm_in_registers import BLOCK, HELD
from dsl.lower.cute.reduce.shares import of_columns, of_rows
from dsl.rules import legal

WIDEST = 8  # elements that a thread reads at once
FOLDED_WIDEST = 4  # the same across rows, if a state has several numbers
SEVERAL = ("argmax", "logsumexp", "layernorm", "groupnorm", "instancenorm")  # their folds have them


def kernels(program: ir.Program, stage: ir.Stage) -> int:
    """The kernels of a checked stage without a tile of its own kind, as `cute` launches them: with few results, several
    blocks of a reduction share one, and a second kernel joins their parts; a norm whose groups do not fit into the
    registers of a block stores statistics first. Convolutions with a tile have models of their own."""
    types = legal.types_of(program)
    if isinstance(stage, ir.Gemm | ir.GroupedGemm):
        return 1 + _joined_rows(program, stage)
    if isinstance(stage, ir.Concat):
        return len(stage.parts)
    if isinstance(stage, ir.Reduce):
        x = types[stage.x.name]
        axes = axes_of(stage, len(x.shape))
        reduced = frozenset(p for name in stage.over for p in axes[name])
        return _reduction(_Folded(x.shape, x.memory_order, reduced, x.dtype.bits), stage.op)
    if isinstance(stage, ir.Pool) and stage.window is None:
        x = types[stage.x.name]
        return _reduction(_Folded(x.shape, x.memory_order, frozenset(range(2, len(x.shape))), x.dtype.bits), stage.op)
    if isinstance(stage, ir.Normalize) and stage.op != "batchnorm":
        return _norm(types[stage.x.name], stage)
    return 1


def _joined_rows(program: ir.Program, stage: ir.Gemm | ir.GroupedGemm) -> int:
    """The kernels that join what several tiles have of one row or column."""
    if stage.config.tile is None:
        return 0
    tile_m, tile_n, _ = stage.config.tile
    shape = ir.gemm_shape(program, stage) if isinstance(stage, ir.Gemm) else None
    results = [*(a.expr for a in stage.also), stage.epilogue]
    reduced = [e.fn for e in results if isinstance(e, ir.Call) and e.fn in REDUCTIONS]
    if shape is None:
        return len(reduced)
    tiles = {"m": -(-shape.m // tile_m), "n": -(-shape.n // tile_n)}
    return sum(tiles["m" if fn == "col_sum" else "n"] > 1 for fn in reduced)


@dataclass(frozen=True)
class _Folded:
    """What is reduced: the lengths of its axes, their order in memory, the axes that are reduced, and their type."""

    extents: tuple[int, ...]
    order: tuple[int, ...]
    reduced: frozenset[int]
    bits: int

    @property
    def elements(self) -> int:
        """Of one result."""
        return prod(self.extents[a] for a in self.reduced)


def _reduction(f: _Folded, op: str) -> int:
    order = [a for a in f.order if f.extents[a] > 1]
    if not order or f.elements == 1:
        return 1
    runs = groupby(order, lambda a: a in f.reduced)
    kinds = [(kind, prod(f.extents[a] for a in axes)) for kind, axes in runs]
    along, run = kinds[-1]
    outputs = prod(f.extents) // f.elements
    if along:
        short = run * f.bits <= 512 and f.elements > 64 * run
        if short and len(kinds) > 2 and op != "argmax":
            return 2  # channels last: each channel of a group as a column, then the channels are joined
        width = _width(run, f.bits)
        return 1 + (of_rows(outputs, f.elements // width, width).parts > 1)
    width = min(_width(run, f.bits), FOLDED_WIDEST if op in SEVERAL else WIDEST)
    return 1 + (of_columns(outputs, f.elements, width).parts > 1)


def _norm(x: ir.TensorType, stage: ir.Normalize) -> int:
    if stage.op == "groupnorm":  # the channels are two axes: groups, and channels of one
        extents = (x.shape[0], stage.groups, x.shape[1] // stage.groups, *x.shape[2:])
        order = tuple(n for a in x.memory_order for n in ((a,) if a == 0 else (1, 2) if a == 1 else (a + 1,)))
        f = _Folded(extents, order, frozenset(range(2, len(extents))), x.dtype.bits)
    else:
        axes = axes_of(stage, len(x.shape))
        over = {p for name in stage.over for p in axes[name]}
        reduced = frozenset(range(2, len(x.shape)) if stage.op == "instancenorm" else over)
        f = _Folded(x.shape, x.memory_order, reduced, x.dtype.bits)
    inner = next((a for a in reversed(f.order) if f.extents[a] > 1), None)
    whole = [t for t in (stage.type, *(a.type for a in stage.also)) if t.shape == x.shape]
    alike = all(t.memory_order == x.memory_order for t in whole)
    if inner in f.reduced and f.elements <= HELD * BLOCK and alike:
        return 1
    return 1 + _reduction(f, stage.op)


def _width(run: int, bits: int) -> int:
    """Elements of a vector along a run of memory, at most 16 bytes."""
    width = min(WIDEST, 128 // bits)
    while width > 1 and run % width:
        width //= 2
    return width
