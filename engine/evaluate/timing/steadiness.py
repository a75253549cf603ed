"""See that something disturbed a measurement, and take it again.

The times of an undisturbed call on an H200 are narrow: over 70 recorded measurements of 0.1 to 20 ms the middle half of
a sample spans 0.4% of its median (2% at most), and its two halves differ by 0.1% (0.8% at most). A process that starts
on the GPU, or another program's work, widens or moves them; medians hide that, intervals show it only in part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeVar

SPREAD, DRIFT = 0.04, 0.02  # twice what an undisturbed sample shows
GRAIN_MS = 0.0015  # what clocks and launches add to any call
TIMES = 3  # at most so many measurements of one call
LONG = 2.0  # seconds after which it is not measured again: the GPU is for others, too

T = TypeVar("T")


def unrest(*samples: Sequence[float]) -> str:
    """What is unsteady in the samples of the two sides, in ms, in words; "" if they are steady."""
    return next((words for sample in samples if (words := _unrest(sample))), "")


def _unrest(sample: Sequence[float]) -> str:
    if len(sample) < 4:
        return ""
    middle, n, ordered = median(sample), len(sample), sorted(sample)
    spread = max(0.0, ordered[3 * n // 4] - ordered[n // 4] - GRAIN_MS) / middle
    drift = max(0.0, abs(median(sample[: n // 2]) - median(sample[n // 2 :])) - GRAIN_MS) / middle
    if spread > SPREAD:
        return f"the middle half of its times spans {spread:.0%}"
    if drift > DRIFT:
        return f"its times moved by {drift:.0%} meanwhile"
    return ""


def steady(take: Callable[[], T], samples: Callable[[T], Sequence[Sequence[float]]]) -> tuple[T, dict[str, Any]]:
    """A measurement that nothing disturbed; or the last one, after TIMES of them or LONG seconds. Beside it what to
    log: {unsteady: the unrest of each disturbed one, disturbed: whether this one is, too}, or {}."""
    unsteady: list[str] = []
    began = time.monotonic()
    while True:
        measured = take()
        words = unrest(*samples(measured))
        unsteady += [words] if words else []
        if not words or len(unsteady) == TIMES or time.monotonic() - began > LONG:
            return measured, {"unsteady": unsteady, "disturbed": bool(words)} if unsteady else {}
