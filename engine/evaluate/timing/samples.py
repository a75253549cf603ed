"""Device time of one call, and the statistics of paired samples.

The module's process and the candidate's process both use `Timer`, so that the two sides of a ratio are timed in the
same way. The engine asks them in turn (A B A B), because clocks drift with heat: only a ratio of adjacent calls means
anything (measured on an H200: the same call moved by 17% within a minute).

`Timer` needs torch and CUDA and is used in worker processes; the statistics are plain Python for the engine.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

METHOD = "CUDA events less their own time, L2 flushed, launches queued behind a held stream, median of paired calls"
# The stream is held this long before the first event, so that all launches of the call are queued by then and the
# events enclose only device work, not Python. About 0.25 ms at 1.98 GHz: more than ten launches need. A call that is
# not queued by then (many launches, a busy host) is timed again behind a longer hold.
HOLD_CYCLES = 500_000
LONGEST_HOLD = 32 * HOLD_CYCLES
CYCLES_A_SECOND = 2e9
MARGIN = 3  # the hold is so many times what queueing took the last time
MOST_SETS, LARGE_SET = 4, 1 << 30
LONG_MS, LONG_CALLS = 1.0, 4  # of a call this long, the host's time is taken only so often
MOST_OVERHEAD_MS = 0.008  # a larger "time of the events themselves" comes from a disturbed machine and is ignored


def _nothing() -> None:
    return None


class Timer:
    """Times calls on the current CUDA stream; `hold_cycles` should be longer than the queueing of a call's launches."""

    def __init__(self, hold_cycles: int = HOLD_CYCLES):
        import torch

        self._torch, self._hold = torch, hold_cycles
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self._flush = torch.empty(2 * l2, dtype=torch.uint8, device="cuda")
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def flush(self) -> None:
        """Write twice the size of L2, so that no inputs stay in it."""
        self._flush.fill_(1)

    def sample(self, call: Callable[[], object], before: Callable[[], object] = _nothing) -> float:
        """Milliseconds of device time of one call, with a cold L2 (flushed by writing twice its size). `before` runs
        ahead of each call, outside of its time.

        The call is repeated behind a longer hold if the device started it before the host had queued all of it. A call
        that waits for the device itself is never queued ahead, and is timed as it is, later ones behind the longest
        hold at once.
        """
        hold = self._hold
        while True:
            before()
            self._flush.fill_(1)
            self._torch.cuda._sleep(hold)
            began = time.perf_counter()
            self._start.record()
            call()
            queueing = time.perf_counter() - began
            ahead = not self._start.query()
            self._end.record()
            self._torch.cuda.synchronize()
            if ahead or hold >= LONGEST_HOLD:
                break
            hold *= 4
        self._hold = next_hold(hold, queueing) if ahead else hold
        return self._start.elapsed_time(self._end)

    def overhead(self, repeats: int = 15) -> float:
        """Milliseconds that events add to the work between them: their time of a kernel that does nothing, minus
        CUPTI's time of it (4 to 5 us on an H200: the launch of the first kernel and the end of the last). 0 if CUPTI
        does not answer. Take it in a quiet process of ours; it belongs to the machine, not to the call."""
        from engine.evaluate.timing.cupti import beside_events

        def nothing() -> None:
            self._torch.cuda._sleep(0)

        by_events = median(self.sample(nothing) for _ in range(repeats))
        try:
            by_cupti = [span for _, span in beside_events(nothing, self, repeats)]
        except Exception:  # a container may have CUDA without CUPTI
            return 0.0
        added = by_events - median(by_cupti) if by_cupti else 0.0
        return added if 0.0 <= added <= MOST_OVERHEAD_MS else 0.0

    def call_time(self, call: Callable[[], object], before: Callable[[], object] = _nothing) -> float:
        """Milliseconds of host wall time of one call: launch to synchronised end, L2 flushed before."""
        before()
        self._flush.fill_(1)
        self._torch.cuda.synchronize()
        t = time.perf_counter()
        call()
        self._torch.cuda.synchronize()
        return (time.perf_counter() - t) * 1e3


class CallTimes:
    """The host's time of one call beside each sample. It takes a second call, so of a long one, where the device hides
    the host, only the first samples have one of their own."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def beside(self, ms: float, take: Callable[[], float]) -> float:
        """Milliseconds. `ms`: of the sample; `take`: takes the time of a call."""
        if ms < LONG_MS or len(self._times) < LONG_CALLS:
            self._times.append(take())
            return self._times[-1]
        return median(self._times)


def next_hold(hold: int, queueing: float) -> int:
    """Cycles to hold the stream before the next call, after one that was queued in time behind `hold` cycles.
    `queueing`: the seconds that it took. One call on a busy host does not make every later one wait longer."""
    return min(hold, max(HOLD_CYCLES, round(MARGIN * queueing * CYCLES_A_SECOND)))


def input_sets(bytes_: int) -> int:
    """How many sets of inputs a timing rotates through, for a set of so many bytes: a large one already is more than
    any cache holds."""
    return MOST_SETS if bytes_ <= LARGE_SET else 2


class HostTimer:
    """The wall clock instead of CUDA events, for tests of the rules on a CPU; no measurement uses it."""

    def sample(self, call: Callable[[], object], before: Callable[[], object] = _nothing) -> float:
        before()
        started = time.perf_counter()
        call()
        return (time.perf_counter() - started) * 1e3

    call_time = sample


def clock(device: str) -> Timer | HostTimer:
    """The timer of calls on cuda or, for tests, on cpu."""
    return Timer() if device == "cuda" else HostTimer()


def net(ms: float, overhead_ms: float) -> float:
    """An event time without the events' own, but at least half of it."""
    return max(ms - overhead_ms, 0.5 * ms)


@functools.lru_cache(maxsize=32)
def _resamples(n: int, seed: int, rounds: int) -> np.ndarray:
    """Which of n values each resample takes: the same for every sample of n. (rounds, n)."""
    rng = random.Random(seed)
    return np.array([rng.choices(range(n), k=n) for _ in range(rounds)])


def interval(values: Sequence[float], seed: int = 0, rounds: int = 1000) -> tuple[float, float, float]:
    """Median of a sample with its bootstrap 95% interval (percentile method, Efron 1979). By NumPy, because the lane
    of a GPU waits for it."""
    n = len(values)
    drawn = np.sort(np.asarray(values, dtype=np.float64)[_resamples(n, seed, rounds)], axis=1)
    medians = np.sort((drawn[:, (n - 1) // 2] + drawn[:, n // 2]) / 2).tolist()
    return median(values), medians[int(0.025 * rounds)], medians[int(0.975 * rounds) - 1]


def paired_ratio(pairs: Sequence[tuple[float, float]], seed: int = 0) -> tuple[float, float, float]:
    """Speedup of the second of each pair over the first: median of paired ratios with its 95% interval."""
    return interval([a / b for a, b in pairs], seed)
