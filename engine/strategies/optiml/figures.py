"""The figures of one trial that its reward compares: run time, memory traffic, arithmetic and occupancy.

A figure has up to two values, each from one source. `counted` holds what Nsight Compute measured of the trial: bytes
to and from device memory, achieved occupancy, executed instructions. `values` holds what is known without a profiler:
traffic and arithmetic by the attainable model, occupancy by the compiler's resources, instructions in the machine code.
Two candidates are compared by values of the same source alone (`alike`). Instructions are shown and not rewarded: a
loop that is unrolled has more of them in the machine code and is faster. A figure that is unknown says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.strategies.state import Finished
from sol.hardware import Hardware

NAMES = ("time", "memory", "compute", "occupancy")
UNITS = {
    "time": "ms", "memory": "bytes", "compute": "FLOP", "occupancy": "share of the warps",
    "instructions": "instructions",
}  # fmt: skip
THREADS_SM, BLOCKS_SM, WARP = 2048, 32, 32  # of Hopper (sm_90)
MEASURED, PREDICTED = "measured", "predicted"
SOURCES = {  # of a figure that no profiler measured
    "memory": "predicted by the model of the GPU", "compute": "predicted by the model of the GPU",
    "occupancy": "predicted from the compiler's resources", "instructions": "in the machine code, not those that run",
}  # fmt: skip
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
RESERVED = 1024  # bytes of shared memory that the system keeps for each block
REGISTERS_AT_ONCE = 256  # registers of a warp are allocated in such pieces
NO_STAGES = "no model prices the work of a raw kernel, and no profiler counted it"
NO_PROFILE = "the option profile is off"
NOT_RUN = "nothing runs on a modelled device"
RAW = "a raw kernel runs confined, where Nsight Compute does not reach"
NOT_COUNTED = "the profiler could not count; its answer in the list of turns says why"
NO_TIME = "the trial has no time on this device"
NO_RESOURCES = "the trial was not compiled to machine code, so its registers are unknown"
NO_THREADS = "the compiler does not name the threads of a block"
NO_INSTRUCTIONS = "no compiler names the instructions of this trial, and no profiler counts those that run"


@dataclass(frozen=True)
class Figures:
    """`values`: those known without a profiler, in UNITS; `missing`: name -> why it is unknown; `region`: the part of
    the module that all but the time belong to; `counted`: those that Nsight Compute measured; `uncounted`: why it
    measured none, or ""; `kind`: of the time, measured | predicted."""

    values: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    region: int = 0
    counted: Mapping[str, float] = field(default_factory=dict)
    uncounted: str = ""
    kind: str = PREDICTED

    def known(self, name: str) -> tuple[float | None, str]:
        """A figure and its source; the measured one where there are two."""
        if name in self.counted:
            return self.counted[name], MEASURED
        return self.values.get(name), self.kind if name == "time" else PREDICTED


def alike(name: str, after: Figures, before: Figures) -> tuple[float | None, float | None, str]:
    """A figure of two candidates and the one source of both: measured where both are, else without a profiler."""
    if name in after.counted and name in before.counted:
        return after.counted[name], before.counted[name], MEASURED
    return after.values.get(name), before.values.get(name), after.kind if name == "time" else PREDICTED


def short(values: Mapping[str, float]) -> dict[str, float]:
    """Figures as the log has them."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def of(trial: Finished, hardware: Hardware, counted: Mapping[str, float] | None = None, uncounted: str = "") -> Figures:
    """The figures of a right trial. `counted`, `uncounted`: as in Figures."""
    known = {
        "time": (trial.ms, NO_TIME),
        "memory": (_sum(trial.stages, "bytes"), NO_STAGES),
        "compute": (_sum(trial.stages, "flops"), NO_STAGES),
        "occupancy": occupancy(trial.resources, hardware),
        "instructions": (_sum(trial.resources, "instructions"), NO_INSTRUCTIONS),
    }
    values = {name: value for name, (value, _) in known.items() if value is not None}
    missing = {name: why for name, (value, why) in known.items() if value is None}
    counted = {name: value for name, value in (counted or {}).items() if name in UNITS}
    return Figures(values, missing, trial.region, counted, "" if counted else uncounted, trial.kind or PREDICTED)


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The sum over stages or kernels; None if none has a positive one."""
    total = sum(row.get(name) or 0.0 for row in rows)
    return total if total > 0 else None


def occupancy(resources: Sequence[Mapping[str, Any]], hardware: Hardware) -> tuple[float | None, str]:
    """The lowest share of an SM's warps that the kernels' registers, shared memory and threads allow at a time, and why
    it is unknown."""
    shares = []
    for kernel in resources:
        registers, threads = kernel.get("registers"), kernel.get("threads")
        if not registers:
            return None, NO_RESOURCES
        if not threads:
            return None, NO_THREADS
        shares.append(_resident(registers, threads, kernel.get("shared_bytes") or 0, hardware))
    return (min(shares), "") if shares else (None, NO_RESOURCES)


def _resident(registers: int, threads: int, shared: int, hardware: Hardware) -> float:
    """The resident threads of one kernel over the most that an SM takes (CUDA C++ Programming Guide, compute
    capabilities)."""
    warps = -(-threads // WARP)
    a_warp = -(-registers * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    blocks = min(
        BLOCKS_SM, THREADS_SM // (warps * WARP), hardware.registers_sm // (a_warp * warps),
        hardware.shared_sm // (shared + RESERVED),
    )  # fmt: skip
    return max(1, blocks) * warps * WARP / THREADS_SM  # it ran, so one block fits


def source(name: str, by: str) -> str:
    """Where a figure is from, for a prompt."""
    if name == "time":
        return by
    return "measured by Nsight Compute" if by == MEASURED else SOURCES[name]


def in_words(name: str, value: float) -> str:
    """A figure for a prompt and for a person: 58.7 MB, 8.59 GFLOP, 0.0337 ms."""
    unit = UNITS[name]
    if name == "instructions":
        return f"{value:,.0f} {unit}"
    if name not in ("memory", "compute"):
        return f"{value:.4g} {unit}"
    size, prefix = next((step for step in _STEPS if value >= step[0]), (1.0, ""))
    return f"{value / size:.4g} {prefix}{'B' if name == 'memory' else unit}"
