"""A GPU that is not here: programs are checked, generated, compiled where the toolchain allows and run in their
meaning on the CPU; only the time is a prediction (sol.attainable), and every event says so.

What is real: the machine code of `cute` programs with its registers and shared memory (where CuTe DSL is
installed), CUTLASS's own verdict on `cpp` programs (g++ with its headers), and the numbers: each program's meaning
is held against the pasted module, which runs confined in float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from hashlib import sha256

from dsl.ir import Collective, Config
from dsl.printer import to_text
from engine.devices import Candidate, Device, Problem, TrialError, offline
from engine.devices.parts import expected_ms, to_json
from engine.evaluate.correctness.tolerance import ITS_OWN, PYTORCH_FACTOR, Comparison, PyTorchError, bound, verdict
from engine.evaluate.reference import module_process
from engine.evaluate.reference.module_process import Reference, rows_for
from engine.jsonprocess import JsonProcess, WorkerLost
from engine.session import events
from sol.attainable import KNOWN_ERROR, predict, predict_eager
from sol.bounds import native_class, pytorch_class
from sol.hardware import load

FLOPS = 5e9  # of a product checked on a CPU: 0.1 s in float32, 0.3 s in float64 on two cores
FAMILIES = ("own", "large", "closed_form")  # `normal` is what own inputs and `large`, scaled, already are
PYTORCH = ("own",)  # families on which PyTorch's own error is always taken; on others where a trial looks wrong
ORACLE_SECONDS = 180.0


class Modelled(Device):
    """`hardware`: a file of sol/hardware. See engine.devices.Device."""

    kind = "predicted"

    def __init__(self, hardware: str = "h200", *, local_user: bool = False):
        self.hardware, self.name = hardware, f"modelled:{hardware}"
        self.hw = load(hardware)
        self.local_user = local_user
        self.problem: Problem | None = None
        self.cancelled: Callable[[], bool] = lambda: False
        self._reference: Reference | None = None
        self._worker: JsonProcess | None = None
        self._known: dict[str, events.TrialValidated] = {}  # meaning -> what validating it found
        self._pytorch: dict[tuple, PyTorchError] = {}
        self._sent: str = ""
        self._rows: int | None = None

    def describe(self) -> dict:
        return {
            "title": self.hw.title,
            "note": "no GPU here: programs are really generated and checked, times are predicted",
            "model": "t_attainable",
            "error": KNOWN_ERROR,
        }

    # ---- life ----

    def warm(self, source_kind: str = "module") -> None:
        """Start what `open` will wait for, without waiting: called while the module is still being traced."""
        self._start_worker()
        if source_kind == "module":
            module_process.warm(local_user=self.local_user)

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        if self._reference is not None:
            self.close()
        self.problem, self.cancelled = problem, cancelled
        self._known, self._pytorch, self._sent = {}, {}, ""
        self._rows = rows_for(problem, FLOPS)
        if self._worker is None or not self._worker.alive:
            self._start_worker()
        offline.warm()
        if problem.source_kind == "module":
            self._reference = Reference(problem, "cpu", local_user=self.local_user, cancelled=cancelled).start()

    def close(self) -> None:
        if self._reference is not None:
            self._reference.close()
        if self._worker is not None:
            self._worker.close()
        self._reference = self._worker = None

    def _start_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
        args = [sys.executable, "-m", "engine.evaluate.correctness.oracle_main"]
        self._worker = JsonProcess(args, name="process that checks meanings")
        self._sent = ""

    # ---- PyTorch ----

    def baselines(self, classes: list[str]) -> Iterator[events.Baseline]:
        graph = self.problem.graph
        native = native_class(graph)
        if native == "f32" and "f32" in self.hw.peaks:
            yield self._baseline("eager", "f32", predict_eager(graph, self.hw, "f32"), "as PyTorch ships it")
        for cls in dict.fromkeys(pytorch_class(c, graph) for c in classes):
            if cls == native:
                yield self._baseline("eager", cls, predict_eager(graph, self.hw, cls), "as PyTorch ships it")
            elif cls == "tf32":
                yield self._baseline("eager_tf32", cls, predict_eager(graph, self.hw, cls), "TF32 allowed")
            else:
                made = predict_eager(graph, self.hw, cls, cast_parameters=True)
                yield self._baseline(f"eager_{cls}", cls, made, "torch.autocast, its casts timed")

    def _baseline(self, name: str, cls: str, made, note: str) -> events.Baseline:
        time_ = events.Prediction(made.ms, "t_attainable", self.hardware, made.bound_by, KNOWN_ERROR)
        return events.Baseline(name, cls, time_, note)

    # ---- a trial ----

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        return offline.build(candidate, self.cancelled)

    def validate(self, candidate: Candidate) -> events.TrialValidated:
        """The program's meaning against the module's, on several families of inputs.

        Candidates that differ in configuration alone mean the same: the second one's answer is the first one's.
        """
        key = meaning(candidate)
        if key in self._known:
            before = self._known[key]
            same = f"same meaning as trial {before.trial}, checked there: {before.scope}"
            return replace(before, trial=candidate.trial, scope=same)
        try:
            done = self._validated(candidate)
        except TrialError as e:
            # Operations beside regions hold sizes as they were traced; on fewer rows they may mean something else.
            if not candidate.placed or self._rows is None or e.code not in ("oracle", "wrong_result"):
                raise
            self._rows = None
            self._pytorch.clear()
            done = self._validated(candidate)
        self._known[key] = done
        return done

    def _validated(self, candidate: Candidate) -> events.TrialValidated:
        checks, worst, applied = [], Comparison(0.0, 0.0), bound(candidate.cls)
        for round_, family in enumerate(self._families()):
            seed = self.problem.seed + 1000 + round_
            found = self._round(candidate, family, seed)
            if self._reference is None and not found.unexpected:
                # Against its own ideal a program has its class's rounding, as much as the program amplifies it.
                checks.append(_check(family, seed, found, None))
                if found.error > worst.error:
                    own = PYTORCH_FACTOR * found.error, ITS_OWN
                    worst, applied = found, own if found.error > bound(candidate.cls)[0] else bound(candidate.cls)
                continue
            looked = family in PYTORCH or candidate.cls == "fp8"  # whose tolerance is e5m2's, twice what e4m3 needs
            pytorch = self._pytorch_error(family, seed, candidate.cls) if looked else None
            wrong = verdict(candidate.cls, found, pytorch)
            if wrong and pytorch is None and self._reference is not None:
                # Perhaps the module amplifies rounding, or leaves the class's range.
                pytorch = self._pytorch_error(family, seed, candidate.cls)
                wrong = verdict(candidate.cls, found, pytorch)
            checks.append(_check(family, seed, found, pytorch))
            if wrong:
                raise TrialError("validate", "wrong_result", f"on {family} inputs, {wrong}")
            if found.error > worst.error:
                worst, applied = found, bound(candidate.cls, pytorch)
        return events.TrialValidated(
            candidate.trial, worst.error, max(c["max_error"] for c in checks), applied[0], checks,
            self._scope(len(checks)), applied[1],
        )  # fmt: skip

    def _families(self) -> tuple[str, ...]:
        return FAMILIES if self._reference is not None else ("normal", *FAMILIES[1:])

    def _scope(self, families: int) -> str:
        graph = self.problem.graph
        lead = graph.tensors[graph.inputs[0]].shape[0] if graph.inputs and graph.tensors[graph.inputs[0]].shape else 0
        rows = f"{self._rows} of {lead:,} rows" if self._rows else "all rows"
        against = "the module in float64" if self._reference is not None else "the program's own ideal in float64"
        return f"run on the CPU with the tensor cores' rounding: {rows}, {families} input families, against {against}"

    def _round(self, candidate: Candidate, family: str, seed: int) -> Comparison:
        """One family: the worst result's comparison."""
        right = self._right(family, seed) if self._reference is not None else None
        own = self._reference.inputs_own() if self._reference is not None else None
        answer = self._ask(
            {
                "op": "judge",
                "program": candidate.text,
                "inputs": [asdict(b) for b in candidate.inputs],
                "outputs": [asdict(b) for b in candidate.outputs],
                "family": family,
                "seed": seed,
                "rows": self._rows,
                "own": own.to_json() if own else None,
                "reference": right,
                "ideal": self._reference is None,
                "cls": candidate.cls,
                "placed": [to_json(p) for p in candidate.placed],
            }
        )
        found = [Comparison(**r) for r in answer["results"]]
        unexpected = sum(c.unexpected for c in found)
        worst = max(found, key=lambda c: c.error)
        return Comparison(worst.error, max(c.max_error for c in found), unexpected, worst.elements)

    def _right(self, family: str, seed: int) -> dict | None:
        """Where the reference lies; None: the worker kept it."""
        try:
            if self._ask({"op": "kept", "family": family, "seed": seed, "rows": self._rows})["kept"]:
                return None
            return self._reference.compute(family, seed, self._rows).region.to_json()
        except TrialError as e:
            if e.code == "rows_refused" and self._rows is not None:
                self._rows = None  # a module with its sizes written in: then all of it
                return self._right(family, seed)
            raise

    def _pytorch_error(self, family: str, seed: int, cls: str) -> PyTorchError | None:
        """PyTorch's own error on the same inputs; None where a program stands by itself."""
        if self._reference is None:
            return None
        key = (family, seed, cls)
        if key not in self._pytorch:
            self._pytorch[key] = self._reference.pytorch_error(family, seed, cls, self._rows)
        return self._pytorch[key]

    def _ask(self, request: dict) -> dict:
        """The worker's answer; a lost worker is replaced, and the trial that lost it fails with the reason."""
        graph = self.problem.graph.to_json()
        request["key"] = sha256(graph.encode()).hexdigest()
        if self._worker is None or not self._worker.alive:
            self._start_worker()
        if self._sent != request["key"]:
            request["graph"] = graph
        try:
            answer = self._worker.request(request, timeout=ORACLE_SECONDS, cancelled=self.cancelled)
        except WorkerLost as e:
            self._worker, self._sent = None, ""
            raise TrialError("validate", f"oracle_{e.why}", str(e), e.log or None) from None
        if "error" in answer:
            raise TrialError("validate", "oracle", f"the program could not be run: {answer['message']}")
        if request["op"] == "judge":
            self._sent = request["key"]
        return answer

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """The prediction, against the baseline's."""
        made = predict(candidate.program, self.hw)
        ms, part = made.ms, {}
        if candidate.placed:
            from engine.strategies.planner.regions.partition import subgraph

            placed = [(p.ops, p.program) for p in candidate.placed]
            ms, covered = expected_ms(self.problem.graph, placed, self.hw, candidate.cls)
            here = [op for op in self.problem.graph.live if op.name in placed[0][0]]
            cls = pytorch_class(candidate.cls, self.problem.graph)
            theirs = predict_eager(subgraph(self.problem.graph, here), self.hw, cls, cast_parameters=True)
            part = {
                "region": candidate.region, "region_ms": made.ms, "programs": len(placed), "covered_ms": covered,
                "region_eager_ms": theirs.ms,
            }  # fmt: skip
        time_ = events.Prediction(ms, "t_attainable", self.hardware, made.bound_by, KNOWN_ERROR)
        ratio = baseline.time.ms / ms
        return events.TrialMeasured(candidate.trial, time_, baseline.name, baseline.time.ms, ratio, part=part)

    def prefetch(self, candidates: list[Candidate]) -> None:
        """Nothing to do: no GPU works meanwhile, so there is no time to gain."""


def _check(family: str, seed: int, found: Comparison, pytorch: PyTorchError | None) -> dict:
    numbers = {"error": found.error, "max_error": found.max_error, "pytorch_error": pytorch and pytorch.error}
    return {"family": family, "seed": seed, **numbers}


def meaning(candidate: Candidate) -> str:
    """What a program computes, configuration aside: two candidates with one meaning give the same numbers here."""
    stages = tuple(
        replace(s, config=Config(compute=s.config.compute)) if isinstance(s, Collective) else s
        for s in candidate.program.stages
    )
    beside = [(p.ops, p.text) for p in candidate.placed[1:]]
    return f"{candidate.cls}:{candidate.inputs}:{to_text(replace(candidate.program, stages=stages))}{beside or ''}"


__all__ = ["Modelled", "meaning"]
