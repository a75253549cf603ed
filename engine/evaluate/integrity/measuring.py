"""Time a raw candidate beside PyTorch by a clock that neither of them can reach, on inputs that none of them has seen.

    with Verifier(module, "cuda") as v:
        report = v.verify(text)
        timed = measure(v.examiner, text, "python", "f32", "eager")

Both sides are untrusted processes. The judge draws inputs for each call, and its own clock runs from before they reach
the process until their results were read (engine.evaluate.timing.outside). Some of these results, of calls chosen after
they ran, are compared with the module's. What the candidate's process says about its kernels is shown as its claim.
"""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import median
from typing import Any

from engine.devices import TrialError
from engine.evaluate.correctness.tolerance import TOLERANCES, says_nothing
from engine.evaluate.integrity import clocks
from engine.evaluate.integrity.examination import OPEN_SECONDS
from engine.evaluate.integrity.examiner import Examiner
from engine.evaluate.integrity.findings import Finding
from engine.evaluate.integrity.judging import explain, number
from engine.evaluate.integrity.judging import text as texts
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.process.judge import JudgeLost
from engine.evaluate.integrity.process.own_builds import Builds
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.cupti import busy_us
from engine.evaluate.timing.outside.plan import LENGTH_MS
from engine.evaluate.timing.outside.runner import CALLS, GRAPH
from engine.evaluate.timing.outside.sides import NotTimed, Opened, Sides
from engine.evaluate.timing.samples import interval, paired_ratio
from engine.evaluate.timing.steadiness import steady

PILOTS, PARTS, LEAST, MOST, LOOK = 3, 3, 4, 21, 4
OPENED, ENOUGH = 2, 1.25  # a batch is made longer at most so often, and only where it becomes so many times as long
CALL_PAIRS = 5  # for the call times beside the times of graphs
NARROW = 0.01  # width of the interval, as a share of the ratio, below which no more pairs are taken
SECONDS = 0.5  # after which no pair of a part is taken beyond LEAST
OPENING_SECONDS = 20.0  # after which nothing is captured anew: honest calls need less than one
CALL_SECONDS = 60.0
NOTHING_MS = 1e-6
METHODS = {
    GRAPH: "outside clock, fresh inputs for each of {n} calls in one CUDA graph, median of paired batches",
    CALLS: "outside clock, call times: fresh inputs for each of {n} calls from Python, median of paired batches",
}


@dataclass
class Timed:
    """Times in ms of one call, by the judge's clock, median of batches: `ms` with its interval, `baseline_ms`, and
    `call_ms` and `baseline_call_ms` of calls from Python one after the other. `mode`: graph, or calls, where `ms` is a
    call time too, because of `why`. `ratio`: baseline over candidate, median of pairs, with its interval. `limit_ms`:
    t_sol of the class. `busy_ms` and `kernels` [{name, us, stream, library}]: one call as its process reports it."""

    ms: float
    low: float
    high: float
    call_ms: float
    baseline: str
    baseline_cls: str
    baseline_ms: float
    baseline_call_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    sample: list[float]
    method: str
    mode: str = GRAPH
    why: str = ""
    calls: int = 1  # of a batch
    device: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    limit_ms: float | None = None
    looked_at: int = 0  # number of timed results that were compared
    busy_ms: float = 0.0
    kernels: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    examiner: Examiner, source: str, kind: str, cls: str, baseline: str = "eager", entry: str = "",
    builds: Builds | None = None,
) -> Timed:  # fmt: skip
    """Time one candidate beside `baseline` (engine.evaluate.reference.baseline_cache.NAMES). `builds`: of the process
    that was checked. Raises CandidateEnded if the candidate fails during the timing, TrialError("measure") if PyTorch
    does."""
    examiner.judge.ask("fresh")
    with examiner.candidate(kind, source) as c:
        run = Run(examiner, c, cls)
        try:
            run.prepare(source, kind, entry, builds)
            return run.claimed(run.time(baseline))
        except NotTimed as e:
            raise CandidateEnded(e.code or "raised", e.reason) from None
        finally:
            run.close()


