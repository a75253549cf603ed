"""The epilogue of a product: its leaves, and the tensors that the compute node reads, writes and reduces."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import Call, DType, Expr, Gemm, GroupedGemm, Load, TensorType, expressions, loads
from dsl.lower.cpp.epilogue import Leaf, Tree, Write, build, leaf, reduction, shared
from dsl.lower.cpp.names import identifier, storage


@dataclass(frozen=True)
class Output:
    """The result's shape in the program.

    `transposed_result`: the kernel computes its transpose. `direct`: the compute node stores the result element by
    element. `one_source`: TMA reads one full tensor, and the compute node reads the others.
    """

    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    transposed_result: bool = False
    pairs: bool = False
    direct: bool = False
    one_source: bool = False

    @property
    def place(self) -> tuple[str, ...]:
        return ("int const row = n, column = m;",) if self.transposed_result else ("int const row = m, column = n;",)

    def offset(self, axes: set[str], batched: bool) -> str:
        """The element's offset in a dense tensor with these axes of m and n, and with l if it is `batched`."""
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
    """The tree, True if TMA stores the result, and its element type. `fold`: the batches are one tall product."""
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
        if total := reduction(expr):
            totals.append((identifier(extra.name), *total))
        else:
            kind = extra.type.dtype if extra.type else store
            storage(kind, extra.name)
            writes.append(Write(identifier(extra.name), kind, everywhere, expr))

    def fetch(load: Load, have_source: bool) -> Leaf:
        fetched = leaf(load, types, out.l, out.m, out.n, have_source, out.transposed_result, by_tma=stored)
        whole = fetched.kind in ("source", "aux")
        moved = out.direct and fetched.kind == "column"  # the kernel's rows are not those of the result
        further = out.one_source and fetched.kind == "aux"
        if not (out.pairs or moved or further or (whole and not stored)):
            return fetched
        axes = set(load.axes) & {"m", "n"} if fetched.kind != "scalar" else set()
        return Leaf("direct", fetched.name, fetched.dtype, offset=out.offset(axes, fetched.batch > 0))

    tree = build(main, fetch, tuple(writes), out.place, tuple(totals))
    return tree, stored, store


def folds(stage: Gemm, types: dict[str, TensorType], l: int, m: int, n: int) -> bool:  # noqa: E741
    """Return True if batches of A with one shared B can be one product of l*m rows.

    No expression may then depend on m or l alone.
    """
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
    """Return True if an expression uses the row index of an element, or sums over the rows of a batch."""
    return isinstance(e, Call) and (e.fn in ("triu", "tril", "col_sum") or any(map(_fixed, e.args)))


def _without_batches(exprs: tuple[Expr, ...]) -> list[Expr]:
    """The expressions with `r[l, m, n]` as `r[m, n]` of the tall product; shared subexpressions stay shared."""
    folded: dict[int, Expr] = {}

    def walk(node: Expr) -> Expr:
        if id(node) not in folded:
            if isinstance(node, Load):
                folded[id(node)] = Load(node.name, tuple(a for a in node.axes if a in ("m", "n")))
            elif isinstance(node, Call):
                folded[id(node)] = Call(node.fn, tuple(walk(arg) for arg in node.args))
            else:
                folded[id(node)] = node
        return folded[id(node)]

    return [walk(e) for e in exprs]
