"""The NVIDIA GPU of this machine: programs are built, run at full size against the pasted module, and timed.

Two processes share the GPU. The pasted module is confined and never loads a candidate (engine.evaluate.reference);
the worker runs what our compiler made and never sees the module (engine.evaluate.worker). The engine asks them in
turn, so that a ratio is always taken between neighbours in time, and so that the GPU has one owner at a time.

One `Cuda` belongs to the engine process, not to a session: its worker's imports and its build pool outlive sessions.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from dsl.ir import Collective
from dsl.lower import Source
from engine import events
from engine.build import toolchain
from engine.build.cache import content_key
from engine.build.cute import environment
from engine.build.nvcc import BuildError
from engine.build.pool import BuildPool
from engine.devices import Candidate, Problem, SessionRefused, TrialError, compiled
from engine.devices.gpu_names import hardware_of
from engine.devices.parts import to_json
from engine.evaluate import condition, reference
from engine.evaluate.correctness import ITS_OWN, TOLERANCES, Comparison, PyTorchError, bound, verdict
from engine.evaluate.inputs import GUARD_FAMILIES
from engine.evaluate.integrity import trial
from engine.evaluate.timing import METHOD, interval, net, paired_ratio
from engine.evaluate.worker import Worker
from engine.jsonprocess import WorkerLost
from sol.bounds import native_class
from sol.graph import OpGraph
from sol.hardware import load

logger = logging.getLogger(__name__)

ARCH = "sm_90a"  # what both back ends generate
ROUNDS = ("own", "normal", "normal", "large", "tiny", "closed_form")
LOAD_SECONDS, CHECK_SECONDS, SAMPLE_SECONDS = 60.0, 60.0, 20.0
BASELINE_SAMPLES = 15
WARM_UP, PAIRS, MOST_PAIRS = 3, 15, 31
QUICK_WARM_UP, QUICK_PAIRS = 1, 3
# PyTorch's kernels whose sums depend on the order in which blocks finish (torch.use_deterministic_algorithms).
UNSTEADY = {"index_add", "scatter_add", "scatter_reduce", "bincount", "histc", "cumsum", "cumprod", "index_copy"}
LOOK = 4  # pairs between two looks at the interval, which takes 20 ms
WIDE = 0.04  # an interval of the ratio wider than this asks for more pairs


def _by_cuda() -> dict | None:
    """The GPU as CUDA names it, in a process of its own: a container may have the device and not NVML. Takes 9 s."""
    if not Path("/dev/nvidiactl").exists() or not toolchain.find().has("torch"):
        return None
    worker = Worker()
    try:
        return {"name": worker.warm()["name"], "driver": None}
    except WorkerLost as e:
        logger.warning("%s %s", e, e.log[-500:])
        return None
    finally:
        worker.close()


@dataclass(frozen=True)
class Round:
    """One set of inputs that every program of the session is checked on."""

    family: str
    seed: int


class Cuda:
    """See engine.devices.Device. Raises SessionRefused where there is no GPU that can be used, or no toolchain."""

    kind = "measured"
    name = "cuda"

    def __init__(self, *, local_user: bool = False):
        found = condition.read() or _by_cuda()
        if found is None or not found["name"]:
            raise SessionRefused("no_gpu", "there is no NVIDIA GPU here, or its driver does not answer")
        self.hardware = hardware_of(found["name"])
        self.hw = load(self.hardware)
        if self.hw.arch != ARCH:
            raise SessionRefused(
                "unsupported_gpu", f"programs are compiled for Hopper ({ARCH}); {found['name']} is {self.hw.arch}"
            )
        tools = toolchain.find()
        if not tools.cute:
            missing = " ".join(tools.missing("torch", "cute_dsl", "quack"))
            raise SessionRefused("no_toolchain", f"there is a GPU, but not what programs are built with. {missing}")
        self.gpu, self.tools, self.local_user = found, tools, local_user
        self.pool = BuildPool()
        self.worker = Worker(environment(self.pool.cache))
        self.problem: Problem | None = None
        self.cancelled: Callable[[], bool] = lambda: False
        self._reference: reference.Reference | None = None
        self._forget()
        atexit.register(self.shutdown)

    def _forget(self) -> None:
        self._rounds: list[Round] = []
        self._guard_rounds: list[Round] = []  # besides those, of guarded programs
        self._timing_seed = 0
        self._pytorch: dict[tuple[Round, str], PyTorchError] = {}
        self._kept: dict[Round, bool] = {}
        self._generation = -1  # of the worker that holds this session's data
        self._loaded: tuple = ()  # (program, back end, worker) that the worker is ready to run
        self._open_baseline = ""
        self._precision = ""

    # ---- life ----

    def describe(self) -> dict:
        return {
            "title": self.hw.title,
            "gpu": self.gpu["name"],
            "driver": self.gpu["driver"],
            "note": "programs are built, run and timed here",
            "toolchain": ", ".join(f"{n} {v}" for n, v in self.tools.versions().items() if v),
        }

    def warm(self, source_kind: str = "module") -> None:
        """Start everything that takes seconds to import, and wait for nothing. Between sessions call it in the main
        thread: a confined child ends with the thread that started it."""
        self.worker.start()
        self.pool.warm(min(2, self.pool.size))
        if source_kind != "module":
            return
        try:
            reference.warm(gpu=True, local_user=self.local_user)
        except SessionRefused as e:
            logger.warning("%s", e.reason)  # `open` says it again, to the session

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        self.close()
        self._forget()
        self.problem, self.cancelled = problem, cancelled
        # Secret, so that no program can be made for the data; the same for all trials, so that what is right is
        # computed once.
        secret = int.from_bytes(os.urandom(6)) ^ problem.seed
        families = ROUNDS if problem.source_kind == "module" else ROUNDS[1:]
        self._rounds = [Round(family, secret + 17 * i) for i, family in enumerate(families)]
        self._guard_rounds = [Round(family, secret + 503 + 17 * i) for i, family in enumerate(GUARD_FAMILIES)]
        self._timing_seed = secret + 1009
        try:
            if problem.source_kind == "module":
                self._reference = reference.Reference(
                    problem, "cuda", local_user=self.local_user, cancelled=cancelled
                ).start()
            self.worker.warm(cancelled)
            self._hand_over("open")
        except WorkerLost as e:
            raise SessionRefused("gpu_lost", f"The GPU cannot be used: {e}. {e.log[-300:]}".strip()) from None
        except TrialError as e:
            raise SessionRefused(e.code, e.reason) from None

    def _hand_over(self, step: str) -> None:
        """Give a fresh worker the session's graph and the module's own tensors; nothing where it has them."""
        if self.worker.alive and self._generation == self.worker.generation:
            return
        try:
            self.worker.warm(self.cancelled)
        except WorkerLost as e:
            raise TrialError(step, "worker_lost", str(e), e.log or None) from None
        own = self._reference.inputs_own().to_json() if self._reference is not None else None
        self._ask(step, "open", LOAD_SECONDS, graph=self.problem.graph.to_json(), own=own)
        self._generation = self.worker.generation
        self._kept.clear()
        self._loaded = ()
        if self._reference is None:
            self._open_baseline = ""

    def _ask(self, step: str, op: str, timeout: float, **arguments: object) -> dict:
        return self.worker.ask(step, op, timeout=timeout, cancelled=self.cancelled, **arguments)

    def close(self) -> None:
        """End the module's process and drop the session's data; the worker stays warm."""
        if self._reference is not None:
            self._reference.close()
        self._reference = None
        if self.worker.alive and self._generation == self.worker.generation:
            with contextlib.suppress(TrialError):  # replaced already
                self.worker.ask("close", "close", timeout=30.0)
        self.problem, self._generation = None, -1

    def shutdown(self) -> None:
        """End every process: the engine leaves."""
        with contextlib.suppress(Exception):
            if self._reference is not None:
                self._reference.close()
        self.worker.close()
        self.pool.close()

    # ---- what is right ----

    def _prepare(self, round_: Round, classes: list[str]) -> dict | None:
        """Let the module say what is right on these inputs, and PyTorch how wrong it is itself. The worker keeps the
        answer; where it has no room the answer's place in shared memory is returned, valid until the next."""
        if self._reference is None:
            return None
        region = None
        if not self._kept.get(round_, False):
            self._open_baseline = ""  # computing sets the process's precision flags: a baseline is opened again
            made = self._reference.compute(round_.family, round_.seed)
            self._precision = made.precision
            region = made.region.to_json()
            kept = self._ask(
                "validate", "keep", CHECK_SECONDS, family=round_.family, seed=round_.seed, reference=region
            )
            self._kept[round_] = kept["kept"]
        for cls in classes:
            if (round_, cls) not in self._pytorch:
                self._open_baseline = ""
                self._pytorch[round_, cls] = self._reference.pytorch_error(round_.family, round_.seed, cls)
        return None if self._kept[round_] else region

    # ---- PyTorch ----

    def baselines(self, classes: list[str]) -> Iterator[events.Baseline]:
        """Eager as it ships first, then one for each class. The references are computed first, while builds run."""
        with contextlib.suppress(TrialError):  # the first validation says it again, as its own failure
            for round_ in self._rounds:
                self._prepare(round_, list(classes))
        native = native_class(self.problem.graph)
        names = ["eager"] if native == "f32" or native in classes else []
        names += [f"eager_{cls}" for cls in classes if cls not in (native, "f32")]
        for name in dict.fromkeys(names):
            try:
                yield self._time_baseline(name, native)
            except TrialError as e:
                if name == "eager":
                    raise SessionRefused(e.code, e.reason) from None
                logger.warning("no baseline %s: %s", name, e.reason)
        yield from self._earlier().known(compiled.names(classes, native))

    def _earlier(self) -> compiled.Kept:
        return compiled.Kept(self.pool.cache, self.problem, self.gpu["name"], self.gpu["driver"])

    def compiled(self, classes: list[str]) -> Iterator[events.Baseline]:
        """torch.compile's times that `baselines` did not know: 20 s to minutes each, then kept for other sessions."""
        if self._reference is None:
            return  # a program by itself has no module to compile
        native = native_class(self.problem.graph)
        for name in compiled.names(classes, native):
            if self._earlier().read(name) is not None:
                continue
            try:
                yield self.baseline(name)
            except TrialError as e:
                if self.cancelled():
                    raise
                logger.warning("no baseline %s: %s", name, e.reason)

    def baseline(self, name: str) -> events.Baseline:
        """One of engine.evaluate.baselines.NAMES, timed now and kept. Raises TrialError("measure")."""
        timed = self._time_baseline(name, native_class(self.problem.graph))
        self._earlier().write(timed, time.time())
        return timed

    def _time_baseline(self, name: str, native: str) -> events.Baseline:
        cls, note = self._baseline_open(name, native)
        for _ in range(WARM_UP):
            self._baseline_sample()
        before = self._condition()
        samples = [self._baseline_sample() for _ in range(BASELINE_SAMPLES)]
        return events.Baseline(name, cls, self._measurement(samples, before), note)

    def _baseline_open(self, name: str, native: str = "") -> tuple[str, str]:
        if self._reference is not None:
            found = self._reference.baseline_open(name, self._timing_seed)
        else:
            self._hand_over("measure")
            self._ask("measure", "baseline_open", CHECK_SECONDS, name=name, seed=self._timing_seed)
            note = {"eager": "the program's operations as PyTorch ships them", "eager_tf32": "TF32 allowed"}
            cls = native if name == "eager" else name.removeprefix("eager_")
            found = cls, note.get(name, "torch.autocast, its casts timed")
        self._open_baseline = name
        return found

    def _baseline_sample(self) -> tuple[float, float]:
        if self._reference is not None:
            found = self._reference.baseline_sample()
            return net(found.ms, self._overhead()), found.call_ms
        found = self._ask("measure", "baseline_sample", SAMPLE_SECONDS)
        return net(found["ms"], self._overhead()), found["call_ms"]

    def _overhead(self) -> float:
        """Milliseconds that CUDA events add here to what they enclose: the same for PyTorch and for a program."""
        return float((self.worker.about or {}).get("events_ms") or 0.0)

    def _condition(self) -> dict:
        return condition.read((self.worker.about or {}).get("uuid")) or dict(self.gpu)

    def _measurement(self, samples: list[tuple[float, float]], before: dict) -> events.Measurement:
        times = [ms for ms, _ in samples]
        ms, low, high = interval(times)
        device = {**self._condition(), "before": {k: v for k, v in before.items() if k not in ("name", "driver")}}
        device["events_us"] = round(self._overhead() * 1e3, 2)
        return events.Measurement(ms, low, high, times, METHOD, device, median(c for _, c in samples))

    # ---- a trial ----

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        arch = candidate.program.arch or ARCH
        if arch != self.hw.arch:  # `python -m engine export` builds it where such a GPU is
            reason = f"the program says arch {arch}, and {self.gpu['name']} is {self.hw.arch}"
            raise TrialError("compile", "wrong_arch", f"{reason}; write arch {self.hw.arch}, or leave arch out")
        try:
            built = self.pool.build(candidate.sources[candidate.backend], self.cancelled)
        except BuildError as e:
            raise TrialError("compile", e.code, e.reason, e.log or None) from None
        resources = [dict(r) for r in built.resources]
        return events.TrialCompiled(
            candidate.trial, candidate.backend, "machine code", built.seconds, built.cached, resources
        )

    def prefetch(self, candidates: list[Candidate]) -> None:
        for i, candidate in enumerate(candidates):
            with contextlib.suppress(BuildError):
                self.pool.submit(candidate.sources[candidate.backend], priority=10 + i)

    def _load(self, step: str, candidate: Candidate) -> None:
        """Have the worker hold the built program; of a module with regions, all the programs that stand in it."""
        self._hand_over(step)
        self._loaded = ()
        path, artifact = self._built(candidate.sources[candidate.backend], candidate.backend)
        types = candidate.program.result_types
        outputs = [{**asdict(b), "dtype": t.dtype.value} for b, t in zip(candidate.outputs, types, strict=True)]
        placed = []
        for p in candidate.placed:
            code, held = self._built(p.source, p.backend)
            placed.append(to_json(p, path=code, artifact=held))
        self._ask(
            step, "load", LOAD_SECONDS, path=path, artifact=artifact, program=candidate.text,
            inputs=[asdict(b) for b in candidate.inputs], outputs=outputs, placed=placed, cls=candidate.cls,
        )  # fmt: skip
        self._loaded = self._key(candidate)

    def _key(self, candidate: Candidate) -> tuple:
        """What the worker has to hold to run the candidate."""
        return (candidate.text, candidate.backend, *(p.text for p in candidate.placed), self.worker.generation)

    def _built(self, source: Source, backend: str) -> tuple[str, str | None]:
        """(the module to import, its artifact) of a program that was built; built again where it was pruned."""
        found = self.pool.find(source)
        if found is None:
            try:
                self.pool.build(source, self.cancelled)
            except BuildError as e:
                raise TrialError("compile", e.code, e.reason, e.log or None) from None
            found = self.pool.find(source)
        if backend == "cute":
            return str(found.path), None
        key, cache = content_key("binding", source.binding), self.pool.cache
        folder = cache.get(key) or cache.put(key, {"binding.py": source.binding.encode()})
        return str(folder / "binding.py"), str(found.path)

    def validate(self, candidate: Candidate) -> events.TrialValidated:
        """The built program at full size on every round's inputs; a guarded one also on those that trip it."""
        self._load("validate", candidate)
        rounds = [*self._rounds, *(self._guard_rounds if candidate.program.guard else ())]
        checks, worst, repeats, applied = [], Comparison(0.0, 0.0), True, bound(candidate.cls)
        for round_ in rounds:
            place = self._prepare(round_, [candidate.cls])
            pytorch = self._pytorch.get((round_, candidate.cls))
            if round_.family in GUARD_FAMILIES and pytorch is not None and pytorch.unexpected:
                continue  # float32 itself overflows there
            answer = self._ask(
                "validate", "check", CHECK_SECONDS, family=round_.family, seed=round_.seed, reference=place,
                ideal=self._reference is None, repeatable=repeatable(candidate, self.problem.graph),
                tolerance=TOLERANCES[candidate.cls].error,
            )  # fmt: skip
            repeats &= answer["repeats"]
            found = [Comparison(**r) for r in answer["results"]]
            # A program by itself may amplify rounding; how much, its own meaning says where the table is too strict.
            rounded = [PyTorchError(**r) for r in answer.get("rounded", ())]
            for i, one in enumerate(found):
                wrong = verdict(candidate.cls, one, rounded[i] if rounded else pytorch)
                if wrong:
                    raise TrialError("validate", "wrong_result", f"on {round_.family} inputs, {wrong}")
            top = max(found, key=lambda c: c.error)
            if top.error > worst.error:
                applied = bound(candidate.cls, rounded[found.index(top)] if rounded else pytorch)
                applied = (applied[0], ITS_OWN) if rounded and applied[1] else applied
            largest = max(c.max_error for c in found)
            checks.append(
                {**asdict(round_), "error": top.error, "max_error": largest, "pytorch_error": pytorch and pytorch.error}
            )
            worst = Comparison(max(worst.error, top.error), max(worst.max_error, largest))
        return events.TrialValidated(
            candidate.trial, worst.error, worst.max_error, applied[0], checks, self._scope(repeats, checks), applied[1]
        )

    def _scope(self, repeats: bool, checks: list[dict]) -> str:
        against = {"f32": "float32 without TF32", "as written": "its own types"}.get(self._precision, "float64")
        against = f"the module in {against}" if self._reference is not None else "the program's own ideal in float64"
        families = len({c["family"] for c in checks})
        runs = "two runs equal" if repeats else "two runs differ, as stream-K's sums may"
        return (
            f"full size on the GPU, {len(checks)} rounds, {families} input families, against {against}, "
            f"outputs poisoned and guarded, inputs unchanged, {runs}"
        )

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """Pairs of one call each, baseline and candidate, until the ratio's interval is narrow."""
        try:
            return self._measure(candidate, baseline)
        except TrialError:
            self._open_baseline, self._loaded = "", ()  # whoever failed, both sides begin anew
            raise

    def _measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        self._hand_over("measure")
        if self._loaded != self._key(candidate):
            self._load("measure", candidate)
        if self._open_baseline != baseline.name:
            self._baseline_open(baseline.name, baseline.cls)
        again = repeatable(candidate, self.problem.graph)
        self._ask("measure", "time_open", CHECK_SECONDS, seed=self._timing_seed)
        sample = functools.partial(self._ask, "measure", "time_sample", SAMPLE_SECONDS, repeatable=again)

        looked_at = 0

        def pair(check: bool = False) -> tuple[tuple[float, float], tuple[float, float]]:
            nonlocal looked_at
            theirs, ours = self._baseline_sample(), sample(check=check)
            looked_at += ours["checked"]
            return theirs, (net(ours["ms"], self._overhead()), ours["call_ms"])

        for _ in range(WARM_UP):
            pair()
        looked_at, before, pairs = 0, self._condition(), []
        ratio = low = high = 0.0
        while len(pairs) < PAIRS or (len(pairs) < MOST_PAIRS and (high - low) > WIDE * ratio):
            pairs.append(pair(check=not pairs))  # one is always checked, the others by chance
            if len(pairs) >= PAIRS and (len(pairs) - PAIRS) % LOOK == 0:
                ratio, low, high = paired_ratio([(a[0], b[0]) for a, b in pairs])
        time_ = self._measurement([b for _, b in pairs], before)
        facts = self._ask("measure", "integrity", CHECK_SECONDS)
        part = self._alone(candidate) if candidate.placed else {}
        self._ask("measure", "time_close", SAMPLE_SECONDS)
        theirs = median(a[0] for a, _ in pairs)
        checks = trial.of_run(facts, time_.ms, looked_at, len(pairs))
        return events.TrialMeasured(candidate.trial, time_, baseline.name, theirs, ratio, low, high, checks, part)

    def _alone(self, candidate: Candidate) -> dict:
        """The candidate's own region and all regions with programs, by themselves."""
        found, many = self._ask("measure", "time_parts", CHECK_SECONDS), len(candidate.placed)
        return {
            "region": candidate.region, "region_ms": net(found["region_ms"], self._overhead()), "programs": many,
            "covered_ms": net(found["covered_ms"], many * self._overhead()),
        }  # fmt: skip

    def quick(self, candidates: list[Candidate], baseline: events.Baseline) -> list[float | None]:
        """Milliseconds of a few calls of each, to choose what is tried in full; None where it did not run. Nothing is
        verified here, so none of it is a result."""
        return [self._quick(c, baseline) for c in candidates]

    def _quick(self, candidate: Candidate, baseline: events.Baseline) -> float | None:
        try:
            self.build(candidate)
            self._load("measure", candidate)
            if self._open_baseline != baseline.name:
                self._baseline_open(baseline.name, baseline.cls)
            self._ask("measure", "time_open", CHECK_SECONDS, seed=self._timing_seed)
            times = []
            for _ in range(QUICK_WARM_UP + QUICK_PAIRS):  # alternating, so that the clock is that of a measurement
                self._baseline_sample()
                again = repeatable(candidate, self.problem.graph)
                found = self._ask("measure", "time_sample", SAMPLE_SECONDS, repeatable=again)
                times.append(net(found["ms"], self._overhead()))
            self._ask("measure", "time_close", SAMPLE_SECONDS)
            return median(times[QUICK_WARM_UP:])
        except TrialError as e:
            if e.code == "cancelled":
                raise
            self._open_baseline, self._loaded = "", ()
            return None


def repeatable(candidate: Candidate, graph: OpGraph | None = None) -> bool:
    """Whether the same inputs must give the same bits: not where stream-K's blocks add in the order they finish, nor
    where PyTorch's own kernels beside regions do."""
    programs = [p.program for p in candidate.placed] or [candidate.program]
    products = [s for program in programs for s in program.stages if isinstance(s, Collective)]
    if any(s.config.scheduler and s.config.scheduler.kind == "stream_k" for s in products):
        return False
    inside = {name for p in candidate.placed for name in p.ops}
    rest = [op for op in graph.ops if op.name not in inside] if graph and candidate.placed else []
    return not any(op.op in UNSTEADY for op in rest)


@functools.cache
def machine() -> Cuda:
    """The one of this engine process: its worker has torch and quack imported, which takes 9 s."""
    return Cuda()


def warm() -> None:
    """Have everything imported that the next session would wait for. Call it in the main thread, between sessions."""
    machine().warm()