class Run:
    """One candidate's timing in two parts, so that all slow work is done before the clocks run."""

    def __init__(self, examiner: Examiner, c: Any, cls: str):
        self.examiner, self.c, self.cls = examiner, c, cls
        self.findings: list[Finding] = []
        self.sides: Sides | None = None
        self.opening = (
            0.0  # seconds that both sides took to capture their calls, but for the first time, which compiles
        )
        self.opened: Opened | None = None  # how all pairs ran

    def prepare(self, source: str, kind: str, entry: str = "", builds: Builds | None = None) -> None:
        """Share the memory, measure what batches take without calls, and only then load the candidate with its
        builds."""
        self.examiner.reference.to_all_cores()
        gpu = str((gpu_condition.read() or {}).get("name") or "")
        self.limit = clocks.limit_ms(self.examiner.graph, gpu, self.cls)
        self.sides = Sides(self.examiner.judge, self.c, self.examiner.reference, self.limit or 0.0)
        self.sides.rest()
        if {n for n in self.c.where.own if not n.startswith("guard:")} - set(self.sides.plan.inputs):
            # Buffers and integers have the module's values; the others are drawn for each call.
            self.examiner.judge.ask("draw", family="own", seed=0, rows=None, region=self.c.region("own"))
        self.c.open(source, OPEN_SECONDS[kind], entry, builds)

    def time(self, baseline: str) -> Timed:
        """Raises NotTimed, CandidateEnded, TrialError."""
        self.opened = self._open(baseline)
        before = gpu_condition.read() or {}
        pairs, steadiness = steady(lambda: self._pairs(baseline), lambda pairs: tuple(zip(*pairs, strict=True)))
        self._facts()
        after = gpu_condition.read() or {}
        if median(ours for _, ours in pairs) <= NOTHING_MS:
            raise NotTimed("its batches take no time", "clock")
        spans = self.examiner.judge.ask("clock_about")
        opened = self.opened
        theirs_call, ours_call = self._call_times(baseline, pairs, opened)
        looked_at = self._compare()
        ms, low, high = interval([ours for _, ours in pairs])
        ratio, ratio_low, ratio_high = paired_ratio(pairs)
        if opened.mode == CALLS:
            self._add(Finding("call_times", opened.why or "this device has no graphs", dynamic=True))
        self.findings += clocks.findings(ms, self.limit, self.cls)
        device = {**after, "before": {k: before.get(k) for k in ("sm_mhz", "temperature_c", "power_w", "throttle")}}
        device |= {"clock_us": {side: spans[side] for side in ("ours", "theirs", "signals")}} | steadiness
        return Timed(
            ms, low, high, ours_call, baseline, opened.cls, median(theirs for theirs, _ in pairs), theirs_call, ratio,
            ratio_low, ratio_high, [ours for _, ours in pairs],
            METHODS[opened.mode].format(n=opened.calls), opened.mode, opened.why, opened.calls, device, self.findings,
            self.limit, looked_at,
        )  # fmt: skip

    def claimed(self, timed: Timed) -> Timed:
        """With the kernels of one call, as the process itself reports them. After all timing, because CUPTI stays in
        the process and makes each launch slower."""
        if self.examiner.device == "cuda":
            kernels = self._kernels()
            timed.busy_ms, timed.kernels = busy_us(kernels) / 1e3, kernels[:40]
        return timed

    def close(self) -> None:
        """Give the memory back, where the processes that have it still live."""
        if self.sides is not None:
            with contextlib.suppress(JudgeLost, TrialError):
                self.sides.close()

    # ---- inside ----

    def _open(self, baseline: str) -> Opened:
        """As many calls in a batch that it takes LENGTH_MS, by a few batches of the fewest calls, and then of more:
        what one signal takes makes each of a few short calls look too long."""
        sides = self.sides
        opened = sides.open(baseline, sides.least)
        for _ in range(OPENED):
            with sides.serving():
                pilot = min(ours for _, ours, _ in (sides.pair() for _ in range(PILOTS)))
            wanted = min(sides.plan.slots, ceil(LENGTH_MS / max(pilot, 1e-4)))
            if wanted <= opened.calls * ENOUGH:
                break
            opened = self._opened_as(baseline, wanted, opened.mode)
        return opened

    def _opened_as(self, baseline: str, calls: int, mode: str) -> Opened:
        began = time.monotonic()
        try:
            return self.sides.open(baseline, calls, mode)
        finally:
            self.opening += time.monotonic() - began

    def _pairs(self, baseline: str) -> list[tuple[float, float]]:
        """(ms of PyTorch, of the candidate) in equal parts with graphs of their own: the same calls, captured again,
        may take 1% more or less until they are captured again, which no number of batches shows. What cannot be
        captured every time is called from Python in all parts, or call times would pass for those of graphs."""
        pairs = self._part(LEAST, MOST)
        many = len(pairs)
        for _ in range(PARTS - 1):
            if self.opening > OPENING_SECONDS:  # the GPU's lane waits
                pairs += self._part(many, many)
                continue
            again = self._opened_as(baseline, self.opened.calls, self.opened.mode)
            if again.mode != self.opened.mode:
                self.opened = again
                return self._pairs(baseline)
            pairs += self._part(many, many)
        return pairs

    def _part(self, least: int, most: int) -> list[tuple[float, float]]:
        ratio = low = high = 0.0
        pairs: list[tuple[float, float]] = []
        with self.sides.serving():
            self.sides.pair()  # after a pause the clocks of the GPU are low
            until = time.monotonic() + SECONDS
            while len(pairs) < least or (
                len(pairs) < most and high - low > NARROW * ratio and time.monotonic() < until
            ):
                theirs, ours, unwritten = self.sides.pair()
                if unwritten:
                    self._add(Finding("unwritten", f"{unwritten} elements of a timed result", dynamic=True))
                pairs.append((max(theirs, NOTHING_MS), max(ours, NOTHING_MS)))
                if len(pairs) >= least and (len(pairs) - least) % LOOK == 0:
                    ratio, low, high = paired_ratio(pairs)
        return pairs

    def _call_times(self, baseline: str, pairs: list[tuple[float, float]], opened: Opened) -> tuple[float, float]:
        """(baseline, candidate) of calls from Python, one after the other. The very last call is compared."""
        if opened.mode != CALLS:
            self.sides.open(baseline, opened.calls, CALLS)
        with self.sides.serving():
            batches = [self.sides.pair() for _ in range(CALL_PAIRS if opened.mode != CALLS else 0)]
            batches.append(self.sides.pair(last=True))
        if opened.mode == CALLS:
            return median(theirs for theirs, _ in pairs), median(ours for _, ours in pairs)
        return median(theirs for theirs, _, _ in batches), median(ours for _, ours, _ in batches)

    def _compare(self) -> int:
        """Compare the results that the judge kept with the module's. Returns how many there were."""
        judge, reference = self.examiner.judge, self.examiner.reference
        many = judge.ask("clock_about")["looks"]
        for at in range(many):
            judge.ask("clock_hand", at=at)
            seed = random.getrandbits(40)
            reference.clock_values(seed)
            place = self.examiner.compute("normal", seed).region.to_json()
            looked = judge.ask("clock_check", at=at, reference=place, tolerance=TOLERANCES[self.cls].error)
            error = self.examiner.pytorch_error("normal", self.cls, None, seed)
            if says_nothing(error):
                evidence = f"PyTorch itself, in class {self.cls}, is off by {error.error:.2g} on timed inputs"
                self._add(Finding("inconclusive", evidence, dynamic=True))
            for a in looked["results"]:
                for finding in explain(self.cls, a, "timed", error, {}, loose=True):
                    self._add(finding)
        return many

    def _add(self, finding: Finding) -> None:
        if finding.code not in {f.code for f in self.findings}:
            self.findings.append(finding)

    def _facts(self) -> None:
        for name in texts(self.sides.facts.get("patched"))[:8]:
            self.findings.append(Finding("patched", f"{name}, while it was timed", dynamic=True))

    def _kernels(self) -> list[dict]:
        reply = self.c.ask("kernels", CALL_SECONDS).get("kernels")
        good = isinstance(reply, list) and all(isinstance(k, dict) for k in reply)
        kernels = []
        for k in reply[:400] if good else []:
            kernels.append(
                {
                    "name": "".join(ch for ch in str(k.get("name")) if ch.isprintable())[:160],
                    "start_us": number(k.get("start_us")), "us": number(k.get("us")),
                    "stream": int(number(k.get("stream"))), "library": k.get("library") is True,
                }
            )  # fmt: skip
        return kernels
