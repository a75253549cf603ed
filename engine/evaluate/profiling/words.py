"""What Nsight Compute counted of each kernel, as lines for a person and a model: about 30 metrics, the Speed-of-Light
section first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.evaluate.profiling.ncu import Kernel, longest

MOST = 6  # kernels in a profile
STALLS = 3  # reasons for which warps wait, the most frequent ones
_STALL, _PER_ISSUE = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"


@dataclass(frozen=True)
class Metric:
    """`name` of ncu; `words` for it; `unit`: % | bytes | bytes/s | Hz | "" for a count."""

    name: str
    words: str
    unit: str = ""


GROUPS: dict[str, tuple[Metric, ...]] = {
    "Speed of light": (
        Metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", "compute", "%"),
        Metric("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory", "%"),
        Metric("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "device memory", "%"),
        Metric("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2", "%"),
        Metric("l1tex__throughput.avg.pct_of_peak_sustained_active", "L1", "%"),
        Metric("sm__cycles_active.avg", "active cycles of an SM"),
        Metric("gpc__cycles_elapsed.max", "cycles elapsed"),
        Metric("gpc__cycles_elapsed.avg.per_second", "clock", "Hz"),
    ),
    "Compute": (
        Metric("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor pipes", "%"),
        Metric("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "tensor instructions", "%"),
        Metric("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "FMA pipes", "%"),
        Metric("smsp__inst_executed.sum", "instructions of warps"),
        Metric("sm__inst_executed.avg.per_cycle_active", "instructions a cycle"),
        Metric("sm__inst_issued.avg.pct_of_peak_sustained_active", "issue slots", "%"),
    ),
    "Memory": (
        Metric("dram__bytes_read.sum", "read from device memory", "bytes"),
        Metric("dram__bytes_write.sum", "written to device memory", "bytes"),
        Metric("dram__bytes.sum.per_second", "device memory's rate", "bytes/s"),
        Metric("lts__t_sector_hit_rate.pct", "hits in L2", "%"),
        Metric("l1tex__t_sector_hit_rate.pct", "hits in L1", "%"),
    ),
    "Occupancy": (
        Metric("sm__warps_active.avg.pct_of_peak_sustained_active", "achieved", "%"),
        Metric("sm__maximum_warps_per_active_cycle_pct", "possible", "%"),
        Metric("launch__occupancy_limit_registers", "blocks by registers"),
        Metric("launch__occupancy_limit_shared_mem", "blocks by shared memory"),
        Metric("launch__occupancy_limit_warps", "blocks by warps"),
    ),
    "Launch": (
        Metric("launch__registers_per_thread", "registers a thread"),
        Metric("launch__shared_mem_per_block_static", "static shared memory", "bytes"),
        Metric("launch__shared_mem_per_block_dynamic", "dynamic shared memory", "bytes"),
        Metric("launch__waves_per_multiprocessor", "waves"),
    ),
    "Warps": (
        Metric("smsp__warps_active.avg.per_cycle_active", "active a scheduler"),
        Metric("smsp__warps_eligible.avg.per_cycle_active", "eligible"),
        Metric("smsp__average_warp_latency_per_inst_issued.ratio", "cycles between instructions of a warp"),
    ),
}  # fmt: skip


def in_words(trial: int, kernels: Sequence[Kernel]) -> str:
    """The profile of a trial. `kernels`: those of one call, in the order of their launches."""
    total = sum(k.ns for k in kernels)
    many = f"{len(kernels)} kernel{'s'[: len(kernels) != 1]}"
    head = (
        f"Trial {trial}: {many} by Nsight Compute, {total / 1e6:.4g} ms in all. It fixes the clocks and flushes the "
        "caches, so do not compare this time with the trial's."
    )
    lines = [head]
    for kernel in longest(kernels)[:MOST]:
        share = f", {kernel.ns / total:.0%} of it" if total and len(kernels) > 1 else ""
        lines += ["", f"{kernel.name[:160]}: {kernel.ns / 1e6:.4g} ms{share}; grid {kernel.grid}, block {kernel.block}"]
        for title, metrics in GROUPS.items():
            known = [f"{m.words} {_value(kernel.values[m.name], m.unit)}" for m in metrics if m.name in kernel.values]
            if title == "Warps":
                known += _stalls(kernel)
            lines += [f"- {title}: {', '.join(known)}"] * bool(known)
    if len(kernels) > MOST:
        lines += ["", f"{len(kernels) - MOST} shorter kernels are left out."]
    return "\n".join(lines) + "\n"


def _stalls(kernel: Kernel) -> list[str]:
    """The reasons for which warps wait longest, in cycles for each instruction that is issued."""
    cycles = {
        name.removeprefix(_STALL).removesuffix(_PER_ISSUE): value
        for name, value in kernel.values.items()
        if name.startswith(_STALL) and name.endswith(_PER_ISSUE) and "selected" not in name
    }
    most = sorted(cycles, key=lambda reason: -cycles[reason])[:STALLS]
    return [f"waiting on {reason.replace('_', ' ')} {cycles[reason]:.3g} cycles" for reason in most if cycles[reason]]


def _value(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.1f}%"
    if unit:
        size, prefix = next(
            ((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s), (1, "")
        )
        return f"{value / size:.3g} {prefix}{unit.replace('bytes', 'B')}"
    return f"{value:,.6g}" if value >= 100 else f"{value:.3g}"


__all__ = ["GROUPS", "in_words"]
