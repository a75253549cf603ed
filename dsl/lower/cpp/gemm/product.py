"""The properties of every planned product, and of a convolution's implicit product, that templates use."""

from __future__ import annotations

from dsl.ir import DType
from dsl.lower.cpp.epilogue import Tree
from dsl.lower.cpp.names import storage


class Product:
    """A product's plan: the functions that its epilogue calls, and its run-time choices."""

    tree: Tree
    swizzle: int
    splits: int

    @property
    def functions(self) -> tuple[str, ...]:
        return self.tree.functions

    @property
    def launch(self) -> tuple[int, ...]:
        return (self.swizzle, self.splits)


class Product3x(Product):
    """A product by a collective of CUTLASS 3.x, whose result D has elements of type `store`."""

    name: str
    store: DType

    @property
    def aux(self) -> bool:
        """Return True if the epilogue reads a second full tensor."""
        return any(leaf.kind == "aux" for leaf in self.tree.leaves)

    @property
    def element_d(self) -> str:
        return storage(self.store, self.name)

    @property
    def alignment_d(self) -> int:
        return 128 // self.store.bits
