"""The elements that an expression is computed for, and the axes at which it may read other tensors."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import TensorType


@dataclass(frozen=True)
class Space:
    """The index space of an expression: the shape of its elements, and the positions of each named axis.

    `product`: the elements come from a gemm, so row and column reductions and triu, tril are allowed. `pairs`: there
    is an `acc2`. `scaled`: acc was divided by the largest magnitude of its row; `acc2` is that magnitude, and row_max
    can store it. `before`: acc was normalised, and `acc2` is the element before that. `parts`: an expression may read a
    part of a tensor. `whole`: an expression may read i8, as whole numbers. `spoken`: the word for acc in messages.
    """

    shape: tuple[int, ...]
    axes: dict[str, tuple[int, ...]]
    product: bool = False
    pairs: bool = False
    scaled: bool = False
    before: bool = False
    parts: bool = False
    whole: bool = False
    spoken: str = "product"

    def dims(self, names) -> tuple[int, ...]:
        return tuple(self.shape[i] for name in names for i in self.axes[name])

    def fitting(self, tensor: TensorType) -> list[str]:
        """The axes at which `tensor` can be read here: `['[m]', '[n]']` for a vector when M == N."""
        names, readings = list(self.axes), {}
        for bits in range(1, 2 ** len(names)):
            chosen = [a for i, a in enumerate(names) if bits >> i & 1]
            at = tuple(i for a in chosen for i in self.axes[a])
            if at == tuple(sorted(set(at))) and self.dims(chosen) == tensor.shape:
                readings.setdefault(at, []).append(chosen)
        best = [min(ways, key=lambda w: (len(self.shape) > 3 and "c" not in w, len(w))) for ways in readings.values()]
        return [f"[{', '.join(w)}]" for w in best]


def shape_text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
