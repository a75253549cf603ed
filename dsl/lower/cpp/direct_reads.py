"""An expression over a product's complete sums that reads its other tensors directly from memory."""

from __future__ import annotations

from dsl.ir import Expr, Load, TensorType, loads
from dsl.lower.cpp.epilogue import Leaf, Tree, build
from dsl.lower.cpp.gemm.gemm_epilogue import Output
from dsl.lower.cpp.names import identifier, storage


def direct_tree(expr: Expr, types: dict[str, TensorType], m: int, n: int) -> Tree:
    """The tree of `expr` at (row, column) of an m x n result, in which every tensor is read directly."""
    out = Output(1, m, n)

    def fetch(load: Load, _: bool) -> Leaf:
        kind = types[load.name]
        storage(kind.dtype, load.name)
        axes = set(load.axes) if kind.elements > 1 else set()
        return Leaf("direct", identifier(load.name), kind.dtype, offset=out.offset(axes, False))

    return build(expr, fetch)


def readable(every: tuple[Expr, ...], types: dict[str, TensorType], m: int, n: int) -> bool:
    """Return True if each tensor is a scalar, a vector along m or n, or m x n, and is always read at the same axes."""
    sizes = {frozenset(): 1, frozenset("m"): m, frozenset("n"): n, frozenset("mn"): m * n}
    axes: dict[str, frozenset] = {}
    for load in (x for e in every for x in loads(e)):
        names = frozenset(load.axes)
        if axes.setdefault(load.name, names) != names or types[load.name].elements not in (1, sizes.get(names)):
            return False
    return True
