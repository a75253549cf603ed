"""Nsight Compute's command line: where it is, how it is called, and its CSV.

`--page raw --csv` writes one row for each launched kernel: a header with the names of the metrics, a row of units, then
the values, with commas between thousands. Sections name the metrics, because a metric that a chip lacks is missing from
its section, and one that is asked for by name ends the run. (Nsight Compute CLI, "Output Pages" and "Metrics and
Units"; Kernel Profiling Guide, "Metrics Reference".)
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECTIONS = (
    "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "SchedulerStats",
    "WarpStateStats",
)  # fmt: skip
TRAFFIC = ("dram__bytes_read.sum", "dram__bytes_write.sum")
INSTRUCTIONS = ("smsp__inst_executed.sum",)
BY_NAME = (*TRAFFIC, *INSTRUCTIONS)  # in none of these sections under these names, and on every chip
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"  # occupancy, in %
FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute", "/usr/local/NVIDIA-Nsight-Compute")
LARGER = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}  # of Kbyte, Gbyte/s, ...
SECONDS = {"nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9}
CLOSED = "ERR_NVGPUCTRPERM"  # what ncu prints where it may not read the counters, of this program or another
REFUSALS = {  # what ncu prints -> a sentence for a person
    CLOSED: f"the driver lets only an administrator read the GPU's counters ({CLOSED})",
    "ERR_NVGPUCTRUNAVAILABLE": "another profiler holds the GPU's counters",
    "driver resource was unavailable": "another profiler holds the GPU's counters",
    "No kernels were profiled": "it saw no kernel",
}


@dataclass(frozen=True)
class Kernel:
    """One launch. `values`: metric -> number, in base units: bytes, ns, %."""

    name: str
    grid: str
    block: str
    values: Mapping[str, float]

    @property
    def ns(self) -> float:
        return self.values.get("gpu__time_duration.sum", 0.0)


def find(environ: Mapping[str, str] | None = None, folders: Sequence[str] = FOLDERS) -> Path | None:
    """ncu on PATH, else in CUDA_HOME, in CUDA's usual folders and in its own; the newest version of several."""
    environ = os.environ if environ is None else environ
    if path := shutil.which("ncu", path=environ.get("PATH", "")):
        return Path(path)
    homes = [str(Path(environ[name]) / "bin") for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    for folder in map(Path, (*homes, *folders)):
        newest = sorted(folder.glob("*/ncu"), reverse=True) if folder.is_dir() else []
        for path in (folder / "ncu", *newest):
            if os.access(path, os.X_OK) and path.is_file():
                return path
    return None


def command(ncu: Path, report: Path, program: Sequence[str]) -> list[str]:
    """The call that profiles what `program` launches between cudaProfilerStart and cudaProfilerStop."""
    sections = [part for name in SECTIONS for part in ("--section", name)]
    return [
        str(ncu), "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off", *sections,
        "--metrics", ",".join(BY_NAME), "--log-file", str(report), "--force-overwrite", *program,
    ]  # fmt: skip


def read(text: str) -> list[Kernel]:
    """The kernels of a report; lines of ncu itself (`==PROF== ...`) are passed over. [] for a text without any."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    if not rows or "Kernel Name" not in rows[0]:
        return []
    head, *body = rows
    at = {name: i for i, name in enumerate(head)}
    units = body.pop(0) if body and len(body[0]) > at["Kernel Name"] and not body[0][at["Kernel Name"]] else []
    return [_kernel(head, at, units, row) for row in body if len(row) == len(head)]


def refusal(log: str, *, known: bool = False) -> str:
    """Why ncu measured nothing, in words; "" if its log does not say. `known`: only what REFUSALS has."""
    words = next((words for mark, words in REFUSALS.items() if mark in log), "")
    if words or known:
        return words
    errors = (line.partition("==ERROR==")[2].strip() for line in log.splitlines() if "==ERROR==" in line)
    return next((e.rstrip(".")[:300] for e in errors if e), "")


def _kernel(head: Sequence[str], at: Mapping[str, int], units: Sequence[str], row: Sequence[str]) -> Kernel:
    values = {}
    for i, name in enumerate(head):
        value = _number(row[i]) if "__" in name else None  # of a metric; the other columns name the launch
        if value is not None:
            values[name] = value * _scale(units[i] if i < len(units) else "")
    grid, block = (row[at[name]] if name in at else "" for name in ("Grid Size", "Block Size"))
    return Kernel(row[at["Kernel Name"]], grid, block, values)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _scale(unit: str) -> float:
    """The factor to base units. `--print-units base` makes it 1; a version that does not know it writes Kbyte or us."""
    if unit in SECONDS:
        return SECONDS[unit]
    first, rest = unit[:1].lower(), unit[1:].lower()
    return LARGER[first] if first in LARGER and rest.startswith(("byte", "hz")) else 1.0


def longest(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The kernels by their time, the longest first."""
    return sorted(kernels, key=lambda k: -k.ns)


def counts(kernels: Sequence[Kernel]) -> dict[str, float]:
    """What was counted over all kernels of a call: `memory`, the bytes to and from device memory; `instructions`, those
    that warps executed; `occupancy`, the achieved share of an SM's warps, each kernel weighted by its time. A figure
    that was not counted of every kernel is left out: a sum over some of them compares with nothing."""
    counted = {"memory": _total(kernels, TRAFFIC), "instructions": _total(kernels, INSTRUCTIONS)}
    ns = sum(k.ns for k in kernels)
    if ns and all(ACHIEVED in k.values for k in kernels):
        counted["occupancy"] = sum(k.values[ACHIEVED] * k.ns for k in kernels) / ns / 100
    return {name: value for name, value in counted.items() if value is not None}


def _total(kernels: Sequence[Kernel], metrics: Sequence[str]) -> float | None:
    if not kernels or any(name not in k.values for k in kernels for name in metrics):
        return None
    return sum(k.values[name] for k in kernels for name in metrics)


__all__ = ["Kernel", "command", "counts", "find", "longest", "read", "refusal"]
