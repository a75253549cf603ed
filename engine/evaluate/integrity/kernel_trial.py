"""A raw kernel as a trial of a session: the steps of the pipeline for candidates of the form `kernel`.

    kernels = Kernels(reference, judge, local_user=True)    # the session's own reference process
    kernels.check(k), kernels.build(k), kernels.validate(k), kernels.measure(k, baseline)

`k` is an engine.strategies.api.KernelTrial. Its text is parsed, compiled, loaded and run only in confined processes.
The same code as in `python -m engine verify` and `measure` runs here, step by step:

    check      the rules about texts; an entry is there (TrialChecked, with their evidence)
    build      nvcc made a library of CUDA C++; Python was loaded in its process (TrialCompiled)
    validate   the rounds of engine.evaluate.integrity.examination (TrialValidated, with their evidence)
    measure    alternating with the session's baseline (TrialMeasured, with the evidence of the timed calls)

A trial that has a verdict but can have no time ends with `Untimed`: a trick was found, or this device cannot run or
time it. A trial whose results are wrong, or that does not run, ends with `KernelFailed`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from engine import sandbox
from engine.devices import SessionRefused, TrialError
from engine.evaluate.integrity import kernel_evidence as evidence
from engine.evaluate.integrity.examination import Examination, note_ended
from engine.evaluate.integrity.examiner import Examiner
from engine.evaluate.integrity.findings import NOTE, UNDECIDED, Finding, Report, worst
from engine.evaluate.integrity.process.candidate import PRELOAD, Candidate, CandidateEnded, build, late
from engine.evaluate.integrity.process.judge import Judge, JudgeLost
from engine.evaluate.integrity.process.nvcc_unit import HOW_TO_GET_NVCC, errors
from engine.evaluate.integrity.process.own_builds import Builds
from engine.evaluate.integrity.texts.reading import TextReader
from engine.evaluate.reference.module_process import Reference
from engine.session import events
from engine.session.kernel_text import EXAMPLES
from engine.strategies.api import KernelTrial

NO_PREDICTION = "right on the CPU, and not timed: no model predicts raw code; a session on a GPU measures it"
CALL_SECONDS = 20.0  # limit for one call of a kernel
ARCH = "sm_90a"  # the target of CUDA builds if there is no GPU
ENDED = ("not_compiled", "not_loaded", "raised", "crashed", "time_limit", "memory_limit", "process_limit")
_STEPS = {"no_entry": "check", "not_compiled": "compile", "not_loaded": "compile", "no_compiler": "compile"}


class KernelFailed(TrialError):
    """A kernel is wrong or does not run. `evidence`: as in a verdict; `diagnostics`: positions in its text, as in
    events.TrialFailed."""

    def __init__(
        self, step: str, code: str, reason: str, detail: str | None = None, *, evidence: list[dict[str, Any]] = (),
        diagnostics: list[dict[str, Any]] = (),
    ):  # fmt: skip
        super().__init__(step, code, reason, detail)
        self.evidence, self.diagnostics = list(evidence), list(diagnostics)


class Untimed(TrialError):
    """A kernel's trial ends with a verdict and no time. `code`: gaming (a trick was found, so it is not timed) |
    needs_gpu, no_compiler, slow_start (it cannot run here, or not now) | no_prediction (it is right, and this device
    times nothing); `evidence`: of this step."""

    def __init__(self, step: str, code: str, reason: str, evidence: list[dict[str, Any]] = ()):
        super().__init__(step, code, reason)
        self.evidence = list(evidence)


class Kernels:
    """The raw kernels of one session. Not for several threads.

    `reference`: the session's, None without a module; `judge`: of the session's device; `timed`: whether the device
    takes times; `reference_used`: called when `reference` computed something, which closes a baseline that was open
    there.
    """

    def __init__(
        self, reference: Reference | None, judge: Judge, *, timed: bool, local_user: bool = False,
        cancelled: Callable[[], bool] = lambda: False, reference_used: Callable[[], None] = lambda: None,
    ):  # fmt: skip
        self.reference, self.judge, self.timed = reference, judge, timed
        self.local_user, self.cancelled, self.reference_used = local_user, cancelled, reference_used
        self.reader = TextReader(local_user=local_user, cancelled=cancelled)
        self._examiner: Examiner | None = None
        self._process: Candidate | None = None
        self._examination: Examination | None = None
        self._report: tuple[KernelTrial, Report] | None = None
        self._builds: Builds | None = None  # of the last kernel that was validated

    # ---- the steps ----

    def check(self, k: KernelTrial) -> events.TrialChecked:
        """Findings in the text before it runs. Raises KernelFailed if there is no entry to call."""
        began = time.perf_counter()
        if self.reference is None:
            reason = "there is no module to compare a kernel with: this session is of a program; start one of a module"
            raise KernelFailed("check", "no_module", reason)
        on_gpu = self.reference.device == "cuda"
        if on_gpu or k.language == "python":
            self._warm(k)
        report = self._read(k)
        lines = evidence.of_text(report)
        broken = next((f for f in report.findings if f.code in ("not_loaded", "no_entry")), None)
        if broken is not None:
            entry = broken.code == "no_entry"
            reason = f"there is no entry: {broken.evidence}" if entry else broken.reason
            raise KernelFailed(
                "check", broken.code, reason, EXAMPLES[k.language] if entry else None, evidence=lines,
                diagnostics=_places([broken]),
            )  # fmt: skip
        text = events.blob_name(k.text)
        return events.TrialChecked(k.trial, text, time.perf_counter() - began, evidence=lines)

    def build(self, k: KernelTrial) -> events.TrialCompiled:
        """Build the library with nvcc, or load the module in its process. Raises KernelFailed with the compiler's
        output, and Untimed if there is no compiler."""
        began = time.monotonic()
        self._end_process()
        self._builds = None
        if k.language == "cuda":
            return self._build_cuda(k)
        with self._running(k, "compile"):
            self._load(k)
        note = "loaded in its confined process; what it builds itself is built at its first call"
        return events.TrialCompiled(k.trial, k.language, "loaded", time.monotonic() - began, note=note)

    def validate(self, k: KernelTrial) -> events.TrialValidated:
        """Run the rounds. Raises KernelFailed for a wrong result, Untimed for a trick or if it cannot run here."""
        device = self.reference.device
        if k.language == "cuda" and device == "cpu":
            reason = f"compiled for {ARCH}, and not run: there is no GPU here, so that nothing is known of its results"
            raise Untimed("validate", "needs_gpu", reason)
        report = self._report_of(k)
        try:
            with self._running(k, "validate"):
                if self._examination is None:
                    self._load(k)
                if self.timed:  # in its own process, which imports while the rounds run
                    self._warm(k)
                self._examination.run()
                self._builds = self._process.builds() if self.timed else None
        finally:
            self._rest()
        self._settle(k, report, "validate")
        top = evidence.worst_round(report)
        return events.TrialValidated(
            k.trial, report.error, report.max_error, top["allowed"][0], _checks(report), report.scope,
            top["allowed"][1], evidence.of_rounds(report, device),
        )  # fmt: skip

    def measure(self, k: KernelTrial, baseline: events.Baseline) -> events.TrialMeasured:
        """Its time in alternation with the baseline, in a fresh process. Raises Untimed if the device takes no
        times."""
        if not self.timed:
            raise Untimed("measure", "no_prediction", NO_PREDICTION)
        from engine.evaluate.integrity.measuring import measure

        try:
            with self._running(k, "measure"):
                timed = measure(self._examine(), k.text, k.language, k.cls, baseline.name, k.entry, self._builds)
        finally:
            self._rest()
        self._warm(k)  # the next kernel is likely to be of this kind
        lines = evidence.of_timing(timed)
        wrong = [f for f in timed.findings if f.severity == "wrong"]
        if wrong:
            raise KernelFailed("measure", wrong[0].code, wrong[0].sentence, evidence=lines)
        time_ = events.Measurement(
            timed.ms, timed.low, timed.high, timed.sample, timed.method, timed.device, timed.call_ms
        )
        return events.TrialMeasured(
            k.trial, time_, timed.baseline, timed.baseline_ms, timed.ratio, timed.ratio_low, timed.ratio_high, lines
        )

    def close(self) -> None:
        """End every process of the session's kernels. Reference and judge belong to the caller."""
        self._rest()
        self.reader.close()
        self._examiner, self._report, self._builds = None, None, None

    # ---- helpers ----

    def _examine(self) -> Examiner:
        """The session's examiner, started with its first kernel. The judge has this session's problem."""
        if self._examiner is None:
            self._examiner = Examiner(
                self.reference, self.judge, self.reader, local_user=self.local_user, call_seconds=CALL_SECONDS,
                cancelled=self.cancelled,
            )  # fmt: skip
        elif not self.judge.holds:
            self._examiner.take_up()
        return self._examiner

    def _rest(self) -> None:
        """After a kernel: free its and the judge's memory, because programs may be timed next."""
        self._end_process()
        self.reference_used()
        with contextlib.suppress(JudgeLost):
            self.judge.forget()

    def _read(self, k: KernelTrial) -> Report:
        report = self.reader.read(k.text, k.language, k.cls, k.entry)
        self._report = (k, report)
        return report

    def _report_of(self, k: KernelTrial) -> Report:
        """The report of `k` since `check`, read again if an engine was lost in between."""
        return self._report[1] if self._report is not None and self._report[0] == k else self._read(k)

    def _warm(self, k: KernelTrial) -> None:
        """Let a process for a kernel like this one start, and import what takes seconds."""
        with contextlib.suppress(SessionRefused):  # reported when the process is taken
            sandbox.warm(
                gpu=self.reference.device == "cuda", visible=self.reference.visible, local_user=self.local_user,
                preload=PRELOAD, late=late(k.text, k.language),
            )  # fmt: skip

    def _load(self, k: KernelTrial) -> None:
        self._process = self._examine().candidate(k.language, k.text)
        self._examination = Examination(self._examiner, self._process, self._report_of(k), k.cls, False)
        self._examination.load(k.text, k.entry)

    def _end_process(self) -> None:
        """End a kernel's process. It lives from the build to the end of the rounds, never beside a timed one."""
        process, self._process, self._examination = self._process, None, None
        if process is not None:
            with contextlib.suppress(Exception):
                process.close()

    @contextlib.contextmanager
    def _running(self, k: KernelTrial, step: str) -> Iterator[None]:
        """Turn the end of a kernel's process into this step's failure or verdict, and that of the judge into a lost
        process of ours."""
        try:
            yield
        except CandidateEnded as e:
            self._raise(k, e, step)
        except TrialError:  # of our own side: whoever tries again begins with a report of the text alone
            self._report = None
            raise
        except JudgeLost as e:
            self._end_process()
            self._report = None
            raise TrialError(step, "worker_lost", f"the process that judges was lost: {e}") from None

    def _build_cuda(self, k: KernelTrial) -> events.TrialCompiled:
        on_gpu = self.reference.device == "cuda"
        began, arch = time.monotonic(), ARCH
        if on_gpu:
            with self._running(k, "compile"):
                arch = self.judge.ask("arch")["arch"]
        with self._running(k, "compile"):
            built = build(k.text, arch, k.entry, gpu=on_gpu, local_user=self.local_user, cancelled=self.cancelled)
        if built is None:
            raise Untimed("compile", "no_compiler", f"not compiled: there is no nvcc here ({HOW_TO_GET_NVCC})")
        note = f"for {arch}" + ("" if on_gpu else "; no GPU was needed")
        return events.TrialCompiled(
            k.trial, "nvcc", "machine code", time.monotonic() - began, built.cached, built.resources, note
        )

    def _raise(self, k: KernelTrial, e: CandidateEnded, step: str) -> None:
        """Turn a candidate that did not load, raised, died or hung into a failure or a verdict. Always raises."""
        self._end_process()
        with contextlib.suppress(JudgeLost):
            self.judge.forget()  # with what both shared, though no round follows
        if self.cancelled():
            raise TrialError(step, "cancelled", "stopped on request") from None
        report = self._report_of(k)
        note_ended(report, e, self.reference.device)
        self._settle(k, report, _STEPS.get(e.code, step), e.log)
        raise TrialError(step, e.code, e.reason)  # no finding explains it

    def _settle(self, k: KernelTrial, report: Report, step: str, log: str = "") -> None:
        """Raise Untimed or KernelFailed if the report is not that of a correct kernel."""
        report.conclude()
        if report.accepted:
            return
        lines = evidence.of_rounds(report, self.reference.device)
        named = worst(f for f in report.findings if f.severity != NOTE or f.code in UNDECIDED)
        if report.verdict in ("gaming", "unverified"):
            code = "gaming" if report.verdict == "gaming" else named.code
            raise Untimed(step, code, named.sentence if code == "gaming" else named.reason, lines)
        failed = [f for f in report.findings if f.severity == "wrong"]
        places = _nvcc_places(log) or _places(failed)
        reason = named.reason if named.code in ENDED else named.sentence
        if named.code == "wrong_result" and report.rounds:
            reason = f"the result is not what the module computes: {evidence.results(report)['said']}"
        raise KernelFailed(step, named.code, reason, log or None, evidence=lines, diagnostics=places)


def _places(findings: list[Finding]) -> list[dict[str, Any]]:
    return [_place(f.code, f.reason, f.line) for f in findings if f.line]


def _nvcc_places(log: str) -> list[dict[str, Any]]:
    return [_place("not_compiled", e["message"], e["line"], e["column"]) for e in errors(log)]


def _place(code: str, message: str, line: int, column: int | None = None) -> dict[str, Any]:
    """A mistake at a line of the text, from 1; the whole line if the column is unknown."""
    end = {"end_line": line, "end_column": column + 1} if column else {"end_line": line + 1, "end_column": 1}
    return {"code": code, "message": message, "line": line, "column": column or 1, **end, "help": ""}


def _checks(report: Report) -> list[dict[str, Any]]:
    names = ("family", "seed", "error", "max_error", "pytorch_error")
    return [{name: r[name] for name in names} for r in report.rounds]


__all__ = ["NO_PREDICTION", "KernelFailed", "Kernels", "Untimed"]
