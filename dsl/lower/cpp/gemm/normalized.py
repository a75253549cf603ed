"""A gemm fused with the only normalize that reads it: its rows are normalised in registers.

A group norm of a matrix normalises groups of neighbouring columns of a row; a layer or rms norm normalises the whole
row. If a group fits in one tile, four lanes hold it in their accumulators. The epilogue evaluates the product's
expression in place, sums over each group with two shuffles, and stores the normalised elements. This saves the two
passes over memory of a separate normalize (two gigabytes for 32768 x 4096). The statistics take two passes over
registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dsl.ir import (
    NCHW,
    Acc,
    Call,
    DType,
    Expr,
    Gemm,
    Load,
    Normalize,
    Operand,
    Program,
    TensorType,
    expressions,
    loads,
    reads,
)
from dsl.lower.cpp.direct_reads import direct_tree, readable
from dsl.lower.cpp.epilogue import Leaf, Tree, literal, reduction, shared
from dsl.lower.cpp.names import aligned
from dsl.rules.normalized import columns, fits

COMPUTE = (DType.TF32, DType.F16, DType.BF16, DType.E4M3, DType.E5M2)


@dataclass(frozen=True)
class NormalizedGemm(Gemm):
    """A gemm with the name of the normalize whose result it stores. `product`: its own name; `norm`: the normalize."""

    product: str = ""
    norm: Normalize | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        names = dict.fromkeys(x.name for e in expressions(self.norm) for x in loads(e))
        return (self.a, self.b, *self.norm.params, *map(Operand, names))


@dataclass(frozen=True)
class Rows:
    """The norm of a row, for templates/normalized.cu.j2.

    width     columns of a group
    first     the product's expression; `last`: the expression of a normalised element
    centred   the mean is subtracted (not in an rms norm)
    """

    name: str
    width: int
    eps: str
    centred: bool
    first: Tree
    last: Tree
    ragged: bool  # the last tile reaches beyond the last column

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple({leaf.name: leaf for t in (self.first, self.last) for leaf in t.leaves if leaf.name}.values())

    @property
    def functions(self) -> tuple[str, ...]:
        return (*self.first.functions, *self.last.functions)


def fused(program: Program, types: dict[str, TensorType]) -> Program:
    """The program with each such pair as one stage, in the place of the normalize."""
    if program.arch not in (None, "sm_90a"):
        return program
    stages = {s.name: s for s in program.stages}
    for norm in program.stages:
        gemm = stages.get(norm.x.name) if isinstance(norm, Normalize) else None
        if type(gemm) is Gemm and _fusible(program, gemm, norm, types):
            del stages[gemm.name]
            stages[norm.name] = NormalizedGemm(
                norm.name, gemm.a, gemm.b, gemm.config, product=gemm.name, norm=norm, epilogue=gemm.epilogue,
                lets=gemm.lets, store=norm.store, type=norm.type,
            )  # fmt: skip
    return replace(program, stages=tuple(stages.values()))


def _fusible(program: Program, gemm: Gemm, norm: Normalize, types: dict[str, TensorType]) -> bool:
    """Return True if the groups of each row fit in one tile and only the norm reads the product."""
    kind, config = types[gemm.name], gemm.config
    readers = [s.name for s in program.stages if gemm.name in reads(s)]
    again = [x.name for x in norm.params] + [x.name for e in expressions(norm) for x in loads(e)]
    if readers != [norm.name] or gemm.name in (*again, *program.results) or gemm.also or norm.also or gemm.pairs:
        return False
    if len(kind.shape) != 2 or norm.type.shape != kind.shape or norm.type.layout != NCHW or norm.x.transposed:
        return False
    if config.compute not in COMPUTE or not (config.tile and config.schedule) or not isinstance(norm.of, Acc):
        return False
    if config.compute is DType.TF32 and not gemm.a.transposed and not gemm.b.transposed:
        return False  # the kernel computes the transpose, in which a row is spread over warps
    every = (*expressions(gemm), *expressions(norm))
    if any(_placed(e) for e in every) or not aligned(kind.shape[1], norm.type.dtype):
        return False
    width = columns(norm, kind.shape[1])
    read = (*(_on(e, Acc()) for e in every), *(Load(p.name, ("n",)) for p in norm.params))
    if not width or not readable(read, types, *kind.shape):
        return False
    return width % 8 == 0 and fits(config, width)


def _placed(e: Expr) -> bool:
    """Return True if an expression has a reduction, or uses the indices of its element."""
    if not isinstance(e, Call):
        return False
    return reduction(e) is not None or e.fn in ("triu", "tril") or any(map(_placed, e.args))


def _matrix(load: Load) -> Load:
    """The load with its axes named m and n."""
    return Load(load.name, tuple({"b": "m", "c": "n"}.get(a, a) for a in load.axes))


def plan_rows(stage: NormalizedGemm, types: dict[str, TensorType]) -> Rows:
    """The norm of a fused stage."""
    (m, n), norm = stage.type.shape, stage.norm
    element: Expr = Acc()
    for param, fn in zip(norm.params, ("mul", "add"), strict=False):
        element = Call(fn, (element, Load(param.name, ("n",))))
    first = direct_tree(shared(stage)[0], types, m, n)
    last = direct_tree(_on(shared(norm)[0], element), types, m, n)
    ragged = n % stage.config.tile[1] != 0
    return Rows(norm.name, columns(norm, n), literal(norm.eps), norm.op != "rmsnorm", first, last, ragged)


def _on(e: Expr, acc: Expr) -> Expr:
    """The expression with acc replaced and its loads at m and n; shared subexpressions stay shared."""
    replaced: dict[int, Expr] = {}

    def walk(node: Expr) -> Expr:
        if id(node) not in replaced:
            if isinstance(node, Acc):
                replaced[id(node)] = acc
            elif isinstance(node, Load):
                replaced[id(node)] = _matrix(node)
            else:
                replaced[id(node)] = Call(node.fn, tuple(map(walk, node.args))) if isinstance(node, Call) else node
        return replaced[id(node)]

    return walk(e)
