"""`cpu`: the machine we run on, from what it reports about itself and one short copy.

Vector width and clock come from /proc/cpuinfo; two fused multiply-add pipes a core is the rule of every x86 server
core since Haswell and of Arm's Neoverse N and V (for a core with one pipe, the bound is half of what it could
be, and still a lower bound). Bandwidth is timed, because no file states it.
"""

from __future__ import annotations

import os
import platform
import re
import time
from functools import lru_cache
from pathlib import Path

from sol.hardware.device import Hardware

FMA_PIPES = 2


def _cpuinfo() -> tuple[str, set[str], float]:
    """Model, feature flags, highest clock in MHz seen; empty where /proc is not there."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.M)
    clocks = [float(m) for m in re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", text, re.M)]
    try:
        khz = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").read_text()
        clocks.append(float(khz) / 1e3)
    except (OSError, ValueError):
        pass
    name = model.group(1).strip() if model else platform.processor() or platform.machine() or "CPU"
    return name, set(flags.group(1).split()) if flags else set(), max(clocks, default=2500.0)


def _last_level_cache() -> int:
    best = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            size = re.fullmatch(r"(\d+)([KMG])", path.read_text().strip())
        except OSError:
            continue
        if size:
            best = max(best, int(size.group(1)) * {"K": 2**10, "M": 2**20, "G": 2**30}[size.group(2)])
    return best or 32 * 2**20


def copy_rate(size: int = 64 << 20, repeats: int = 3) -> float:
    """Bytes/s, reads plus writes, of one thread's copy of `size` bytes, the best of `repeats`."""
    source, target = memoryview(bytearray(size)), memoryview(bytearray(size))
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - start)
    return 2 * size / best


@lru_cache(maxsize=1)
def this_machine() -> Hardware:
    """This machine as a Hardware: a core counts as an SM, the last-level cache as L2."""
    model, flags, mhz = _cpuinfo()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    bits = 512 if "avx512f" in flags else 256 if flags & {"avx2", "sve"} else 128
    f32 = cores * FMA_PIPES * 2 * (bits / 32) * mhz * 1e6
    peaks = {"f64": f32 / 2, "f32": f32, "f16_vector": f32 * (2 if "avx512_fp16" in flags else 1)}
    if "amx_bf16" in flags:
        peaks["bf16"] = cores * 2048 * mhz * 1e6  # 16x16 tile, 32-deep products, 16 clocks: 1024 FMA a clock
    elif "avx512_bf16" in flags:
        peaks["bf16"] = 2 * f32
    one = copy_rate()
    rate = one * max(1, min(cores, 8)) ** 0.5  # threads share the memory controllers
    return Hardware(
        name="cpu",
        title=model,
        arch=platform.machine(),
        sms=cores,
        boost_mhz=mhz,
        tensor_mhz=mhz,
        bandwidth=rate,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        l2_bytes=_last_level_cache(),
        l2_bandwidth=2 * rate,
        shared_block=32768,
        shared_sm=32768,
        registers_sm=0,
        sfu=f32 / 20,  # exp is a polynomial of about ten fused steps
        peaks=peaks,
        source={
            "peaks": f"/proc/cpuinfo: {cores} cores x {FMA_PIPES} FMA pipes x {bits}-bit at {mhz:.0f} MHz",
            "memory": f"timed here: {one / 1e9:.0f} GB/s by one thread, scaled by the root of the cores",
        },
        kind="cpu",
    )
