"""Outputs that reveal a kernel's errors: poisoned before each call, between guard bands, compared bit for bit.

Needs torch; only for worker processes. Works on any device, so the rules are tested without a GPU.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

GUARD = 1 << 16  # bytes on each side; a multiple of 256, so that the output has torch's alignment
PATTERN = 0xA5
BLOCK = 1 << 26  # elements that are compared at a time
SUMMED = 1 << 24  # and summed
FACTOR = 0x9E3779B97F4A7C1  # odd, so that no power of it loses bits modulo 2^64
COPIED = 1 << 30  # bytes of a result of which a copy is kept
# A quiet NaN with a payload that no arithmetic produces, or an integer that none of our sums reaches: an element that
# still holds it was never written. Eight-bit types have no spare value; there the guard bands and the comparison reveal
# errors.
POISON = {
    torch.float64: (torch.int64, 0x7FF800000000DEAD),
    torch.float32: (torch.int32, 0x7FC0DEAD),
    torch.float16: (torch.int16, 0x7EAD),
    torch.bfloat16: (torch.int16, 0x7FAD),
    torch.int32: (torch.int32, 0x7FC0DEAD),
    torch.float8_e4m3fn: (torch.int8, 0x7F),
    torch.float8_e5m2: (torch.int8, 0x7E),
    torch.int8: (torch.int8, -128),
    torch.int64: (torch.int64, 0x7FC0DEAD7FC0DEAD),
    torch.int16: (torch.int16, 0x7EAD),
    torch.uint8: (torch.int8, -128),
    torch.bool: (torch.int8, 1),
}


class Guarded:
    """One output tensor of `shape`, dense, 256-byte aligned, with a guard band before and after it."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: str):
        bytes_ = prod(shape) * dtype.itemsize
        padded = -(-bytes_ // 256) * 256
        self._whole = torch.empty(2 * GUARD + padded + 256, dtype=torch.uint8, device=device)
        start = GUARD + (-(self._whole.data_ptr() + GUARD)) % 256
        self._before, self._after = self._whole[:start], self._whole[start + bytes_ :]
        self.tensor = self._whole[start : start + bytes_].view(dtype).reshape(shape)
        self._bits, self._poison = POISON[dtype]
        self._before.fill_(PATTERN)
        self._after.fill_(PATTERN)

    def poison(self) -> None:
        """Fill every element with the NaN that no kernel writes."""
        self.tensor.view(self._bits).fill_(self._poison)

    def unwritten(self) -> int:
        """The number of elements that still hold the poison."""
        return unwritten(self.tensor)

    def intact(self) -> bool:
        """Return True if both guard bands are unchanged."""
        return bool((self._before == PATTERN).all()) and bool((self._after == PATTERN).all())


def unwritten(x: torch.Tensor) -> int:
    """The number of elements that hold the poison; 0 for types that have no spare value."""
    bits, poison = POISON.get(x.dtype, (torch.int8, 0))
    if bits is torch.int8:
        return 0
    blocks = x.contiguous().view(bits).reshape(-1).split(BLOCK)
    return int(sum((block == poison).sum() for block in blocks))  # the host waits once


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if equal bit for bit, also for NaNs."""
    pairs = zip(_bits(a).split(BLOCK), _bits(b).split(BLOCK), strict=True)
    return a.shape == b.shape and all(torch.equal(x, y) for x, y in pairs)


def _bits(x: torch.Tensor) -> torch.Tensor:
    """The elements as integers, in one row."""
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.contiguous().reshape(-1).view(kind)


class Mark:
    """The bits of a tensor, to recognise them later: a copy, or two sums of all of them for one of gigabytes (of a
    program of ours, which is not made to deceive them)."""

    def __init__(self, x: torch.Tensor):
        self._copy = x.clone() if x.nbytes <= COPIED else None
        self._sums = None if self._copy is not None else _sums(x)

    def of(self, x: torch.Tensor) -> bool:
        """Return True if `x` has these bits."""
        return same_bits(self._copy, x) if self._copy is not None else _sums(x) == self._sums


def _sums(x: torch.Tensor) -> tuple[int, int]:
    """The sum of all bits as integers, and that of each times an odd number that depends on its place, modulo 2^64: on
    the place in its block, and by a power on the number of the block."""
    blocks = _bits(x).split(SUMMED)
    odd = torch.arange(blocks[0].numel(), device=x.device).mul_(FACTOR).bitwise_or_(1)
    sums = torch.stack([
        torch.stack([block.sum(dtype=torch.int64), (odd[: block.numel()] * block).sum()]) for block in blocks
    ])  # fmt: skip
    plain = placed = 0
    for one, other in sums.tolist():
        plain, placed = plain + one, placed * FACTOR + other
    return plain % 2**64, placed % 2**64


def wrong_writes(outputs: list[Guarded], inputs: list[Any], before: list[Any]) -> tuple[str, str] | None:
    """(code, sentence) if the call left out an element, or wrote outside an output or into an input; else None."""
    for i, out in enumerate(outputs):
        unwritten = out.unwritten()
        if unwritten:
            return "unwritten", f"{unwritten:,} of {out.tensor.numel():,} elements of result {i + 1} were never written"
        if not out.intact():
            return "out_of_bounds", f"the program wrote outside of result {i + 1}"
    for i, (now, then) in enumerate(zip(inputs, before, strict=True)):
        if not same_bits(now, then):
            return "input_written", f"the program changed its input {i + 1}"
    return None


def first_writes(device: str) -> None:
    """Use once what every check of outputs runs, so that the GPU's lane need not wait while its code is loaded."""
    outputs = [Guarded((8, 8), dtype, device) for dtype in (torch.float32, torch.float16)]
    for out in outputs:
        out.poison()
        Mark(out.tensor).of(out.tensor)
        out.unwritten()
    wrong_writes(outputs, [], [])
