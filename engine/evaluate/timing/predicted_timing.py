"""Times of a GPU that is not here: predictions of the attainable model (sol.attainable), marked as such."""

from __future__ import annotations

from collections.abc import Sequence

from engine.devices import Candidate, Problem, TrialError
from engine.devices.parts import expected_ms, subgraph
from engine.evaluate.reference.baseline_cache import parts
from engine.session import events
from sol.attainable import KNOWN_ERROR, predict, predict_eager
from sol.bounds import native_class, pytorch_class
from sol.hardware import Hardware


class PredictedTiming:
    """`hw`: the device whose times are predicted."""

    def __init__(self, problem: Problem, hw: Hardware):
        self.graph, self.hw = problem.graph, hw

    def baseline(self, name: str, beside: str = "") -> events.Baseline:
        """An eager mode of PyTorch. Raises TrialError("measure") for another."""
        cls, note, prediction = self._eager(name)
        ratio = prediction.ms / self._eager(beside)[2].ms if beside and beside != name else None
        time_ = self._prediction(prediction.ms, prediction.bound_by)
        return events.Baseline(name, cls, time_, note, beside if ratio is not None else "", ratio)

    def _eager(self, name: str) -> tuple:
        """(class, note, prediction) of an eager mode."""
        way, requested = parts(name)
        if way != "eager":
            raise TrialError("measure", "not_predicted", f"{name} has no predicted time")
        cls = requested or native_class(self.graph)
        if requested in (None, "tf32"):
            note = "TF32 allowed" if requested else "as PyTorch ships it"
            return cls, note, predict_eager(self.graph, self.hw, cls)
        prediction = predict_eager(self.graph, self.hw, cls, autocast=True)
        return cls, "torch.autocast, its casts timed", prediction

    def _prediction(self, ms: float, bound_by: str) -> events.Prediction:
        return events.Prediction(ms, "t_attainable", self.hw.name, bound_by, KNOWN_ERROR)

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """The prediction, compared with the baseline's."""
        prediction = predict(candidate.program, self.hw)
        ms, part = prediction.ms, {}
        if candidate.placed:
            placed = [(p.ops, p.program) for p in candidate.placed]
            ms, covered = expected_ms(self.graph, placed, self.hw, candidate.cls)
            here = [op for op in self.graph.live if op.name in placed[0][0]]
            cls = pytorch_class(candidate.cls, self.graph)
            theirs = predict_eager(subgraph(self.graph, here), self.hw, cls, autocast=True)
            part = {
                "region": candidate.region, "region_ms": prediction.ms, "programs": len(placed), "covered_ms": covered,
                "region_eager_ms": theirs.ms,
            }  # fmt: skip
        time_, ratio = self._prediction(ms, prediction.bound_by), baseline.time.ms / ms
        return events.TrialMeasured(candidate.trial, time_, baseline.name, baseline.time.ms, ratio, part=part)

    def compare(self, candidates: Sequence[Candidate], baseline: events.Baseline) -> list[events.TrialMeasured]:
        return [self.measure(c, baseline) for c in candidates]

    def quick(self, candidate: Candidate, baseline: events.Baseline, family: str = "normal") -> float:
        return self.measure(candidate, baseline).time.ms
