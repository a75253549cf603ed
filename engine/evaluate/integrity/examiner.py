"""What all raw kernels of one module are compared with: the module's process, the judge, and PyTorch's own errors.

    examiner = Examiner(reference, Judge("cpu"), TextReader())   # all three are the caller's, who closes them
    with examiner.candidate("python") as c:
        Examination(examiner, c, report, "f32", False).run(text)

A session passes its own reference process, so that its kernels and its programs have one reference.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from engine.devices import TrialError
from engine.evaluate.correctness.row_slices import rows_for
from engine.evaluate.correctness.tolerance import PyTorchError
from engine.evaluate.integrity.findings import Report
from engine.evaluate.integrity.process.candidate import Candidate, Layout, late
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.integrity.texts.reading import TextReader
from engine.evaluate.reference.module_process import Outputs, Reference
from engine.sandbox import Sandbox

SHARES = ("cuda",)  # devices whose memory the judge and a candidate share; on a CPU they share the host's anyway


class Examiner:
    """One module, any number of candidates. Not for several threads.

    `box`: returns a child that serves several texts of one person by copies of itself (CPU only); without it each
    candidate has a fresh child. `call_seconds`: for one call; `open_seconds`: to load a candidate (None: as long as a
    kernel of its kind may take to build). Raises JudgeLost or TrialError("validate", "reference_...") if our own side
    fails.
    """

    def __init__(
        self, reference: Reference, judge: Judge, reader: TextReader, *, box: Callable[[], Sandbox] | None = None,
        local_user: bool = False, call_seconds: float = 20.0, open_seconds: float | None = None,
        memory_bytes: int | None = None, cancelled: Callable[[], bool] | None = None,
    ):  # fmt: skip
        self.reference, self.judge, self.reader = reference, judge, reader
        self.box, self.local_user, self.memory_bytes, self.cancelled = box, local_user, memory_bytes, cancelled
        self.call_seconds, self.open_seconds = call_seconds, open_seconds
        self.graph, self.device = reference.problem.graph, reference.device
        self.random = random.SystemRandom()
        self._pytorch: dict[tuple, PyTorchError] = {}
        own = reference.inputs_own()
        self.layout = Layout.of(self.graph, own.tensors)
        self.rows = rows_for(reference.problem.graph) if self.device == "cpu" else None
        self.judge.open(self.graph, own)

    def read(self, source: str, kind: str, cls: str, entry: str = "") -> Report:
        """The findings in the text alone, read in a confined process."""
        return self.reader.read(source, kind, cls, entry)

    def take_up(self) -> None:
        """Give the judge this module's data again, after another module's."""
        self.judge.open(self.graph, self.reference.inputs_own())

    def compute(self, family: str, seed: int, rows: int | None = None) -> Outputs:
        """The module's correct results, in memory that the judge can read: it may be another process than the worker
        that gave a block for results."""
        return self.reference.compute(family, seed, rows, to_host=True)

    def pytorch_error(self, family: str, cls: str, rows: int | None, seed: int) -> PyTorchError | None:
        """PyTorch's own error in a class, computed once per family, because it depends on the kind of data and not on
        the draw. None if the module cannot run in that class."""
        key = (family, cls, rows)
        if key not in self._pytorch:
            try:
                self._pytorch[key] = self.reference.pytorch_error(family, seed, cls, rows, apart=True)
            except TrialError as e:
                if e.code.startswith("reference_"):
                    raise
                return None
        return self._pytorch[key]

    def candidate(self, kind: str, text: str = "") -> Candidate:
        """A process for one text, with nothing of it loaded yet; where the text is known, with the slow modules that it
        imports. Raises CandidateEnded, JudgeLost."""
        candidate = Candidate(
            self.layout, self.reference, kind, box=self.box() if self.box is not None else None,
            local_user=self.local_user, memory_bytes=self.memory_bytes, cancelled=self.cancelled,
            arch=self.judge.ask("arch")["arch"] if kind == "cuda" else "", late=late(text, kind),
        )  # fmt: skip
        try:
            if self.device in SHARES:
                candidate.share(self.judge)
        except BaseException:
            candidate.close()
            raise
        return candidate
