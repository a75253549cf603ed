"""The menu of optimisations of each workload class: the item at place d is the optimisation of depth d.

The study (arXiv 2604.01489) names the idea, one optimisation a step by the class of the workload. The items, their
words and their order are ours. They follow the order in which a person would tune such a kernel: structure and data
movement first, while no profile is shown, and details of the machine later.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One optimisation. `what`: one sentence for the model; `clause`: the clause of the language that it varies in a
    program, "" if the language has none."""

    title: str
    what: str
    clause: str = ""


TILE = Item("tile shape", "Choose the tile of a thread block and its split over warp groups for these shapes.", "tile")
STAGES = Item(
    "pipeline of stages", "Load the next tiles asynchronously (TMA or cp.async) into a ring of stages.", "stages"
)
WARPS = Item(
    "warp specialisation", "Give loading and computing to different warp groups, cooperative or ping-pong.", "schedule"
)
EPILOGUE = Item("fused epilogue", "Apply everything after the product to the accumulator, before it is stored.")
SHARED = Item("shared-memory layout", "Swizzle the layouts in shared memory so that no access has a bank conflict.")
CLUSTER = Item("cluster and multicast", "Let the blocks of a cluster share their loads by multicast.", "cluster")
ORDER = Item("order of tiles", "Order the tiles so that those that run together share operands in L2.", "swizzle")
SPLIT = Item(
    "split of the reduction", "Split k over blocks, or stream it, where too few tiles fill the GPU.", "split_k"
)
OCCUPANCY = Item("registers and occupancy", "Balance registers, shared memory and resident blocks; remove spills.")
LAST = Item("largest bottleneck", "Remove the bottleneck that now costs most time, with the smallest change.")
VECTORS = Item("vector accesses", "Load and store 16 bytes a thread, aligned and coalesced.")
ELEMENTS = Item("elements a thread", "Give each thread several independent elements, so that loads overlap.")
FORMULA = Item("cheaper formula", "Compute the function with fewer instructions, within the tolerance of its class.")
ONE_PASS = Item("one pass", "Read each element once: keep it in registers or shared memory, or compute online.")
ROWS = Item("rows a block", "Choose how many rows a block takes and how many threads share a row.")
SHUFFLES = Item("reduction in the warp", "Reduce by shuffles in the warp first, then once through shared memory.")
GRID = Item("grid", "Choose a persistent grid or one block a tile, so that the last wave is full.")
CACHE = Item("cache hints", "Stream what is used once past the cache, and keep what is used again.")

MENUS: dict[str, tuple[Item, ...]] = {
    "product": (TILE, STAGES, WARPS, EPILOGUE, SHARED, CLUSTER, ORDER, SPLIT, OCCUPANCY, LAST),
    "convolution": (
        Item("implicit product", "Address the windows of channels-last input as rows of a product, without a copy."),
        TILE, STAGES, EPILOGUE, WARPS, SHARED, CLUSTER, SPLIT, OCCUPANCY, LAST,
    ),
    "reduction": (ONE_PASS, VECTORS, ROWS, SHUFFLES, ELEMENTS, GRID, OCCUPANCY, LAST),
    "loss": (
        Item("fused passes", "Compute the loss of each element and its sum in one pass, without an intermediate."),
        Item("two levels of sums", "Sum in registers, then in the block, then over the blocks."),
        VECTORS, SHUFFLES, GRID, LAST,
    ),
    "activation": (VECTORS, ELEMENTS, FORMULA, GRID, CACHE, LAST),
    "other": (VECTORS, ONE_PASS, ELEMENTS, GRID, OCCUPANCY, LAST),
}  # fmt: skip


def item(cls: str, depth: int) -> Item:
    """The optimisation of a depth, from 1; the last item is repeated."""
    menu = MENUS[cls]
    return menu[min(depth, len(menu)) - 1]


__all__ = ["LAST", "MENUS", "Item", "item"]
