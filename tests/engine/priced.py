"""The modelled machine without what takes seconds: nothing is built or run, and times are predicted."""

from __future__ import annotations

from engine.devices import Problem
from engine.devices.modelled import Modelled
from engine.evaluate.machine import Programs, Workbench
from engine.evaluate.timing.predicted_timing import PredictedTiming
from engine.session import events


class Priced(Modelled):
    """Machine of an Evaluator."""

    def open(self, problem: Problem, cancelled, loaded=None):
        return Workbench(Programs(NotRun(), NotRun(), PredictedTiming(problem, self.hw)), lambda: None)

    def warm(self, source_kind="module"):
        pass


class NotRun:
    """Builds and rounds in which nothing is done."""

    def prepare(self, classes):
        pass

    def prefetch(self, candidates):
        pass

    def build(self, candidate):
        return events.TrialCompiled(candidate.trial, candidate.backend, "not compiled", 0.0)

    def validate(self, candidate):
        return events.TrialValidated(candidate.trial, 0.0, 0.0, 1e-3, [], "nothing was run")
