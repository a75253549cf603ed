"""The hardware's limit for a module's work, which no honest time is below. Plain Python, in the engine's process."""

from __future__ import annotations

from engine.devices import SessionRefused
from engine.devices.gpu_names import hardware_of
from engine.evaluate.integrity.findings import Finding
from sol.bounds import t_sol
from sol.graph import OpGraph
from sol.hardware import HardwareError, load

TOO_FAST = 0.9  # share of t_sol; no honest kernel is below it, so a shorter time does not count


def limit_ms(graph: OpGraph, gpu: str, cls: str) -> float | None:
    """The lowest t_sol in ms of the ways to compute in a class: tf32 may be f16 under a guard, f32 three tf32 products.
    None for an unknown GPU."""
    try:
        hardware = load(hardware_of(gpu))
        if cls == "f32":
            return min(t_sol(graph, hardware, "f32"), 3 * t_sol(graph, hardware, "tf32"))
        return min(t_sol(graph, hardware, c) for c in {cls, "f16" if cls == "tf32" else cls})
    except (SessionRefused, HardwareError):
        return None


def findings(ms: float, limit: float | None, cls: str) -> list[Finding]:
    """`too_fast` if a time of a call contradicts the limit of its class (None: of an unknown GPU)."""
    if limit is None or ms >= TOO_FAST * limit:
        return []
    evidence = f"{ms:.4g} ms is below {TOO_FAST:.0%} of the limit of {limit:.4g} ms for the module's work in {cls}"
    return [Finding("too_fast", evidence, dynamic=True)]
