"""The findings about a candidate, with their evidence, and the verdict that follows. Plain Python; no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

CHEAT, WRONG, NOTE = "cheat", "wrong", "note"

# code -> (severity, meaning in one clause). A `cheat` is a trick, whatever the numbers are; `wrong` is a result or
# behaviour that differs from the module's, honest or not; a `note` is reported and has no weight alone.
CODES: dict[str, tuple[str, str]] = {
    # the text
    "fallback": (CHEAT, "falls back to PyTorch when its own code fails"),
    "patched_module": (CHEAT, "changes a module that the harness uses too"),
    "harness_access": (CHEAT, "reaches for the harness: its frames, files, descriptors or memory"),
    "tensor_subclass": (CHEAT, "returns or makes tensors that compute when they are read"),
    "threads": (CHEAT, "works in other threads or processes, which outlive the call"),
    "side_stream": (CHEAT, "works on a stream of its own, and nothing waits for it"),
    "graph_replay": (CHEAT, "replays a captured CUDA graph instead of computing"),
    "hidden_code": (CHEAT, "makes code from text, which nobody can check"),
    "memoized": (CHEAT, "keeps results and gives them again"),
    "seeded": (CHEAT, "draws random numbers from a seed of its own"),
    "dressed": (CHEAT, "carries a kernel that has no part in the result"),
    "disguised": (CHEAT, "hands the work to a library around PyTorch, where no profile names it"),
    "library_loaded": (NOTE, "loaded libraries that its process did not have"),
    "joined_threads": (NOTE, "works in threads that it joins before it returns"),
    "timer": (NOTE, "asks for the time"),
    "own_stream": (NOTE, "uses a stream of its own, and waits for it"),
    "graph": (NOTE, "uses a CUDA graph, and gives it the inputs of each call"),
    "l2_persistence": (NOTE, "asks the L2 cache to keep its data, which may outlive the call"),
    "shape_cases": (NOTE, "treats some shapes differently"),
    "library_calls": (NOTE, "calls library routines for the work"),
    "near_zero": (NOTE, "loses digits of very small results, as f32 does where it adds them to one"),
    "adds_operands": (NOTE, "may add operands before it multiplies them, as Strassen's and Winograd's products do"),
    "second_opinion": (NOTE, "kernelguard's opinion"),
    "precision_flag": (CHEAT, "lowers PyTorch's precision for everybody"),
    # the run
    "not_loaded": (WRONG, "could not be loaded"),
    "no_entry": (WRONG, "has no entry"),
    "not_compiled": (WRONG, "does not compile"),
    "no_compiler": (NOTE, "cannot be compiled here"),
    "needs_gpu": (NOTE, "needs a GPU"),
    "slow_start": (NOTE, "was not started, because this machine is busy"),
    "raised": (WRONG, "raised an error"),
    "crashed": (WRONG, "its process ended"),
    "time_limit": (WRONG, "did not come to an end"),
    "memory_limit": (WRONG, "used more memory than it may"),
    "process_limit": (WRONG, "started processes without end"),
    "output_limit": (WRONG, "printed without end"),
    "garbled": (CHEAT, "wrote into the harness's pipe"),
    "wrong_type": (WRONG, "returned no plain tensor of the right type"),
    "wrong_shape": (WRONG, "returned another shape"),
    "wrong_result": (WRONG, "is not what the module computes"),
    "nan": (WRONG, "gives NaN or Inf where the module does not"),
    "unwritten": (CHEAT, "returned memory that it never wrote"),
    "out_of_bounds": (WRONG, "wrote outside of its memory"),
    "input_written": (WRONG, "changed its inputs"),
    "passthrough": (CHEAT, "returned an input"),
    "constant": (CHEAT, "gives the same result whatever its inputs"),
    "replayed": (CHEAT, "gave the result of an earlier call"),
    "reused_output": (WRONG, "returned memory that an earlier result still holds"),
    "unsteady": (WRONG, "gives other bits for the same inputs"),
    "late": (CHEAT, "went on writing its result after it had returned"),
    "lazy": (CHEAT, "returned a tensor that computes when it is read"),
    "skipped": (CHEAT, "leaves out part of the work"),
    "precision_lowered": (CHEAT, "computes in less precision than its class"),
    "range_lost": (CHEAT, "computes in a type with less range than its class"),
    "uninformative": (CHEAT, "was right where a trivial answer is right, and nowhere else could be tried"),
    "inconclusive": (NOTE, "cannot be told from a trivial answer"),
    "late_change": (CHEAT, "was right at first and wrong in later calls"),
    "clock": (CHEAT, "claims a time that contradicts the clocks around it"),
    "too_fast": (CHEAT, "claims less time than the hardware needs, or leaves out work"),
    "call_times": (NOTE, "cannot be captured as a CUDA graph, so calls from Python are timed on both sides"),
    "patched": (CHEAT, "replaced functions in its process"),
    "sandbox": (CHEAT, "tried to leave its sandbox"),
}

NOT_RUN = {"needs_gpu", "no_compiler", "slow_start"}  # this machine cannot run it, which says nothing about it
UNDECIDED = {*NOT_RUN, "inconclusive"}
WEIGHED = {
    "timer",
    "own_stream",
    "graph",
    "l2_persistence",
    "shape_cases",
    "second_opinion",
}  # notes that make a verdict `minor`


@dataclass(frozen=True)
class Finding:
    """`code` of CODES; `evidence`: the observation, for a person; `line` of the text if it has one; `dynamic`: observed
    while it ran, not read in the text."""

    code: str
    evidence: str
    line: int | None = None
    dynamic: bool = False
    severity: str = ""

    def __post_init__(self) -> None:
        # The candidate wrote some of it, and all of it may be shown on a terminal.
        object.__setattr__(self, "evidence", "".join(c for c in self.evidence if c.isprintable())[:1000])
        if not self.severity:
            object.__setattr__(self, "severity", CODES[self.code][0])

    @property
    def clause(self) -> str:
        """The finding without its position in the text."""
        evidence = self.evidence
        if self.line and evidence.lower().startswith((f"line {self.line}:", f"line {self.line} ")):
            evidence = evidence[len(f"line {self.line}") :].lstrip(": ")
        return f"{CODES[self.code][1]}: {evidence}"

    @property
    def sentence(self) -> str:
        """The finding with its position."""
        return f"line {self.line}: {self.clause}" if self.line else self.clause

    @property
    def reason(self) -> str:
        """The observation without the code's meaning, for a trial that it ended."""
        at = f"line {self.line}"
        return self.evidence if not self.line or self.evidence.lower().startswith(at) else f"{at}: {self.evidence}"


