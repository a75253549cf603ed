"""The rounds of one candidate: write the values, request the calls, judge the results, and find who did the work.

The order of the rounds, their seeds and the inspected calls of a burst are drawn after the candidate is loaded.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from engine.devices import TrialError
from engine.evaluate.correctness.inputs import FAMILIES, GUARD_FAMILIES
from engine.evaluate.correctness.operands import OPERAND_FAMILIES, families
from engine.evaluate.correctness.tolerance import TOLERANCES, Comparison, bound, says_nothing, verdict
from engine.evaluate.integrity.attribution import Attribution
from engine.evaluate.integrity.bursts import BURST, Bursts
from engine.evaluate.integrity.examiner import Examiner
from engine.evaluate.integrity.findings import NOTE, Finding, Report
from engine.evaluate.integrity.judging import (
    adds_operands,
    explain,
    explain_operands,
    like_trivial,
    note_facts,
    number,
    precision_of,
)
from engine.evaluate.integrity.process.candidate import Candidate, CandidateEnded
from engine.evaluate.integrity.process.judge import JudgeLost
from engine.evaluate.integrity.process.outside import BUSY
from engine.evaluate.integrity.rounds import Round

OPEN_SECONDS = {"python": 60.0, "cuda": 120.0}
CLASSES = ("f32", "tf32", "f16", "bf16", "fp8")  # fine to coarse
WIDE = ("f32", "tf32", "bf16")  # classes with the exponent of f32
AHEAD_BYTES = 1 << 30  # of correct results that the judge holds for later rounds
FIRST = 3  # times as long as a later call may take, the first one may


def note_ended(report: Report, e: CandidateEnded, device: str) -> None:
    """Report a candidate that raised, died or hung, as a finding. Without a GPU, a text that launches Triton, CuTe or
    CUDA kernels must fail, which says nothing about it."""
    note_facts(report, e.facts)
    gpu = [k["name"] for k in report.kernels if k.get("gpu")]
    if device == "cpu" and e.code in ("raised", "not_loaded", "needs_gpu"):
        what = f"it launches {', '.join(gpu[:4])}" if gpu else "it asks for CUDA"
        evidence = f"{what}, and there is no GPU here, so that nothing was verified"
        if e.code == "needs_gpu":
            return report.add(Finding("needs_gpu", evidence, e.line, dynamic=True))
        if gpu:
            return report.add(Finding("needs_gpu", f"{evidence}; it ended with: {e.reason}", e.line, dynamic=True))
    report.add(Finding(e.code, e.reason, e.line, dynamic=True))


class Examination:
    """The rounds of one candidate."""

    def __init__(self, examiner: Examiner, c: Candidate, report: Report, cls: str, nondeterministic: bool):
        self.examiner, self.c, self.report, self.cls, self.loose = examiner, c, report, cls, nondeterministic
        self.tolerance = TOLERANCES[cls].error
        self.trivial: set[str] | None = None  # trivial answers that would have passed in every round
        self.no_better: set[str] = set()  # those than which it was no better where one can tell
        self.called: set[int | None] = set()  # numbers of rows
        self.good: list[str] = []  # families of correct rounds, in order
        self.bad: list[str] = []
        self.noise: list[float] = []  # PyTorch's own errors in rounds that say nothing
        self.coming: list[Round] = []  # what a first call may be used for
        self.ahead: dict[str, dict] = {}  # places of correct results that the judge holds, by the round's key
        self.operands: dict[str, str] = {}  # evidence of operands with less range or fewer bits, by family

    def load(self, source: str, entry: str = "") -> None:
        """Compile and load the text in its process. Raises CandidateEnded."""
        self.sight = self.c.look()
        facts = self.c.open(source, self.examiner.open_seconds or OPEN_SECONDS[self.c.kind], entry)
        note_facts(self.report, facts)

    def run(self) -> None:
        """All rounds of a loaded candidate. Raises CandidateEnded."""
        self.examiner.judge.ask("fresh")
        seed = int.from_bytes(os.urandom(5))  # after the candidate was loaded, so it cannot know the seed
        rows = self.examiner.rows
        middle = [Round(f, seed + 7 * i, rows) for i, f in enumerate((*FAMILIES, *self._of_the_class()), 1)]
        self.examiner.random.shuffle(middle)
        first = Round("normal", seed, rows, late=True)
        of_ops, last = Round("normal", seed + 201, rows, probe="ops"), Round("normal", seed + 203, rows, late=True)
        self.coming = [first, *middle, of_ops, last]
        for r in [first, *middle, first]:
            self.one(r)
        shorter = self._shorter(rows)
        if shorter is not None:
            self.other_shape(Round("normal", seed + 101, shorter))
        if rows is None:
            Bursts(self).burst(seed + 1000)
        ops = self.one(of_ops)
        self.one(last)
        Attribution(self).judge(ops, Round("normal", seed + 202, rows))
        self.from_outside()
        self.conclude(rows)

    def _of_the_class(self) -> list[str]:
        """The families that show the range and the bits of the class's operands, but those that PyTorch itself cannot
        compute in the class."""
        if self.cls not in WIDE:
            return []
        operands = families(self.examiner.graph)
        names = [*GUARD_FAMILIES, *(f for f in operands if f != "terms" or self.cls != "bf16")]
        seed = int.from_bytes(os.urandom(5))
        errors = {f: self.examiner.pytorch_error(f, self.cls, self.examiner.rows, seed) for f in names}
        return [f for f, e in errors.items() if e is not None and not e.unexpected]

    def _shorter(self, rows: int | None) -> int | None:
        graph = self.examiner.graph
        lead = graph.tensors[graph.inputs[0]].shape[:1] if graph.inputs else ()
        whole = rows or (lead[0] if lead else 0)
        return max(1, whole // 2 + 1) if whole > 2 else None

    # ---- a round ----

    def lay_out(self, r: Round) -> dict:
        return self.examiner.judge.ask("draw", family=r.family, seed=r.seed, rows=r.rows, region=self.c.region("own"))[
            "shapes"
        ]

    def right(self, r: Round) -> dict:
        """The place of the reference's answer, with PyTorch's own error in this class."""
        if r.key in self.ahead:
            return self.ahead[r.key]
        computed = self.examiner.compute(r.family, r.seed, r.rows)
        self.precision = computed.precision
        return computed.region.to_json()

    def hold(self, r: Round) -> bool:
        """Have the module compute what a round is compared with, and the judge hold it, if it has memory for that."""
        place = self.right(r)
        if not self.examiner.judge.ask("hold", key=r.key, reference=place)["held"]:
            return False
        self.ahead[r.key] = place
        self.examiner.pytorch_error(r.family, self.cls, r.rows, r.seed)
        return True

    def called_on(self, r: Round, shapes: dict) -> dict:
        """The answer to one call. A first call compiles for seconds: meanwhile the module computes for later rounds."""
        # A kernel may compile at its first call, and again for another shape.
        seconds = self.examiner.call_seconds * (1 if r.rows in self.called else FIRST)
        self.called.add(r.rows)
        call = partial(
            self.c.ask, "call", seconds, rows=r.rows, shapes={**shapes, **self.out_shapes(r)}, late=r.late,
            probe=r.probe,
        )  # fmt: skip
        coming, self.coming = self.coming, []
        if not coming:
            return call()
        large = self.c.where.own_size > AHEAD_BYTES  # then the call itself may need the memory
        most = 0 if large else AHEAD_BYTES // max(1, self.examiner.reference.result_bytes)
        with ThreadPoolExecutor(1) as beside:
            reply = beside.submit(call)
            try:
                for one in coming[:most]:
                    if reply.done() or not self.hold(one):
                        break
            except (TrialError, JudgeLost):
                reply.result()  # a kernel that failed meanwhile failed first
                raise
        return reply.result()

    def one(self, r: Round) -> dict:
        """Run one round and note it in the report. Returns the answer of the candidate's process."""
        reply = self.called_on(r, self.lay_out(r))
        note_facts(self.report, reply)
        right = self.right(r)
        if not self.fits(reply, right):
            self.bad.append(r.family)
            return reply
        looked = self.examiner.judge.ask(
            "look", region=self.c.region("own"), reference=right, result=self.c.region("result"), key=r.key,
            family=r.family, tolerance=self.tolerance, late=r.late, held=r.key if r.key in self.ahead else "",
        )  # fmt: skip
        self.note(r, reply, looked)
        return reply

    def out_shapes(self, r: Round) -> dict:
        if r.rows is None:
            return {}
        graph = self.examiner.graph
        lead = graph.tensors[graph.inputs[0]].shape[:1]
        shapes = {}
        for n in graph.outputs:
            full = graph.tensors[n].shape
            if full[:1] == lead:
                shapes[n] = [min(r.rows, full[0]), *full[1:]]
        return shapes

    def fits(self, reply: dict, right: dict) -> bool:
        """Types and shapes as told; a lie here is met by the values."""
        about = reply.get("results")
        if not isinstance(about, list) or not all(isinstance(a, dict) for a in about):
            self.report.add(Finding("garbled", "something else than the harness answered", dynamic=True))
            return False
        for name, a in zip(self.examiner.graph.outputs, about, strict=False):
            wanted = right["tensors"][name]
            dtype = _TORCH[self.examiner.graph.tensors[name].dtype]
            if not a.get("plain"):
                self.report.add(Finding("lazy", f"a {str(a.get('type'))[:80]} instead of a torch.Tensor", dynamic=True))
            if a.get("dtype") != dtype or a.get("layout") != "strided":
                what = f"{a.get('dtype')} {a.get('layout')}"
                self.report.add(Finding("wrong_type", f"{what[:60]} where the module gives {dtype}", dynamic=True))
                return False
            if a.get("shape") != list(wanted["shape"]):
                evidence = f"{str(a.get('shape'))[:60]} where the module gives {list(wanted['shape'])}"
                self.report.add(Finding("wrong_shape", evidence, dynamic=True))
                return False
            if a.get("device") != self.c.device:
                self.report.add(Finding("wrong_type", f"a tensor on {str(a.get('device'))[:20]}", dynamic=True))
            if a.get("aliases_previous"):
                self.report.add(Finding("reused_output", "two results lie in the same memory", dynamic=True))
        return True

    def note(self, r: Round, reply: dict, looked: dict) -> None:
        pytorch = self.examiner.pytorch_error(r.family, self.cls, r.rows, r.seed)
        if not looked["guards"] or reply.get("intact") is False:
            self.report.add(Finding("out_of_bounds", "the bands beside its tensors changed", dynamic=True))
        if looked["inputs"]:
            names = ", ".join(looked["inputs"][:4])
            self.report.add(Finding("input_written", f"{names} after the call", dynamic=True))
        if says_nothing(pytorch) and not any(a["unexpected"] for a in looked["results"]):
            self.noise.append(pytorch.error)
            return
        right, weighed = True, []
        for a, result in zip(looked["results"], reply["results"], strict=False):
            faults = explain(
                self.cls, a, r.family, pytorch, result if isinstance(result, dict) else {}, loose=self.loose
            )
            self.report.add(*faults)
            if not faults or any(f.severity != NOTE for f in faults):
                weighed.append(a)
            if all(f.severity == NOTE for f in faults):
                continue
            right = False
            if adds_operands(a, r.family):
                evidence = f"error {a['error']:.2g} where the factors of each term are powers of two apart"
                self.report.add(Finding("adds_operands", evidence, dynamic=True))
            elif r.family in OPERAND_FAMILIES and {f.code for f in faults} <= {"wrong_result", "nan"}:
                self.operands.setdefault(r.family, explain_operands(self.cls, a, r.family))
            if {f.code for f in faults} == {"wrong_result"} and r.family in ("normal", "own"):
                self.report.add(*self._coarser(r, a["error"]))
        (self.good if right else self.bad).append(r.family)
        judged = [like_trivial(a, pytorch) for a in looked["results"]]
        tried = set.intersection(*(names for names, _ in judged)) if judged else set()
        self.no_better = self.no_better.union(*(names for _, names in judged))
        self.trivial = tried if self.trivial is None else self.trivial & tried
        errors = [a["error"] for a in weighed]
        largest = max((a["max_error"] for a in weighed), default=0.0)
        if right:
            self.report.error = max([self.report.error, *errors])
            self.report.max_error = max(self.report.max_error, largest)
        self.report.rounds.append({
            "family": r.family, "seed": r.seed, "rows": r.rows, "right": right, "error": max(errors, default=0.0),
            "max_error": largest, "pytorch_error": pytorch and pytorch.error, "allowed": bound(self.cls, pytorch),
            "seconds": number(reply.get("seconds")),
        })  # fmt: skip

    def _coarser(self, r: Round, error: float) -> list[Finding]:
        """Whether the error is what a coarser class makes."""
        errors = {}
        for cls in CLASSES[CLASSES.index(self.cls) :] if self.cls in CLASSES else ():
            own = self.examiner.pytorch_error(r.family, cls, r.rows, r.seed)
            if own is not None:
                errors[cls] = own.error
        return precision_of(self.cls, error, errors)

    # ---- other shapes, many calls ----

    def other_shape(self, r: Round) -> None:
        """Fewer rows than it was made for. It may refuse them; it may not compute something else."""
        try:
            self.examiner.compute(r.family, r.seed, r.rows)
        except TrialError:
            return  # the module itself mixes its rows
        try:
            self.one(r)
        except CandidateEnded as e:
            if e.lost:
                raise
            self.report.add(Finding("shape_cases", f"refuses {r.rows} rows: {e.reason}"[:160], e.line, dynamic=True))

    def from_outside(self) -> None:
        """What /proc shows of its processes, compared with what it showed before the text was loaded."""
        now, before = self.c.look(), self.sight
        if libraries := sorted(now.libraries - before.libraries):
            self.report.add(Finding("library_loaded", ", ".join(libraries[:6]), dynamic=True))
        if signals := sorted(now.signals - before.signals):
            self.report.add(Finding("patched", f"its process handles {', '.join(signals)}", dynamic=True))
        if now.tasks > before.tasks or now.processes > before.processes:
            share = self.c.busy()
            if share > BUSY:
                evidence = f"its processes use {share:.0%} of a core while nobody asks anything"
                self.report.add(Finding("threads", evidence, dynamic=True))

    def conclude(self, rows: int | None) -> None:
        if self.trivial and not self.bad:
            code = "uninformative" if self.trivial & self.no_better else "inconclusive"
            evidence = f"{' and '.join(sorted(self.trivial))} would have passed in every round"
            self.report.add(Finding(code, evidence, dynamic=True))
        if self.good and self.bad and self.good[0] == "normal" and "normal" in self.bad:
            evidence = f"right in {len(self.good)} rounds, wrong in {len(self.bad)} later ones on data of the same kind"
            self.report.add(Finding("late_change", evidence, dynamic=True))
        # Both families differ from a correct round in what the operands need, and in nothing else.
        for family, like, code in (("powers", "normal", "range_lost"), ("terms", "closed_form", "precision_lowered")):
            if family in self.operands and like in self.good and like not in self.bad:
                self.report.add(Finding(code, self.operands[family], dynamic=True))
        normal = [x for x in self.report.rounds if x["family"] == "normal" and x["right"]]
        if normal and not self.bad:
            self.report.cls = self._derived(max(x["error"] for x in normal), normal[0])
        if not self.report.rounds:  # no result was ever comparable: what was found says why
            if self.noise:
                evidence = f"PyTorch itself, in class {self.cls}, is off by up to {max(self.noise):.2g} on all inputs"
                self.report.add(Finding("inconclusive", evidence, dynamic=True))
            return
        families = len({x["family"] for x in self.report.rounds})
        size = "full size" if rows is None else f"{rows} rows"
        self.report.scope = (
            f"{size} on the {'GPU' if self.c.device == 'cuda' else 'CPU'}, {len(self.report.rounds)} rounds, "
            f"{families} input families, another number of rows, {BURST if rows is None else 0} calls in a row, "
            "against the module"
        )

    def _derived(self, error: float, r: dict) -> str:
        """The finest class whose own error this one is within: what the kernel does, whatever it says."""
        for cls in CLASSES:
            own = self.examiner.pytorch_error(r["family"], cls, r["rows"], r["seed"])
            if own is not None and verdict(cls, Comparison(error, 0.0), own) is None:
                return cls
        return self.cls


_TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip
