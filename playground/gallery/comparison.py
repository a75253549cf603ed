"""Whether the times of two sessions may be divided by each other, and the ratio where they may.

A ratio of two times means something only if both are of the same module, both measured or both predicted, on the same
device with the same driver. Everything else is listed, and no ratio is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.session.fold.reduce import View
from engine.session.fold.view import Trial

UNKNOWN = "not recorded"


@dataclass(frozen=True)
class Conditions:
    """What a time depends on. `module`: the SHA-256 of its text; `driver`: "" of a prediction, for which nothing ran;
    `model`: of a prediction. `device`, `driver` and `model` are "" if the log does not have them."""

    module: str
    source_kind: str
    kind: str
    device: str
    driver: str
    model: str


@dataclass(frozen=True)
class Ratio:
    """The time of A over that of B in a class: above 1, B is faster. `low`, `high`: from both 95% intervals, or from
    the error of the model; None if neither is known."""

    value: float
    low: float | None
    high: float | None

    @property
    def clear(self) -> bool:
        """Return True if the interval does not hold 1."""
        return self.low is not None and self.high is not None and (self.low > 1 or self.high < 1)


def conditions(view: View, trial: Trial) -> Conditions:
    """The conditions of a trial's time; the session's device where the time does not name its own."""
    time: dict[str, Any] = trial.measured.time if trial.measured is not None else {}
    kind = trial.judged.kind if trial.judged is not None else ""
    own = time.get("device")
    if kind == "measured":
        machine = own if isinstance(own, dict) else {}
        device = machine.get("name") or view.device.get("gpu")
        driver = machine.get("driver") or view.device.get("driver")
        return Conditions(view.source, view.source_kind, kind, str(device or ""), str(driver or ""), "")
    device = own if isinstance(own, str) else view.device.get("hardware")
    model = time.get("model") or view.device.get("model")
    return Conditions(view.source, view.source_kind, kind, str(device or ""), "", str(model or ""))


def differences(a: Conditions, b: Conditions) -> list[str]:
    """Why a ratio of the two times would mean nothing, a sentence each; empty if it means something."""
    reasons = []
    if (a.module, a.source_kind) != (b.module, b.source_kind) or not a.module:
        reasons.append("They optimise different modules.")
    if a.kind != b.kind or not a.kind:
        reasons.append(f"A's times are {a.kind or UNKNOWN}, B's are {b.kind or UNKNOWN}.")
    if a.kind == b.kind and (a.device != b.device or not a.device):  # a model names its device otherwise
        reasons.append(f"A's device is {_name(a.device)}, B's is {_name(b.device)}.")
    if a.kind == b.kind == "measured" and (a.driver != b.driver or not a.driver):
        reasons.append(f"A's driver is {_name(a.driver)}, B's is {_name(b.driver)}.")
    if a.kind == b.kind == "predicted" and (a.model != b.model or not a.model):
        reasons.append(f"A's times are from the model {_name(a.model)}, B's from {_name(b.model)}.")
    return reasons


def _name(text: str) -> str:
    return text or UNKNOWN


def ratio(a: Trial, b: Trial) -> Ratio | None:
    """The ratio of two trials whose conditions do not differ; None if one has no time."""
    if not (a.timed and b.timed) or not a.judged.ms or not b.judged.ms:
        return None
    value = a.judged.ms / b.judged.ms
    times = [t.measured.time if t.measured is not None else {} for t in (a, b)]
    if all(t.get("low") and t.get("high") for t in times):
        return Ratio(value, times[0]["low"] / times[1]["high"], times[0]["high"] / times[1]["low"])
    errors = [t.get("error") for t in times]
    if all(isinstance(e, int | float) and 0 <= e < 1 for e in errors):
        error = max(errors)
        return Ratio(value, value * (1 - error), value * (1 + error))
    return Ratio(value, None, None)


def shared_classes(a: View, b: View) -> list[str]:
    """The classes in which both have a program whose time counts, in A's order."""
    return [cls for cls in a.fastest if cls in b.fastest]
