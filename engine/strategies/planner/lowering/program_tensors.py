"""The tensors of a program that is being built: their names and types, and their transforms, each written once."""

from __future__ import annotations

from dsl import ir
from dsl.ir import NCHW, DType, Operand, TensorType
from engine.strategies.planner.lowering.drafts import part_of, stage_of


class Tensors:
    """`types`: of every tensor so far; `stages`: of the program so far, transforms included."""

    def __init__(self, lowered):
        self.lowered = lowered
        self.types: dict[str, TensorType] = {p.name: p.type for p in lowered.params}
        self.reserved = {p.name for p in lowered.params} | {n for names in lowered.names for n in names}
        self.reserved |= {"acc", "acc2", *"lmnT"}
        self.transforms: dict[tuple, str] = {}  # (tensor, its changes) -> the changed tensor
        self.stages: list[ir.Stage] = []

    def fresh(self, wanted: str) -> str:
        name, i = wanted, 2
        while name in self.reserved:
            name, i = f"{wanted}{i}" if len(wanted) == 1 else f"{wanted}_{i}", i + 1
        self.reserved.add(name)
        return name

    def name_of(self, reference: str, shape: tuple[int, ...]) -> str:
        at = stage_of(reference)
        return self.lowered.keys[(reference, shape)] if at is None else self.lowered.names[at][part_of(reference)]

    def transform(
        self, name: str, *, view: tuple[int, ...] | None = None, permute: tuple[int, ...] | None = None,
        pad: tuple[int, ...] | None = None, crop: tuple[int, ...] | None = None, layout: str | None = None,
        to: DType | None = None, result: str | None = None,
    ) -> str:  # fmt: skip
        """The changed tensor, or the name of the old one if nothing changes. Created once for all its readers."""
        t = self.types[name]
        shape = view or t.shape
        view = None if shape == t.shape else view
        if permute is not None and permute == tuple(sorted(permute)):
            permute = None
        shape = tuple(shape[i] for i in permute) if permute else shape
        pad = None if pad == shape else pad
        crop = None if crop == shape else crop
        own = t.layout if view is None and permute is None else NCHW
        layout = None if layout == own else layout
        to = None if to is t.dtype else to
        key = (name, view, permute, pad, crop, layout, to)
        if not any(key[1:]) and result is None:
            return name
        if key in self.transforms and result is None:
            return self.transforms[key]
        words = [("t" if permute else ""), ("padded" if pad else ""), layout or "", to.value if to else ""]
        fresh = result or self.fresh("_".join([name, *(w for w in words if w)]))
        self.transforms.setdefault(key, fresh)
        self.types[fresh] = TensorType(to or t.dtype, pad or crop or shape, layout or own)
        self.stages.append(
            ir.Transform(
                fresh, Operand(name), to=to, view=view, permute=permute, pad=pad, crop=crop, store_layout=layout
            )
        )
        return fresh


__all__ = ["Tensors"]
