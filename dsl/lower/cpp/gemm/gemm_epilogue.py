"""The epilogue of a product: what its leaves fetch, what the compute node reads, writes and reduces, and where."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import Call, DType, Expr, Gemm, GroupedGemm, Load, TensorType, expressions, loads
from dsl.lower.cpp.epilogue import Leaf, Tree, Write, build, leaf, reduction, shared
from dsl.lower.cpp.names import identifier, storage


@dataclass(frozen=True)
class Output:
    """The result's shape as the program has it. `turned`: the kernel computes its transpose. `direct`: the compute node
    itself stores the result, element by element. `one_source`: TMA reads one full tensor, the node any others."""

    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    turned: bool = False
    pairs: bool = False
    direct: bool = False
    one_source: bool = False

    @property
    def place(self) -> tuple[str, ...]:
        return ("int const row = n, column = m;",) if self.turned else ("int const row = m, column = n;",)

    def offset(self, axes: set[str], batched: bool) -> str:
        """Of the element in a dense tensor with these of m and n, and l where it is `batched`."""
        terms, size = [], {"m": self.m, "n": self.n}
        step = 1
        for axis, at in (("n", "column"), ("m", "row")):
            if axis in axes:
                terms.insert(0, f"int64_t({at}) * {step}" if step > 1 else f"int64_t({at})")
                step *= size[axis]
        if batched:
            terms.insert(0, f"int64_t(l) * {step}" if step > 1 else "int64_t(l)")
        return " + ".join(terms) or "0"


def plan_output(
    stage: Gemm | GroupedGemm, types: dict[str, TensorType], out: Output, fold: bool
) -> tuple[Tree, bool, DType]:
    """The tree, whether the result leaves by TMA, and its element type. `fold`: batches are one tall product."""
    main, also = shared(stage)
    main, *also = _without_batches((main, *also)) if fold else (main, *also)
    name, writes, totals = identifier(stage.name), [], []
    of_main = reduction(main)
    stored = not (of_main or out.pairs or out.direct)
    store = DType.F32 if of_main else stage.type.dtype if stage.type else stage.store or types[stage.a.name].dtype
    storage(store, name)
    everywhere = out.offset({"m", "n"}, out.l > 1)
    if of_main:
        totals.append((name, *of_main))
        main = of_main[2]
    elif not stored:
        writes.append(Write(name, store, everywhere, main))
    for extra, expr in zip(stage.also, also, strict=True):
        if found := reduction(expr):
            totals.append((identifier(extra.name), *found))
        else:
            kind = extra.type.dtype if extra.type else store
            storage(kind, extra.name)
            writes.append(Write(identifier(extra.name), kind, everywhere, expr))

    def fetch(load: Load, have_source: bool) -> Leaf:
        found = leaf(load, types, out.l, out.m, out.n, have_source, out.turned, by_tma=stored)
        whole = found.kind in ("source", "aux")
        moved = out.direct and found.kind == "column"  # rows that are not the kernel's
        further = out.one_source and found.kind == "aux"
        if not (out.pairs or moved or further or (whole and not stored)):
            return found
        axes = set(load.axes) & {"m", "n"} if found.kind != "scalar" else set()
        return Leaf("direct", found.name, found.dtype, offset=out.offset(axes, found.batch > 0))

    tree = build(main, fetch, tuple(writes), out.place, tuple(totals))
    return tree, stored, store


def folds(stage: Gemm, types: dict[str, TensorType], l: int, m: int, n: int) -> bool:  # noqa: E741
    """Whether batches of A against one B are one product of l*m rows: nothing may depend on m or l alone."""
    if len(types[stage.b.name].shape) > 2 or stage.a.transposed:
        return False
    every = expressions(stage)
    if any(_fixed(e) for e in every):
        return False
    width = n // 2 if stage.pairs else n
    for load in dict.fromkeys(x for e in every for x in loads(e)):
        elements, inner = types[load.name].elements, set(load.axes) - {"l"}
        once = (
            elements == 1
            or (inner == {"n"} and elements == width)
            or (inner == {"m", "n"} and elements == l * m * width)
        )
        if not once:
            return False
    return True


def _fixed(e: Expr) -> bool:
    """Whether an expression asks for an element's own row, or sums over the rows of a batch."""
    return isinstance(e, Call) and (e.fn in ("triu", "tril", "col_sum") or any(map(_fixed, e.args)))


def _without_batches(exprs: tuple[Expr, ...]) -> list[Expr]:
    """`r[l, m, n]` reads as `r[m, n]` of the tall product. Shared subexpressions stay shared."""
    done: dict[int, Expr] = {}

    def walk(node: Expr) -> Expr:
        if id(node) not in done:
            if isinstance(node, Load):
                done[id(node)] = Load(node.name, tuple(a for a in node.axes if a in ("m", "n")))
            elif isinstance(node, Call):
                done[id(node)] = Call(node.fn, tuple(walk(arg) for arg in node.args))
            else:
                done[id(node)] = node
        return done[id(node)]

    return [walk(e) for e in exprs]