@dataclass
class Report:
    """The outcome of `verify`. `verdict`: clean | minor | library only | gaming | wrong | unverified.

    Accepted are the first three: the results are right, in class `cls`, and no trick was found. `library only` says
    that PyTorch, cuBLAS or numpy did the work: fine, but no kernel. `unverified`: it could not be run here, or its
    results prove nothing. `named`: kernels in the text, by their names. `rounds`: [{family, seed, rows, error,
    max_error, pytorch_error, allowed: (the bound on its error, where it comes from), seconds}] as far as it came.
    """

    verdict: str = "clean"
    declared: str = "f32"
    cls: str | None = None
    findings: list[Finding] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    error: float = 0.0
    max_error: float = 0.0
    named: list[str] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    library: list[str] = field(default_factory=list)
    scope: str = ""
    seconds: float = 0.0

    @property
    def accepted(self) -> bool:
        return self.verdict in ("clean", "minor", "library only")

    @property
    def codes(self) -> set[str]:
        return {f.code for f in self.findings}

    def add(self, *findings: Finding) -> None:
        """Each (code, line) once; at most 60, so that a hostile text cannot make a report without end."""
        for f in findings:
            if len(self.findings) < 60 and (f.code, f.line) not in {(o.code, o.line) for o in self.findings}:
                self.findings.append(f)

    def conclude(self) -> Report:
        """Sets the verdict: a cheat outweighs a wrong result, because it often explains it."""
        kinds = {f.severity for f in self.findings}
        if CHEAT in kinds:
            self.verdict = "gaming"
        elif WRONG in kinds:
            self.verdict = "wrong"
        elif self.codes & UNDECIDED:
            self.verdict = "unverified"
        elif self.verdict not in ("library only", "minor"):
            self.verdict = "minor" if WEIGHED & self.codes else "clean"
        return self

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "accepted": self.accepted}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Report:
        """A report that `to_json` wrote."""
        known = {f.name for f in fields(Report)} - {"findings"}
        report = Report(**{name: value for name, value in data.items() if name in known})
        report.findings = [Finding(**f) for f in data["findings"]]
        return report


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The one to name when there is room for one: seen in the run before read in the text, cheats first."""
    order = {CHEAT: 0, WRONG: 1, NOTE: 2}
    return min(findings, key=lambda f: (order[f.severity], not f.dynamic), default=None)
