"""Time a raw candidate beside PyTorch: paired calls in one run, all streams counted, results checked meanwhile.

    with Verifier(module, "cuda") as v:
        report = v.verify(text)
        timed = measure(v.examiner, text, "python", "f32", "eager")

Both sides are untrusted processes, and the candidate's could report a false time. So events on its stream, CUPTI's
record of all streams, the engine's own clock and the hardware's limit must agree (engine.evaluate.integrity.clocks).
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from engine.evaluate.correctness.tolerance import TOLERANCES
from engine.evaluate.integrity import clocks
from engine.evaluate.integrity.examination import OPEN_SECONDS
from engine.evaluate.integrity.examiner import Examiner
from engine.evaluate.integrity.findings import Finding
from engine.evaluate.integrity.judging import explain, number
from engine.evaluate.integrity.judging import text as texts
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.cupti import busy_us
from engine.evaluate.timing.samples import METHOD, interval, net, paired_ratio
from engine.evaluate.timing.steadiness import steady

WARM_UP, PAIRS, MOST_PAIRS, LOOK = 3, 15, 127, 8
NARROW = 0.02  # width of the interval, as a share of the ratio, below which no more pairs are taken
SETS, CHECKED = 4, 0.1
HIDDEN = 1.5  # ratio of all streams' time to the events' time above which work is hidden
SLACK_US = 20.0  # for a kernel's start and CUPTI's clock
CALL_SECONDS = 60.0


@dataclass
class Timed:
    """`ms` with its interval: device time by events in the candidate's process. `ratio`: baseline over candidate,
    median of pairs, with its interval, of device times where the engine's clock confirms `ms` (`confirmed`) and else
    of call times. `limit_ms`: t_sol of the class. `busy_ms`: CUPTI's time of one call over all streams. `wall_ms`: of
    one call by the engine's clock, `call_sample` the call times of the pairs, each at least that. `kernels`: [{name,
    us, stream, library}]."""

    ms: float
    low: float
    high: float
    call_ms: float
    baseline: str
    baseline_cls: str
    baseline_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    busy_ms: float
    wall_ms: float
    kernels: list[dict[str, Any]]
    sample: list[float]
    method: str = METHOD
    device: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    confirmed: bool = True
    limit_ms: float | None = None
    looked_at: int = 0  # number of checked timed results
    call_sample: list[float] = field(default_factory=list)
    baseline_call_ms: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(examiner: Examiner, source: str, kind: str, cls: str, baseline: str = "eager", entry: str = "") -> Timed:
    """Time one candidate beside `baseline` (engine.evaluate.reference.baseline_cache.NAMES). Raises CandidateEnded if
    the candidate fails during the timing, TrialError("measure") if PyTorch does."""
    examiner.judge.ask("fresh")
    with examiner.candidate(kind) as c:
        run = Run(examiner, c, cls)
        run.prepare(source, kind, entry)
        return run.time(baseline)


@dataclass(frozen=True)
class Pair:
    """Adjacent calls, in ms: the baseline's device and call time, the candidate's as its process reports them, and the
    request for the candidate's call by the engine's clock."""

    baseline_ms: float
    baseline_call_ms: float
    ms: float
    call_ms: float
    request_ms: float

    @property
    def device(self) -> tuple[float, float]:
        return self.baseline_ms, self.ms

    def call(self, wall_ms: float) -> tuple[float, float]:
        """The call times; the candidate's is at least what the engine's clock measured."""
        return self.baseline_call_ms, max(self.call_ms, wall_ms)


class Run:
    """One candidate's timing in two parts, so that all slow work is done before the clocks run."""

    def __init__(self, examiner: Examiner, c: Any, cls: str):
        self.examiner, self.c, self.cls = examiner, c, cls
        self.findings: list[Finding] = []
        self.looked_at = 0
        self.seed = int.from_bytes(os.urandom(5))

    def prepare(self, source: str, kind: str, entry: str = "") -> None:
        """Load it, write the values to rotate through, and record one call's kernels with CUPTI."""
        self.examiner.reference.to_all_cores()
        self.c.open(source, OPEN_SECONDS[kind], entry)
        self.keys = self._sets(self.seed)
        self.kernels = self._kernels()
        self.overhead = self.examiner.judge.ask("overhead")["ms"]

    def time(self, baseline: str) -> Timed:
        base_cls, _ = self.examiner.reference.baseline_open(baseline, self.seed)
        self.c.ask("time_open", CALL_SECONDS)
        before = self._warm_up()
        pairs, unsteady = steady(self._pairs, lambda pairs: ([p.baseline_ms for p in pairs], [p.ms for p in pairs]))
        after = gpu_condition.read() or {}
        sample = [p.ms for p in pairs]
        ms, ms_low, ms_high = interval(sample)
        call_ms = median(p.call_ms for p in pairs)
        busy = busy_us(self.kernels) / 1e3
        if busy > HIDDEN * ms + SLACK_US / 1e3:
            evidence = f"{ms:.4g} ms by events on its stream, {busy:.4g} ms on all streams"
            self.findings.append(Finding("side_stream", evidence, dynamic=True))
        wall, calls = self._wall(call_ms)
        limit = clocks.limit_ms(self.examiner.graph, str(after.get("name") or ""), self.cls)
        request = median(p.request_ms for p in pairs)
        claim = clocks.Claim(ms, call_ms, request, wall, calls, self.cls, limit)
        self.findings += clocks.findings(claim)
        ratio, low, high = paired_ratio([p.device if claim.confirmed else p.call(wall) for p in pairs])
        device = {**after, "before": {k: before.get(k) for k in ("sm_mhz", "temperature_c", "power_w", "throttle")}}
        device["events_us"] = self.overhead * 1e3
        device |= {"unsteady": unsteady} if unsteady else {}
        return Timed(
            ms, ms_low, ms_high, call_ms, baseline, base_cls, median(p.baseline_ms for p in pairs), ratio, low, high,
            busy, wall, self.kernels[:40], sample, device=device, findings=self.findings, confirmed=claim.confirmed,
            limit_ms=limit, looked_at=self.looked_at, call_sample=[p.call(wall)[1] for p in pairs],
            baseline_call_ms=median(p.baseline_call_ms for p in pairs),
        )  # fmt: skip

    def _sets(self, seed: int) -> list[str]:
        """Values to rotate through. The judge keeps the correct result of each."""
        keys = []
        for i in range(SETS):
            self.examiner.judge.ask("draw", family="normal", seed=seed + i, rows=None, region=self.c.region("own"))
            self.c.ask("keep", CALL_SECONDS)
            computed = self.examiner.reference.compute("normal", seed + i)
            keys.append(f"{seed}:{i}:")
            self.examiner.judge.ask("hold", key=keys[-1], reference=computed.region.to_json())
        self.error = self.examiner.pytorch_error("normal", self.cls, None, seed)
        return keys

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

    def _warm_up(self) -> dict:
        """The GPU's condition after it."""
        for _ in range(WARM_UP):
            self._pair(self.keys, False)
        return gpu_condition.read() or {}

    def _pairs(self) -> list[Pair]:
        ratio = low = high = 0.0
        pairs: list[Pair] = []
        self.looked_at = 0
        while len(pairs) < PAIRS or (len(pairs) < MOST_PAIRS and high - low > NARROW * ratio):
            pairs.append(self._pair(self.keys, not pairs or random.random() < CHECKED))
            if len(pairs) >= PAIRS and (len(pairs) - PAIRS) % LOOK == 0:
                ratio, low, high = paired_ratio([p.device for p in pairs])
        return pairs

    def _pair(self, keys: list[str], check: bool) -> Pair:
        theirs = self.examiner.reference.baseline_sample()
        began = time.monotonic()
        ours = self.c.ask("time_sample", CALL_SECONDS, keep=check)
        request_ms = (time.monotonic() - began) * 1e3
        ms, call_ms, at = number(ours.get("ms")), number(ours.get("call_ms")), ours.get("set")
        if ms <= 0 or at not in range(SETS):
            raise CandidateEnded("clock", "its process gave no time")
        if check:
            self.looked_at += 1
            self.c.ask("fetch", CALL_SECONDS, at=0)
            looked = self.examiner.judge.ask(
                "results", held=keys[at], result=self.c.region("result"), key=keys[at],
                tolerance=TOLERANCES[self.cls].error,
            )  # fmt: skip
            for a in looked["results"]:
                faults = explain(self.cls, a, "timed", self.error, {}, loose=True)
                self.findings += [f for f in faults if f.code not in {o.code for o in self.findings}]
        return Pair(net(theirs.ms, self.overhead), theirs.call_ms, net(ms, self.overhead), call_ms, request_ms)

    def _wall(self, call_ms: float) -> tuple[float, int]:
        """(milliseconds of a call by the engine's clock, number of calls): a long run minus a short one, to cancel the
        time of the pipes. Afterwards the process reports the functions that were replaced during the timing."""
        many = max(8, min(2000, int(clocks.LONG_MS / max(call_ms, 0.01))))
        spent = []
        for calls in (4, 4 + many):
            began = time.monotonic()
            answer = self.c.ask("wall", CALL_SECONDS, calls=calls)
            spent.append(time.monotonic() - began)
        patched = texts(answer.get("patched"))[:8]
        self.findings += [Finding("patched", f"{name}, while it was timed", dynamic=True) for name in patched]
        return max(0.0, spent[1] - spent[0]) * 1e3 / many, many
