"""The guardrail: which candidate becomes the incumbent, and why another one does not. Pure.

A candidate becomes the incumbent only if it is right, its verdict counts, it has a time, and that time is below the
incumbent's. All others stay nodes of the tree; a rejection says its reason. The limit of a regression (`tolerance`) is
ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.strategies.state import Finished

# What the guardrail says of a candidate. `REJECTED`: those that are logged as rejections.
ACCEPTED, WITHIN, SLOWER, WRONG, FLAGGED, UNTIMED = "accepted", "within", "slower", "wrong", "flagged", "untimed"
REJECTED = (SLOWER, WRONG, FLAGGED)
MOST_REASON = 600  # characters


@dataclass(frozen=True)
class Ruling:
    """`kind`: one of the words above; `reason`: for a person."""

    kind: str
    reason: str

    @property
    def right(self) -> bool:
        """Whether the candidate may be edited further."""
        return self.kind not in (WRONG, FLAGGED)


def rule(trial: Finished, incumbent: Finished | None, tolerance: float = 0.05) -> Ruling:
    """What the guardrail says of a finished trial. `tolerance`: the share by which a candidate may be slower than the
    incumbent without being a regression."""
    name = f"Trial {trial.number}"
    if trial.failed:
        return _ruling(WRONG, f"{name} failed at {trial.failed}: {trial.reason}")
    if trial.ms is None:
        if trial.untimed and trial.verdict in ("clean", "minor"):
            return _ruling(UNTIMED, f"{name} is right and has no time, so it cannot be faster: {trial.reason}")
        if trial.cannot_run_here:
            return _ruling(FLAGGED, f"{name} cannot be verified on this machine: {trial.reason}")
        return _ruling(FLAGGED, f"{name} does not count: {trial.verdict or 'no verdict'}. {trial.reason}")
    if not trial.clean:
        return _ruling(FLAGGED, f"{name} takes {trial.ms:.4g} ms and does not count: {trial.verdict or 'no verdict'}.")
    if incumbent is None or incumbent.ms is None:
        return _ruling(ACCEPTED, f"{name} is the first right candidate with a time, {trial.ms:.4g} ms.")
    beside = f"{trial.ms:.4g} ms, trial {incumbent.number} {incumbent.ms:.4g} ms"
    ratio = trial.ms / incumbent.ms
    if ratio < 1:
        return _ruling(ACCEPTED, f"{name} is {_times(1 / ratio)} as fast as the incumbent: {beside}.")
    if ratio <= 1 + tolerance:
        return _ruling(WITHIN, f"{name} is not faster than the incumbent: {beside}.")
    return _ruling(SLOWER, f"{name} takes {_times(ratio)} as long as the incumbent: {beside}.")


def _times(ratio: float) -> str:
    """A ratio above 1 with as many digits as show that it is not 1."""
    digits = next((n for n in range(3, 7) if float(f"{ratio:.{n}g}") != 1.0), 7)
    return f"{ratio:.{digits}g} times"


def _ruling(kind: str, reason: str) -> Ruling:
    line = " ".join(reason.split())
    return Ruling(kind, line if len(line) <= MOST_REASON else line[: MOST_REASON - 1] + "…")
