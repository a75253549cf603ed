"""Times on the GPU: PyTorch's modes, and adjacent pairs of PyTorch and a program for ratios.

The module's process times PyTorch, the worker times the program; for a program without a module the worker times both.
The engine sends requests in turn, so the GPU has one user at a time.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from engine.devices import Candidate, TrialError
from engine.evaluate.candidate.gpu_session import MAIN, GpuSession
from engine.evaluate.correctness.gpu_rounds import CHECK_SECONDS, GpuRounds, repeatable
from engine.evaluate.integrity import trial
from engine.evaluate.timing.samples import METHOD, interval, net, paired_ratio
from engine.evaluate.timing.steadiness import steady
from engine.session import events
from sol.bounds import native_class

SAMPLE_SECONDS = 20.0
WARM_UP, SAMPLES = 3, 15
# A slow baseline is sampled less often, and alternated with the one beside it still less often: others wait for the
# GPU, and what disturbs a short call is a small part of a long one.
SLOW_MS, SLOW_SAMPLES, SLOW_PAIRS = 5.0, 7, 5
QUICK_WARM_UP, QUICK_PAIRS = 1, 3
LOOK = 4  # pairs between two computations of the interval
WIDE = 0.04  # an interval of the ratio wider than this requires more pairs
Sample = tuple[float, float]  # ms of one call: on the device without the events' own time, and on the host


class PairedTiming:
    """`condition`: returns the GPU's current state (engine.evaluate.timing.gpu_condition.read). `overhead`: the
    milliseconds that CUDA events add to the enclosed work here, the same for PyTorch and for a program."""

    def __init__(self, session: GpuSession, rounds: GpuRounds, condition: Callable[[], dict], overhead: float = 0.0):
        self.session, self.rounds, self.reference = session, rounds, session.reference
        self._condition, self.overhead = condition, overhead
        self._open: tuple = ()  # (baseline, the state that closes it when it changes)

    # ---- PyTorch ----

    def baseline(self, name: str, beside: str = "") -> events.Baseline:
        """Time one of engine.evaluate.reference.baseline_cache.NAMES; its ratio to the one `beside` comes from
        alternation. Raises TrialError("measure")."""
        beside = beside if self.reference is not None and beside != name else ""
        cls, note = self.baseline_open(name, beside)
        for _ in range(WARM_UP):
            self.baseline_sample()
            if beside:
                self.baseline_sample(beside=True)
        before = self._condition()
        (samples, pairs), steadiness = steady(lambda: self._baseline(beside), lambda m: (_ms(m[0]),))
        ratio = paired_ratio(pairs) if pairs else (None, None, None)
        return events.Baseline(name, cls, self._measurement(samples, before, steadiness), note, beside, *ratio)

    def compile(self, name: str, seconds: float | None = None) -> None:
        """Compile the module for one of torch.compile's baselines, which `baseline` then finds ready. It needs no lane.
        Raises TrialError("measure")."""
        if self.reference is not None:
            self._open = ()
            self.reference.compile(name, seconds)

    def _baseline(self, beside: str) -> tuple[list[Sample], list[tuple[float, float]]]:
        """(samples of the open baseline, ms of pairs with the one beside it)."""
        samples, pairs = [], []
        while len(samples) < least(samples):
            samples.append(self.baseline_sample())
            if beside and (samples[-1][0] <= SLOW_MS or len(samples) <= SLOW_PAIRS):
                pairs.append((samples[-1][0], self.baseline_sample(beside=True)[0]))
        return samples, pairs

    def baseline_open(self, name: str, beside: str = "") -> tuple[str, str]:
        """(class, note), ready to be sampled."""
        self._open = ()
        if self.reference is not None:
            opened = self.reference.baseline_open(name, self.rounds.timing_seed, beside)
        else:
            self.session.hand_over("measure")
            self.session.ask("measure", "baseline_open", CHECK_SECONDS, name=name, seed=self.rounds.timing_seed)
            note = {"eager": "the program's operations as PyTorch ships them", "eager_tf32": "TF32 allowed"}
            cls = native_class(self.session.problem.graph) if name == "eager" else name.removeprefix("eager_")
            opened = cls, note.get(name, "torch.autocast, its casts timed")
        self._open = self._as_open(name)
        return opened

    def _as_open(self, name: str) -> tuple:
        """The state that an open baseline depends on: the module's process computes nothing else, and the worker is the
        same."""
        return (name, self.rounds.computed if self.reference is not None else self.session.generation)

    def baseline_sample(self, beside: bool = False) -> Sample:
        if self.reference is not None:
            one = self.reference.baseline_sample(beside)
            return net(one.ms, self.overhead), one.call_ms
        answer = self.session.ask("measure", "baseline_sample", SAMPLE_SECONDS)
        return net(answer["ms"], self.overhead), answer["call_ms"]

    def _measurement(
        self, samples: Sequence[Sample], before: dict, steadiness: Mapping[str, Any] | None = None
    ) -> events.Measurement:
        times = _ms(samples)
        ms, low, high = interval(times)
        device = {**self._condition(), "before": {k: v for k, v in before.items() if k not in ("name", "driver")}}
        device |= {"events_us": round(self.overhead * 1e3, 2), **(steadiness or {})}
        return events.Measurement(ms, low, high, times, METHOD, device, median(c for _, c in samples))

    # ---- a program beside it ----

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """Pairs of one call each, baseline and candidate, until the ratio's interval is narrow, again if something
        disturbed them (engine.evaluate.timing.steadiness); then the evidence of the run
        (engine.evaluate.integrity.trial)."""
        try:
            return self._measure(candidate, baseline)
        except TrialError:
            self._begin_anew()
            raise

    def _measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        sample = self._ready(candidate, baseline)
        looked_at = timed = 0

        def pair(check: bool = False) -> tuple[Sample, Sample]:
            nonlocal looked_at, timed
            theirs, (ours, compared) = self.baseline_sample(), sample(check=check)
            looked_at, timed = looked_at + compared, timed + 1
            return theirs, ours

        for _ in range(WARM_UP):
            pair()
        looked_at, timed, before = 0, 0, self._condition()
        pairs, steadiness = steady(
            lambda: _narrow(pair), lambda pairs: (_ms(a for a, _ in pairs), _ms(b for _, b in pairs))
        )
        ratio, low, high = _ratio(pairs)
        time_ = self._measurement([b for _, b in pairs], before, steadiness)
        facts = self._ask("integrity", CHECK_SECONDS)
        part = self._alone(candidate) if candidate.placed else {}
        self._ask("time_close", SAMPLE_SECONDS)
        theirs = median(a[0] for a, _ in pairs)
        checks = [*trial.of_run(facts, time_.ms, looked_at, timed), *trial.steadiness(steadiness)]
        return events.TrialMeasured(candidate.trial, time_, baseline.name, theirs, ratio, low, high, checks, part)

    def _ask(self, op: str, seconds: float, slot: str = MAIN, **arguments: object) -> dict:
        return self.session.ask("measure", op, seconds, slot=slot, **arguments)

    def _ready(
        self, candidate: Candidate, baseline: events.Baseline, slot: str = MAIN, family: str = "normal"
    ) -> Callable[..., tuple[Sample, bool]]:
        """Prepare both sides for timing. `sample(check=)` times one call of the program: (its time, whether its result
        was compared)."""
        self.session.ready("measure", candidate, slot)
        if self._open != self._as_open(baseline.name):
            self.baseline_open(baseline.name)
        self._ask("time_open", CHECK_SECONDS, slot, seed=self.rounds.timing_seed, family=family)
        again = repeatable(candidate, self.session.problem.graph)
        ask = functools.partial(self._ask, "time_sample", SAMPLE_SECONDS, slot, repeatable=again)

        def sample(check: bool = False) -> tuple[Sample, bool]:
            answer = ask(check=check)
            return (net(answer["ms"], self.overhead), answer["call_ms"]), answer["checked"]

        return sample

    def _begin_anew(self) -> None:
        """After any failure, prepare both sides again before the next timing."""
        self._open = ()
        self.session.forget()

    def _alone(self, candidate: Candidate) -> dict:
        """The times of the candidate's region, of all regions with programs, and of PyTorch on the candidate's region,
        each alone."""
        answer, many = self._ask("time_parts", CHECK_SECONDS), len(candidate.placed)
        return {
            "region": candidate.region, "region_ms": net(answer["region_ms"], self.overhead), "programs": many,
            "covered_ms": net(answer["covered_ms"], many * self.overhead),
            "region_eager_ms": net(answer["region_eager_ms"], self.overhead),
            "graph": answer["graph"], **({"rest": candidate.rest} if candidate.rest else {}),
        }  # fmt: skip

    def compare(self, candidates: Sequence[Candidate], baseline: events.Baseline) -> list[events.TrialMeasured]:
        """Several programs in turns with the baseline, in one run: all samples are of the same rounds, so the ratio of
        any two is of adjacent calls. They must be validated before; nothing else is checked."""
        slots = [f"beside {i}" for i in range(len(candidates))]
        try:
            self.session.unload(MAIN)
            samples = [self._ready(c, baseline, slot) for c, slot in zip(candidates, slots, strict=True)]
            rounds: list[tuple[Sample, list[Sample]]] = []
            before: dict = {}
            for i in range(-WARM_UP, SAMPLES):
                theirs = self.baseline_sample()
                ours = [sample(check=i == 0)[0] for sample in samples]
                if i < 0:
                    before = self._condition()
                else:
                    rounds.append((theirs, ours))
        except TrialError:
            self._begin_anew()
            raise
        finally:
            for slot in slots:
                with contextlib.suppress(TrialError):
                    self.session.unload(slot)
        results = []
        for i, candidate in enumerate(candidates):
            ratio = paired_ratio([(theirs[0], ours[i][0]) for theirs, ours in rounds])
            time_ = self._measurement([ours[i] for _, ours in rounds], before)
            theirs = median(theirs[0] for theirs, _ in rounds)
            results.append(events.TrialMeasured(candidate.trial, time_, baseline.name, theirs, *ratio))
        return results

    def quick(self, candidate: Candidate, baseline: events.Baseline, family: str = "normal") -> float:
        """Milliseconds of a few calls, on inputs of a family: a hint. It is unverified, so it is no result."""
        try:
            self.session.load("measure", candidate)
            sample, times = self._ready(candidate, baseline, family=family), []
            for _ in range(QUICK_WARM_UP + QUICK_PAIRS):  # alternating, so that the clock rate is that of a measurement
                self.baseline_sample()
                (ms, _), _ = sample()
                times.append(ms)
            self._ask("time_close", SAMPLE_SECONDS)
            return median(times[QUICK_WARM_UP:])
        except TrialError:
            self._begin_anew()
            raise


def _ms(samples: Iterable[Sample]) -> list[float]:
    return [ms for ms, _ in samples]


def _ratio(pairs: Sequence[tuple[Sample, Sample]]) -> tuple[float, float, float]:
    return paired_ratio([(theirs[0], ours[0]) for theirs, ours in pairs])


def least(samples: Sequence[Sample]) -> int:
    """How many samples of a call to take at least, given the first ones."""
    return SLOW_SAMPLES if samples and samples[0][0] > SLOW_MS else SAMPLES


def _narrow(pair: Callable[..., tuple[Sample, Sample]]) -> list[tuple[Sample, Sample]]:
    """Pairs until the interval of their ratio is narrow, or there are twice as many as at least. The first is always
    checked, the others at random."""
    pairs: list[tuple[Sample, Sample]] = []
    enough, ratio, low, high = SAMPLES, 0.0, 0.0, 0.0
    while len(pairs) < enough or (len(pairs) <= 2 * enough and (high - low) > WIDE * ratio):
        pairs.append(pair(check=not pairs))
        enough = least([theirs for theirs, _ in pairs])
        if len(pairs) >= enough and (len(pairs) - enough) % LOOK == 0:
            ratio, low, high = _ratio(pairs)
    return pairs
