"""A device that answers at once and counts what it is asked: for tests of the session's own logic.

Times are sol's predictions of the real candidates; only building and validating are left out.
"""

from __future__ import annotations

import threading
from collections import Counter

from engine.devices import Device, TrialError
from engine.session import events
from sol.attainable import predict, predict_eager
from sol.hardware import load


class CountingDevice(Device):
    name, kind, hardware = "counting", "predicted", "h200"

    def __init__(self, fail: dict[int, str] | None = None, hang_at: int | None = None):
        self.asked: Counter = Counter()
        self.fail, self.hang_at = fail or {}, hang_at
        self.hw = load("h200")
        self.open_now = False
        self.hanging = threading.Event()

    def describe(self):
        return {"title": "a device for tests"}

    def open(self, problem, cancelled):
        self.problem, self.cancelled, self.open_now = problem, cancelled, True

    def close(self):
        self.open_now = False

    def baselines(self, classes):
        for cls in classes:
            self.asked["baseline", cls] += 1
            prediction = predict_eager(self.problem.graph, self.hw, cls)
            yield events.Baseline(f"eager_{cls}", cls, events.Prediction(prediction.ms, "t_attainable", "h200"))

    def _ask(self, step, candidate):
        assert self.open_now
        self.asked[step, candidate.trial] += 1
        if self.hang_at == candidate.trial:
            self.hanging.set()
            while not self.cancelled():
                threading.Event().wait(0.01)
            raise TrialError(step, "cancelled", "ended on request")
        if self.fail.get(candidate.trial) == step:
            raise TrialError(step, "broken", f"made to fail at {step}", "a long log")
        if self.fail.get(candidate.trial) == f"crash {step}":
            raise RuntimeError("the device has a bug")

    def build(self, candidate):
        self._ask("compile", candidate)
        return events.TrialCompiled(candidate.trial, candidate.backend, "not compiled", 0.0)

    def validate(self, candidate):
        self._ask("validate", candidate)
        return events.TrialValidated(candidate.trial, 0.0, 0.0, 1e-3, [], "nothing was run")

    def measure(self, candidate, baseline):
        self._ask("measure", candidate)
        ms = predict(candidate.program, self.hw).ms
        time = events.Prediction(ms, "t_attainable", "h200")
        return events.TrialMeasured(candidate.trial, time, baseline.name, baseline.time.ms, baseline.time.ms / ms)


PROGRAM = """\
program scale(x: f16[1024, 4096], w: f16[4096, 4096], b: f32[4096]) -> f16[1024, 4096] {
  y = gemm(x, w.T) { tile 128x128x64  epilogue relu(acc + b[n]) * 2.0 }
  return y
}
"""


def spec(**changes):
    """A session that begins with a program, so that nothing needs a sandbox."""
    from engine.session.spec import SessionSpec

    return SessionSpec(
        **{"title": "t", "source": PROGRAM, "source_kind": "program", "trials": 4, "eps": 0.0, "window": 9} | changes
    )
