"""How a reduction is shared among threads and blocks. The kernels follow it, and sol.model.launches counts by it."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.lower.cute.generated_kernels import SMS, THREADS
from dsl.lower.cute.reduce.reduce_writer import FLIGHT, halving

MANY_THREADS, WIDE = 1024, 128  # of a block for many long columns, and how many of them it reads side by side


@dataclass(frozen=True)
class Share:
    """`threads` of a block share one result (of rows) or lie along neighbouring results (of columns), with `flight`
    reads in flight; `blocks` of them along the results, and `parts` blocks that share a result, each with `per` steps.
    With more than one part, a second kernel joins them."""

    threads: int
    flight: int
    blocks: int
    per: int
    parts: int = 1


def of_rows(outputs: int, vectors: int, width: int) -> Share:
    """`outputs` results, each of `vectors` vectors of `width` elements that lie side by side."""
    threads = halving(vectors, 32)
    if vectors >= 1024 or (vectors > 128 and outputs < SMS * 8):
        threads = THREADS
    flight = max(1, min(FLIGHT // width * 2 if width > 4 else FLIGHT // width, vectors // threads))
    blocks = -(-outputs // (THREADS // threads))
    if threads == THREADS and blocks < 2 * SMS and vectors > 2 * threads * flight:
        return Share(threads, flight, blocks, *_parts(blocks, vectors, threads * flight))
    return Share(threads, flight, blocks, vectors)


def many_columns(outputs: int, elements: int, width: int) -> bool:
    """Return True for long columns that no vector reads, enough for every multiprocessor. A block of 1,024 threads then
    reads 512 neighbouring bytes of eight rows at a time: 8.6 GB take an H200 2.08 ms, with 256 threads, 128 bytes of
    each row, 2.51."""
    return width == 1 and elements >= 256 and outputs >= 2 * SMS * WIDE


def of_columns(outputs: int, elements: int, width: int, threads: int = THREADS) -> Share:
    """`outputs` results that are neighbours, `width` of them a thread, each of `elements` elements; `threads`: of a
    block, more than THREADS for `many_columns`."""
    columns = outputs // width
    across, most = (halving(columns, 32), 8) if threads == THREADS else (WIDE, 4)
    while across < 256 and elements < threads // across:
        across *= 2
    down = threads // across
    blocks = -(-columns // across)
    flight = max(1, min(most, elements // down))
    if blocks < 2 * SMS and elements > 2 * down * flight:
        return Share(across, flight, blocks, *_parts(blocks, elements, down * flight))
    return Share(across, flight, blocks, elements)


def _parts(blocks: int, steps: int, chunk: int) -> tuple[int, int]:
    """(steps of one part, parts) so that about four blocks run on each multiprocessor."""
    chunks = -(-steps // chunk)
    parts = min(chunks, -(-4 * SMS // blocks))
    per = -(-chunks // parts) * chunk
    return per, -(-steps // per)
