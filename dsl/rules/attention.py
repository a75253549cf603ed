"""The tiles of attention on sm_90a: queries and keys of one step, by the size of a head.

They are those that flash-attn-4 takes on an H100 (its interface's table), with the same two choices: whether the second
product reads its left side from registers, and whether the products of two steps overlap.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """`queries` x `keys` of one step. `registers`: the probabilities go to the second product through registers, not
    through shared memory."""

    queries: int
    keys: int
    registers: bool = True

    @property
    def threads(self) -> int:
        """A warp group for each 64 queries, and one that loads."""
        return 128 * (self.queries // 64 + 1)


def tile(d: int, e: int, causal: bool) -> Tile:
    """The tile for heads of `d` elements in q and k, `e` in v."""
    size = max(d, e)
    if size <= 64:
        return Tile(192, 128)
    if size <= 96:
        return Tile(192, 128 if causal else 144, registers=False)
    if size <= 128:
        return Tile(128, 128)
    if size <= 192:
        return Tile(128, 128 if e <= 128 else 112)
    return Tile(128, 80)


__all__ = ["Tile", "tile"]
