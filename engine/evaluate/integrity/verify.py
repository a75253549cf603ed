"""Verify one candidate against its module, outside of a session: text, rounds, tricks, verdict.

    with Verifier(module_text, "cpu", local_user=True) as v:
        report = v.verify(candidate_text, kind="python", cls="f32")

`examination` defines the rounds; in a session, `kernel_trial` takes the same steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from engine import sandbox
from engine.devices import Problem
from engine.evaluate.integrity.examination import Examination, note_ended
from engine.evaluate.integrity.examiner import Examiner
from engine.evaluate.integrity.findings import Report
from engine.evaluate.integrity.process.candidate import PRELOAD, Candidate, CandidateEnded
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.integrity.process.own_builds import Builds
from engine.evaluate.integrity.texts.reading import TextReader
from engine.evaluate.reference.module_process import Reference
from engine.sandbox import Sandbox
from sol.graph import OpGraph

KINDS = {".py": "python", ".cu": "cuda"}


class Shared:
    """Parts that serve several modules in turn: a judge, a reader of texts and, on a CPU, one child that serves many
    candidates by copies of itself (which saves a second each). Only for texts of one person."""

    def __init__(self, *, local_user: bool = False, memory_bytes: int | None = None):
        self.local_user, self.memory_bytes = local_user, memory_bytes
        self.judge, self.reader = Judge("cpu"), TextReader(local_user=local_user)
        self._box: Sandbox | None = None

    def box(self) -> Sandbox:
        """The child; a fresh one if the last did not survive a candidate."""
        if self._box is None or not self._box.alive:
            if self._box is not None:
                self._box.close()
            self._box = sandbox.take(preload=PRELOAD, local_user=self.local_user, memory_bytes=self.memory_bytes)
        return self._box

    def close(self) -> None:
        if self._box is not None:
            self._box.close()
        self._box = None
        self.reader.close()
        self.judge.close()


class Verifier:
    """One module, any number of candidates. Not for several threads.

    `device`: cpu | cuda. `shared`: see Shared; its owner closes it. Raises SessionRefused (start) if the module itself
    cannot be used, and JudgeLost or TrialError("validate", "reference_...") if our own side fails.
    """

    def __init__(
        self, source: str, device: str = "cpu", *, graph: OpGraph | None = None, local_user: bool = False,
        shared: Shared | None = None, call_seconds: float = 20.0, open_seconds: float | None = None,
        memory_bytes: int | None = None, cancelled: Callable[[], bool] | None = None,
    ):  # fmt: skip
        self.source, self.device, self.local_user, self.shared = source, device, local_user, shared
        self.call_seconds, self.open_seconds = call_seconds, open_seconds
        self.memory_bytes, self.cancelled = memory_bytes, cancelled
        self.graph = graph
        self.examiner: Examiner | None = None
        self.builds: Builds | None = None  # of the last text
        self.judge = shared.judge if shared is not None else Judge(device)
        self.reader = shared.reader if shared is not None else TextReader(local_user=local_user, cancelled=cancelled)

    def start(self) -> Verifier:
        """Trace the module if no graph was given, and start reference and judge."""
        if self.examiner is not None:
            return self
        self.judge.start()
        if self.graph is None:
            from engine.trace import trace

            self.graph = trace(self.source, local_user=self.local_user, cancelled=self.cancelled).graph
        problem = Problem(self.source, "module", self.graph, int.from_bytes(os.urandom(4)))
        reference = Reference(
            problem, self.device, local_user=self.local_user, cancelled=self.cancelled, memory_bytes=self.memory_bytes
        )
        try:
            self.examiner = Examiner(
                reference, self.judge, self.reader, box=self.shared.box if self.shared is not None else None,
                local_user=self.local_user, call_seconds=self.call_seconds, open_seconds=self.open_seconds,
                memory_bytes=self.memory_bytes, cancelled=self.cancelled,
            )  # fmt: skip
        except BaseException:
            reference.close()
            raise
        return self

    def close(self) -> None:
        if self.examiner is not None:
            self.examiner.reference.close()
        self.examiner = None
        if self.shared is None:
            self.reader.close()
            self.judge.close()

    def __enter__(self) -> Verifier:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def candidate(self, kind: str) -> Candidate:
        """A process for one text, with nothing loaded yet."""
        return self.start().examiner.candidate(kind)

    def verify(self, source: str, kind: str = "python", cls: str = "f32", *, nondeterministic: bool = False) -> Report:
        """The verdict on one text that declares class `cls`."""
        began = time.monotonic()
        examiner = self.start().examiner
        if self.shared is not None:
            examiner.take_up()
        report, self.builds = examiner.read(source, kind, cls), None
        if not report.codes & {"not_loaded", "no_entry"}:
            try:
                with examiner.candidate(kind, source) as c:
                    examination = Examination(examiner, c, report, cls, nondeterministic)
                    examination.load(source)
                    examination.run()
                    self.builds = c.builds()
            except CandidateEnded as e:
                note_ended(report, e, self.device)
        report.seconds = time.monotonic() - began
        return report.conclude()
