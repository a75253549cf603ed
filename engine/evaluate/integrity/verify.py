"""One candidate against its module: text, rounds, tricks, verdict.

    with Verifier(module_text, "cpu", local_user=True) as v:
        report = v.verify(candidate_text, kind="python", cls="f32")

What the rounds are stands in `examination`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from engine.devices import Problem, TrialError
from engine.evaluate.correctness.tolerance import PyTorchError
from engine.evaluate.integrity.examination import Examination, note_facts
from engine.evaluate.integrity.findings import Finding, Report
from engine.evaluate.integrity.process.candidate import PRELOAD, Candidate, CandidateEnded, Layout
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.integrity.texts import opinion, static_cuda, static_python
from engine.evaluate.reference.module_process import Reference, rows_for
from engine.sandbox import Sandbox
from sol.graph import OpGraph

KINDS = {".py": "python", ".cu": "cuda"}


class Shared:
    """A judge and, on a CPU, one child that serves many candidates by copies of itself (a second faster for each), of
    one or several modules in turn. Only for texts of one and the same person."""

    def __init__(self, *, local_user: bool = False, memory_bytes: int | None = None):
        self.local_user, self.memory_bytes = local_user, memory_bytes
        self.judge = Judge("cpu")
        self._box: Sandbox | None = None

    def box(self) -> Sandbox:
        """The child; a fresh one where the last did not survive a candidate."""
        if self._box is None or not self._box.alive:
            if self._box is not None:
                self._box.close()
            self._box = Sandbox(preload=PRELOAD, local_user=self.local_user, memory_bytes=self.memory_bytes).start()
        return self._box

    def close(self) -> None:
        if self._box is not None:
            self._box.close()
        self._box = None
        self.judge.close()


class Verifier:
    """One module, any number of candidates. Not for several threads.

    `device`: cpu | cuda. `shared`: see Shared; its owner closes it. Raises SessionRefused (start) when the module
    itself cannot be worked on, and JudgeLost or TrialError("validate", "reference_...") when our own side fails.
    """

    def __init__(
        self, source: str, device: str = "cpu", *, graph: OpGraph | None = None, local_user: bool = False,
        shared: Shared | None = None, call_seconds: float = 20.0, open_seconds: float | None = None,
        memory_bytes: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ):  # fmt: skip
        self.source, self.device, self.local_user, self.shared = source, device, local_user, shared
        self.call_seconds, self.memory_bytes, self.cancelled = call_seconds, memory_bytes, cancelled
        self.open_seconds = open_seconds  # None: as long as a kernel of its kind may take to build
        self.graph, self.random = graph, random.SystemRandom()
        self.reference: Reference | None = None
        self.judge = shared.judge if shared is not None else Judge(device)
        self._pytorch: dict[tuple, PyTorchError] = {}

    def start(self) -> Verifier:
        """Traces the module where no graph was given, starts reference and judge."""
        if self.reference is not None:
            return self
        self.judge.start()
        if self.graph is None:
            from engine.trace import trace

            self.graph = trace(self.source, local_user=self.local_user, cancelled=self.cancelled).graph
        seed = int.from_bytes(os.urandom(4))
        problem = Problem(self.source, "module", self.graph, seed)
        self.reference = Reference(
            problem, self.device, local_user=self.local_user, cancelled=self.cancelled, memory_bytes=self.memory_bytes
        )
        own = self.reference.inputs_own()
        self.layout = Layout.of(self.graph, own.tensors)
        self.judge.open(self.graph, own)
        self.rows = rows_for(problem) if self.device == "cpu" else None
        return self

    def close(self) -> None:
        if self.reference is not None:
            self.reference.close()
        if self.shared is None:
            self.judge.close()
        self.reference = None

    def __enter__(self) -> Verifier:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def pytorch_error(self, family: str, cls: str, rows: int | None, seed: int) -> PyTorchError | None:
        """PyTorch's own error in a class, asked once a family: it is the data's kind that decides it, not the draw.
        None where the module cannot run in that class."""
        key = (family, cls, rows)
        if key not in self._pytorch:
            try:
                self._pytorch[key] = self.reference.pytorch_error(family, seed, cls, rows)
            except TrialError as e:
                if e.code.startswith("reference_"):
                    raise
                return None
        return self._pytorch[key]

    def candidate(self, kind: str) -> Candidate:
        """A process for one text, nothing loaded yet."""
        box = self.shared.box() if self.shared is not None else None
        return Candidate(
            self.layout, self.reference, kind, box=box, local_user=self.local_user, memory_bytes=self.memory_bytes,
            cancelled=self.cancelled, arch=self.judge.ask("arch")["arch"] if kind == "cuda" else "",
        )  # fmt: skip

    def verify(self, source: str, kind: str = "python", cls: str = "f32", *, nondeterministic: bool = False) -> Report:
        """The verdict on one text that declares class `cls`."""
        began = time.monotonic()
        self.start()
        if self.shared is not None:
            self.judge.open(self.graph, self.reference.inputs_own())
        report = read(source, kind, cls)
        if not any(f.code == "not_loaded" for f in report.findings):
            try:
                with self.candidate(kind) as c:
                    Examination(self, c, report, cls, nondeterministic).run(source)
            except CandidateEnded as e:
                self._ended(report, e)
        report.seconds = time.monotonic() - began
        return report.conclude()

    @staticmethod
    def _ended(report: Report, e: CandidateEnded) -> None:
        note_facts(report, e.facts)
        report.add(Finding(e.code, e.reason, e.line, dynamic=True))


def read(source: str, kind: str, cls: str) -> Report:
    """What the text alone tells."""
    report = Report(declared=cls)
    if kind == "cuda":
        report.add(*static_cuda.check(source))
        if not static_cuda.has_kernel(source):
            report.library.append("no __global__ function in the text")
    else:
        found, facts = static_python.check(source, cls)
        report.add(*found)
        report.library = list(dict.fromkeys(f"{n} (line {at})" for n, at in facts.contractions))[:12]
        report.kernels = [{"name": n, "where": "text"} for n in facts.kernels[:20]]
        if facts.native and not facts.kernels:
            report.kernels.append({"name": "a native library", "where": "text"})
    report.add(*opinion.ask(source))
    return report
