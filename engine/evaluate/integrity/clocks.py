"""Check the time that a candidate's process reports. Plain Python, in the engine's own process.

A candidate can patch events, CUPTI and clocks in its process, so its reports are compared with facts that it cannot
change: the hardware's limit for the module's work, and the engine's own clock around requests. Device time is at most
the time of one synchronised call, and that is at most the time of the request for the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from engine.devices import SessionRefused
from engine.devices.gpu_names import hardware_of
from engine.evaluate.integrity.findings import Finding
from sol.bounds import t_sol
from sol.graph import OpGraph
from sol.hardware import HardwareError, load

TOO_FAST = 0.9  # share of t_sol; no honest kernel is below it, so a shorter time does not count
SLACK, SLACK_MS = 1.1, 0.02  # between two clocks of one process
LEAST_SHARE = 1 / 3  # share of a call's time by the engine's clock; a smaller claimed call time is a lie
CONFIRMED = 0.5  # share of a call's time by the engine's clock; a claimed device time above it is confirmed
LONG_MS = 40.0  # the engine's clock is compared with runs of at least this length


@dataclass(frozen=True)
class Claim:
    """Medians in ms. Reported by the candidate's process: `ms` of device time and `call_ms` of one synchronised call.
    By the engine's clock: `request_ms` of the request for one timed call, `wall_ms` of one of `calls` back to back.
    `limit_ms`: t_sol of `cls`, None if the GPU is unknown."""

    ms: float
    call_ms: float
    request_ms: float
    wall_ms: float
    calls: int
    cls: str
    limit_ms: float | None = None

    @property
    def confirmed(self) -> bool:
        """Return True if the engine's clock agrees with the device time. It cannot if the host takes longer than the
        device; then call times are compared."""
        return self.ms >= CONFIRMED * self.wall_ms


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


def findings(claim: Claim) -> list[Finding]:
    """Contradictions of the claim; [] if there are none. Times that the engine cannot confirm are a note."""
    faults: list[Finding] = []

    def add(code: str, evidence: str) -> None:
        faults.append(Finding(code, evidence, dynamic=True))

    if not all(map(isfinite, (claim.ms, claim.call_ms))):
        add("clock", f"{claim.ms} ms in a call of {claim.call_ms} ms claimed, which are no times")
        return faults
    if claim.limit_ms is not None and claim.ms < TOO_FAST * claim.limit_ms:
        limit = f"the limit of {claim.limit_ms:.4g} ms for the module's work in {claim.cls}"
        add("too_fast", f"{claim.ms:.4g} ms is below {TOO_FAST:.0%} of {limit}")
    if claim.ms > SLACK * claim.call_ms + SLACK_MS:
        add("clock", f"{claim.ms:.4g} ms of device time claimed in a call of {claim.call_ms:.4g} ms")
    if claim.call_ms > claim.request_ms:
        add("clock", f"{claim.call_ms:.4g} ms a call claimed, {claim.request_ms:.4g} ms by the engine's clock")
    long = claim.wall_ms * claim.calls > LONG_MS
    if long and claim.call_ms < LEAST_SHARE * claim.wall_ms:
        add("clock", f"{claim.call_ms:.4g} ms a call claimed, {claim.wall_ms:.4g} ms by the engine's clock")
    elif not claim.confirmed:
        add(
            "unconfirmed",
            f"{claim.ms:.4g} ms claimed; a call takes {claim.wall_ms:.4g} ms by the engine's clock, so the ratio is of "
            "call times",
        )
    return faults
