"""Tensors in shared memory: the position of each, for a process that gets only the description.

A region is a sealed memory file of a known size (engine.sandbox), so reading it can neither fault nor grow. Its
description is plain JSON; torch is imported only to create tensors.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from sol.graph import DTYPE_BYTES

ALIGN = 256


@dataclass(frozen=True)
class Slot:
    """One tensor: byte offset, shape, and element type by its name in sol.graph. Row-major, dense."""

    offset: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        return prod(self.shape) * DTYPE_BYTES[self.dtype]

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Slot:
        return Slot(raw["offset"], tuple(raw["shape"]), raw["dtype"])


@dataclass(frozen=True)
class Region:
    """`path` opens the memory from any process of ours; "": it is the block that both processes share
    (engine.evaluate.shared_memory). `tensors` by their names in the graph."""

    path: str
    size: int
    tensors: dict[str, Slot]

    def to_json(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_json(raw: dict) -> Region:
        slots = {n: Slot.from_json(s) for n, s in raw["tensors"].items()}
        return Region(raw["path"], raw["size"], slots)


def aligned(size: int) -> int:
    """Bytes up to the next place where a tensor may begin."""
    return -(-size // ALIGN) * ALIGN


def layout(tensors: dict[str, tuple[tuple[int, ...], str]]) -> tuple[dict[str, Slot], int]:
    """Slots for tensors given as name -> (shape, dtype), each aligned, and the bytes they need together."""
    slots, end = {}, 0
    for name, (shape, dtype) in tensors.items():
        slots[name] = Slot(end, tuple(shape), dtype)
        end += aligned(slots[name].bytes)
    return slots, max(end, mmap.PAGESIZE)


def tensor_at(memory: Any, slot: Slot) -> Any:
    """A torch tensor that is a view of the slot (no copy). `memory`: a map, or a shared_memory.Block."""
    if hasattr(memory, "tensor"):
        return memory.tensor(slot)
    import torch

    from engine.evaluate.correctness.inputs import torch_dtype

    if slot.bytes == 0:
        return torch.empty(slot.shape, dtype=torch_dtype(slot.dtype))
    raw = torch.frombuffer(memory, dtype=torch.uint8, count=slot.bytes, offset=slot.offset)
    return raw.view(torch_dtype(slot.dtype)).reshape(slot.shape)


def read(region: Region, names: list[str] | None = None, device: str = "cpu") -> dict[str, Any]:
    """Copies of the region's tensors on `device`."""
    import torch

    with open(region.path, "r+b") as f:
        memory = mmap.mmap(f.fileno(), region.size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    slots = region.tensors if names is None else {n: region.tensors[n] for n in names}
    tensors = {}
    for name, slot in slots.items():
        view = tensor_at(memory, slot)
        tensors[name] = view.clone() if device == "cpu" else view.to(device)
    if device != "cpu":
        torch.cuda.synchronize()
    return tensors
