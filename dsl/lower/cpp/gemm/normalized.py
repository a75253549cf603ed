"""A product whose rows are normalised while they are in registers: a gemm and the normalize that alone reads it.

A group norm of a matrix normalises so many neighbouring columns of a row, a layer or rms norm the whole row. Where such
a group lies in one tile, four lanes hold it among their accumulators, and the two passes over memory that a normalize
of its own takes (two gigabytes for 32768 x 4096) fall away: the epilogue evaluates the product's expression in place,
sums over each group by two shuffles, and stores what the norm makes of it. Statistics are of two passes over registers.
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
    """A gemm named as the normalize whose result it stores; `product` was its name, `norm` the stage."""

    product: str = ""
    norm: Normalize | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        found = dict.fromkeys(x.name for e in expressions(self.norm) for x in loads(e))
        return (self.a, self.b, *self.norm.params, *map(Operand, found))


@dataclass(frozen=True)
class Rows:
    """What the epilogue does to a row, for templates/normalized.cu.j2.

    width     columns of a group
    first     the product's own expression; `last`: what becomes of a normalised element
    centred   the mean is taken off (not in an rms norm)
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
    """The program with every such pair as one stage, where the normalize stood."""
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
    """Whether each row's groups lie in one tile and nothing else needs the product."""
    kind, config = types[gemm.name], gemm.config
    wanted = [s.name for s in program.stages if gemm.name in reads(s)]
    again = [x.name for x in norm.params] + [x.name for e in expressions(norm) for x in loads(e)]
    if wanted != [norm.name] or gemm.name in (*again, *program.results) or gemm.also or norm.also or gemm.pairs:
        return False
    if len(kind.shape) != 2 or norm.type.shape != kind.shape or norm.type.layout != NCHW or norm.x.transposed:
        return False
    if config.compute not in COMPUTE or not (config.tile and config.schedule) or not isinstance(norm.of, Acc):
        return False
    if config.compute is DType.TF32 and not gemm.a.transposed and not gemm.b.transposed:
        return False  # computed as its transpose: the rows lie across warps
    every = (*expressions(gemm), *expressions(norm))
    if any(_placed(e) for e in every) or not aligned(kind.shape[1], norm.type.dtype):
        return False
    width = columns(norm, kind.shape[1])
    read = (*(_on(e, Acc()) for e in every), *(Load(p.name, ("n",)) for p in norm.params))
    if not width or not readable(read, types, *kind.shape):
        return False
    return width % 8 == 0 and fits(config, width)


def _placed(e: Expr) -> bool:
    """Whether an expression reduces, or asks for its element's own place."""
    if not isinstance(e, Call):
        return False
    return reduction(e) is not None or e.fn in ("triu", "tril") or any(map(_placed, e.args))


def _matrix(load: Load) -> Load:
    """With its axes named m and n."""
    return Load(load.name, tuple({"b": "m", "c": "n"}.get(a, a) for a in load.axes))


def plan_rows(stage: NormalizedGemm, types: dict[str, TensorType]) -> Rows:
    """The two expressions and the group, of a pair that `fused` made one."""
    (m, n), norm = stage.type.shape, stage.norm
    element: Expr = Acc()
    for param, fn in zip(norm.params, ("mul", "add"), strict=False):
        element = Call(fn, (element, Load(param.name, ("n",))))
    first = direct_tree(shared(stage)[0], types, m, n)
    last = direct_tree(_on(shared(norm)[0], element), types, m, n)
    ragged = n % stage.config.tile[1] != 0
    return Rows(norm.name, columns(norm, n), literal(norm.eps), norm.op != "rmsnorm", first, last, ragged)


def _on(e: Expr, acc: Expr) -> Expr:
    """The expression over another element, its loads as m and n; what is shared stays shared."""
    made: dict[int, Expr] = {}

    def walk(node: Expr) -> Expr:
        if id(node) not in made:
            if isinstance(node, Acc):
                made[id(node)] = acc
            elif isinstance(node, Load):
                made[id(node)] = _matrix(node)
            else:
                made[id(node)] = Call(node.fn, tuple(map(walk, node.args))) if isinstance(node, Call) else node
        return made[id(node)]

    return walk(e)
