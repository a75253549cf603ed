"""What the templates ask of every planned product, a convolution's implicit one among them."""

from __future__ import annotations

from dsl.ir import DType
from dsl.lower.cpp.epilogue import Tree
from dsl.lower.cpp.names import storage


class Product:
    """A product's plan: the functions that its epilogue calls, and what its launch may be told."""

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
    """One by a collective of CUTLASS 3.x, whose result D has `store` elements."""

    name: str
    store: DType

    @property
    def aux(self) -> bool:
        """Whether it reads a second full tensor."""
        return any(leaf.kind == "aux" for leaf in self.tree.leaves)

    @property
    def element_d(self) -> str:
        return storage(self.store, self.name)

    @property
    def alignment_d(self) -> int:
        return 128 // self.store.bits
