"""Times on the GPU: PyTorch's own ways, and pairs of PyTorch and a program, so that a ratio is of neighbours in time.

The module's process times PyTorch, the worker the program; of a program by itself the worker times both. The engine
asks them in turn, so that the GPU has one owner at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from statistics import median

from engine.devices import Candidate, TrialError
from engine.evaluate.candidate.gpu_session import Placing
from engine.evaluate.correctness.verification import CHECK_SECONDS, Verifying, repeatable
from engine.evaluate.integrity import trial
from engine.evaluate.timing.samples import METHOD, interval, net, paired_ratio
from engine.session import events

SAMPLE_SECONDS = 20.0
BASELINE_SAMPLES = 15
WARM_UP, PAIRS, MOST_PAIRS = 3, 15, 31
QUICK_WARM_UP, QUICK_PAIRS = 1, 3
LOOK = 4  # pairs between two looks at the interval, which takes 20 ms
WIDE = 0.04  # an interval of the ratio wider than this asks for more pairs


class Pairs:
    """`condition`: what the GPU says of itself now (engine.evaluate.timing.gpu_condition.read)."""

    def __init__(self, placing: Placing, verifying: Verifying, condition: Callable[[], dict]):
        self.placing, self.verifying, self.reference = placing, verifying, placing.reference
        self._condition = condition
        self._open: tuple = ()  # (baseline, what it would be lost with)

    # ---- PyTorch ----

    def baseline(self, name: str, native: str) -> events.Baseline:
        """One of engine.evaluate.reference.baseline_cache.NAMES, by itself; `native`: the class of the module as it
        is. Raises TrialError("measure")."""
        cls, note = self.baseline_open(name, native)
        for _ in range(WARM_UP):
            self.baseline_sample()
        before = self._condition()
        samples = [self.baseline_sample() for _ in range(BASELINE_SAMPLES)]
        return events.Baseline(name, cls, self._measurement(samples, before), note)

    def baseline_open(self, name: str, native: str = "") -> tuple[str, str]:
        """(class, note), ready to be sampled."""
        self._open = ()
        if self.reference is not None:
            found = self.reference.baseline_open(name, self.verifying.timing_seed)
        else:
            self.placing.hand_over("measure")
            self.placing.ask("measure", "baseline_open", CHECK_SECONDS, name=name, seed=self.verifying.timing_seed)
            note = {"eager": "the program's operations as PyTorch ships them", "eager_tf32": "TF32 allowed"}
            cls = native if name == "eager" else name.removeprefix("eager_")
            found = cls, note.get(name, "torch.autocast, its casts timed")
        self._open = self._as_open(name)
        return found

    def _as_open(self, name: str) -> tuple:
        """With what an open baseline is lost: the module's process computes something else, the worker is another."""
        return (name, self.verifying.computed if self.reference is not None else self.placing.generation)

    def baseline_sample(self) -> tuple[float, float]:
        """Milliseconds of one call on the device, less the events' own, and of the call on the host."""
        if self.reference is not None:
            found = self.reference.baseline_sample()
            return net(found.ms, self._overhead()), found.call_ms
        found = self.placing.ask("measure", "baseline_sample", SAMPLE_SECONDS)
        return net(found["ms"], self._overhead()), found["call_ms"]

    def _overhead(self) -> float:
        """Milliseconds that CUDA events add here to what they enclose: the same for PyTorch and for a program."""
        return float((self.placing.worker.about or {}).get("events_ms") or 0.0)

    def _measurement(self, samples: list[tuple[float, float]], before: dict) -> events.Measurement:
        times = [ms for ms, _ in samples]
        ms, low, high = interval(times)
        device = {**self._condition(), "before": {k: v for k, v in before.items() if k not in ("name", "driver")}}
        device["events_us"] = round(self._overhead() * 1e3, 2)
        return events.Measurement(ms, low, high, times, METHOD, device, median(c for _, c in samples))

    # ---- a program beside it ----

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """Pairs of one call each, baseline and candidate, until the ratio's interval is narrow."""
        try:
            return self._measure(candidate, baseline)
        except TrialError:
            self._begin_anew()
            raise

    def _measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        self._ready(candidate, baseline)
        again = repeatable(candidate, self.placing.problem.graph)
        self.placing.ask("measure", "time_open", CHECK_SECONDS, seed=self.verifying.timing_seed)
        sample = functools.partial(self.placing.ask, "measure", "time_sample", SAMPLE_SECONDS, repeatable=again)

        looked_at = 0

        def pair(check: bool = False) -> tuple[tuple[float, float], tuple[float, float]]:
            nonlocal looked_at
            theirs, ours = self.baseline_sample(), sample(check=check)
            looked_at += ours["checked"]
            return theirs, (net(ours["ms"], self._overhead()), ours["call_ms"])

        for _ in range(WARM_UP):
            pair()
        looked_at, before, pairs = 0, self._condition(), []
        ratio = low = high = 0.0
        while len(pairs) < PAIRS or (len(pairs) < MOST_PAIRS and (high - low) > WIDE * ratio):
            pairs.append(pair(check=not pairs))  # one is always checked, the others by chance
            if len(pairs) >= PAIRS and (len(pairs) - PAIRS) % LOOK == 0:
                ratio, low, high = paired_ratio([(a[0], b[0]) for a, b in pairs])
        time_ = self._measurement([b for _, b in pairs], before)
        facts = self.placing.ask("measure", "integrity", CHECK_SECONDS)
        part = self._alone(candidate) if candidate.placed else {}
        self.placing.ask("measure", "time_close", SAMPLE_SECONDS)
        theirs = median(a[0] for a, _ in pairs)
        checks = trial.of_run(facts, time_.ms, looked_at, len(pairs))
        return events.TrialMeasured(candidate.trial, time_, baseline.name, theirs, ratio, low, high, checks, part)

    def _ready(self, candidate: Candidate, baseline: events.Baseline) -> None:
        """Both sides ready to be timed."""
        self.placing.ready("measure", candidate)
        if self._open != self._as_open(baseline.name):
            self.baseline_open(baseline.name, baseline.cls)

    def _begin_anew(self) -> None:
        """Whoever failed, both sides are got ready again before anything is timed."""
        self._open = ()
        self.placing.forget()

    def _alone(self, candidate: Candidate) -> dict:
        """The candidate's own region, all regions with programs, and PyTorch on the candidate's, by themselves."""
        found, many = self.placing.ask("measure", "time_parts", CHECK_SECONDS), len(candidate.placed)
        return {
            "region": candidate.region, "region_ms": net(found["region_ms"], self._overhead()), "programs": many,
            "covered_ms": net(found["covered_ms"], many * self._overhead()),
            "region_eager_ms": net(found["region_eager_ms"], self._overhead()),
        }  # fmt: skip

    def quick(self, candidate: Candidate, baseline: events.Baseline) -> float:
        """Milliseconds of a few calls: a hint. Nothing is verified, so it is nobody's result."""
        try:
            self.placing.load("measure", candidate)
            self._ready(candidate, baseline)
            self.placing.ask("measure", "time_open", CHECK_SECONDS, seed=self.verifying.timing_seed)
            times = []
            for _ in range(QUICK_WARM_UP + QUICK_PAIRS):  # alternating, so that the clock is that of a measurement
                self.baseline_sample()
                again = repeatable(candidate, self.placing.problem.graph)
                found = self.placing.ask("measure", "time_sample", SAMPLE_SECONDS, repeatable=again)
                times.append(net(found["ms"], self._overhead()))
            self.placing.ask("measure", "time_close", SAMPLE_SECONDS)
            return median(times[QUICK_WARM_UP:])
        except TrialError:
            self._begin_anew()
            raise
