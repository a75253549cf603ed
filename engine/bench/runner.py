"""Runs a bench: plans every module, builds ahead, asks the child, writes after every answer.

Builds are the bottleneck (a product by nvcc takes half a minute), so those of the next modules run while the GPU
verifies and times a module whose builds are done. What the results file holds is not run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dsl.check import check
from dsl.compile import compile as to_sources
from engine.bench.plan import Plan, ahead, places, plan
from engine.build import toolchain
from engine.build.cute import environment
from engine.build.nvcc import BuildError
from engine.evaluate.condition import read as condition_of
from engine.jsonprocess import JsonProcess, WorkerLost
from engine.strategies import Proposal
from engine.suite.cases import PROBLEMS, Case
from engine.suite.runner import OPEN_SECONDS, RUN_SECONDS, Builds, Gpu, Task
from sol.budget import gap, score
from sol.graph import OpGraph
from sol.hardware import Hardware

BASELINES = ("eager", "eager_tf32", "eager_f16")
COMPILED = ("compile", "compile_max")
BASELINE_SECONDS, COMPILE_SECONDS, TRACE_SECONDS = 60.0, 500.0, 120.0
NATIVE = "eager_tf32"  # what every time alternates with


@dataclass(frozen=True)
class Wanted:
    """What to bench. `modules`: name -> its id in the set; `trials`: of each class, those of earlier calls counted."""

    modules: dict[str, str]
    classes: tuple[str, ...] = ("tf32",)
    trials: int = 3
    device: str = "cuda"
    jobs: int = 12
    seconds: float = 1e9
    compiled: bool = False
    seed: int = 0


@dataclass
class Work:
    """A planned module and its builds under way."""

    plan: Plan
    tasks: list[tuple[Task, Proposal]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return all(task.ready for task, _ in self.tasks)


class Book:
    """The results: {about, problems: {module: {id, baselines, limits, trials, ..}}}, written whole after each change.

    Who changes a row beside the writer holds `lock`.
    """

    def __init__(self, path: Path | None):
        self.path, self.about, self.problems = path, {}, {}
        self.lock = threading.Lock()
        if path is not None and path.exists():
            with contextlib.suppress(ValueError, KeyError):
                held = json.loads(path.read_text())
                self.about, self.problems = held["about"], held["problems"]

    def problem(self, module: str, pid: str) -> dict:
        with self.lock:
            return self.problems.setdefault(
                module, {"id": pid, "baselines": {}, "limits": {}, "trials": [], "refused": ""}
            )

    def write(self) -> None:
        if self.path is None:
            return
        with self.lock:
            partial = self.path.with_suffix(f".{os.getpid()}.part")
            partial.write_text(json.dumps({"about": self.about, "problems": self.problems}, indent=1) + "\n")
            os.replace(partial, self.path)


def run(wanted: Wanted, hw: Hardware, out: Path | None, say: Callable[[str], None]) -> Book:
    """Everything wanted that the results file does not hold yet. `say` gets a line for each trial and each failure."""
    return _Bench(wanted, hw, Book(out), say).run()


class _Bench:
    def __init__(self, wanted: Wanted, hw: Hardware, book: Book, say: Callable[[str], None]):
        self.wanted, self.hw, self.book, self.say = wanted, hw, book, say
        self.began = time.monotonic()
        self.small = wanted.device == "cpu"
        self.builds = None if self.small else Builds(wanted.jobs)
        self.command = [sys.executable, "-m", "engine.bench.child", "--device", wanted.device]
        self.gpu = Gpu(wanted.device, environment(self.builds.cache) if self.builds else {}, self.command)
        self.works: list[Work] = []
        self.planned = threading.Event()
        self.stop = False

    @property
    def left(self) -> float:
        return self.wanted.seconds - (time.monotonic() - self.began)

    def run(self) -> Book:
        self.book.about |= {
            "toolchain": toolchain.find().versions(), "device": self.wanted.device, "hardware": self.hw.name,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }  # fmt: skip
        if condition := None if self.small else condition_of():
            self.book.about["driver"] = condition["driver"]
        self.gpu.start()
        planner = threading.Thread(target=self._plan_all, name="planner", daemon=True)
        planner.start()
        try:
            while self.left > 0:
                done = self.planned.is_set()  # read before the list: what is planned after is seen the next time
                work = next((w for w in self.works if w.ready), None)
                if work is None:
                    if done and not self.works:
                        break
                    time.sleep(0.2)
                    continue
                self.works.remove(work)
                self._module(work)
        finally:
            self.stop = True
            if self.builds:
                self.builds.close()
            self.gpu.close()
            planner.join(timeout=10)
            self.book.write()
        return self.book

    # ---- planning, in a thread of its own ----

    def _plan_all(self) -> None:
        tracer = None
        try:
            for module, pid in self.wanted.modules.items():
                if self.stop:
                    return
                row = self.book.problem(module, pid)
                if self._enough(row):
                    continue
                try:
                    tracer = tracer or JsonProcess(
                        [sys.executable, "-m", "engine.bench.child", "--device", "cpu"], name="tracer"
                    )
                    self._plan(module, row, tracer)
                except WorkerLost as e:
                    row["refused"], tracer = f"tracing it failed: {e}", None
                except Exception as e:  # a mistake of ours costs one module
                    row["refused"] = f"planning it failed: {type(e).__name__}: {e}"
                if row["refused"]:
                    self.say(f"{pid:7} {module:34} refused: {row['refused'][:200]}")
        finally:
            self.planned.set()
            if tracer is not None:
                tracer.close()

    def _enough(self, row: dict) -> bool:
        """Whether the results file holds all that is wanted of a module."""
        counts = [sum(t["class"] == c for t in row["trials"]) for c in self.wanted.classes]
        timed = not self.wanted.compiled or all(n in row["baselines"] for n in COMPILED)
        whole = set(row.get("exhausted", ()))
        return timed and all(
            n >= self.wanted.trials or c in whole for n, c in zip(counts, self.wanted.classes, strict=True)
        )

    def _plan(self, module: str, row: dict, tracer: JsonProcess) -> None:
        path = str(PROBLEMS / f"{module}.py")
        answer = tracer.request(
            {"op": "trace", "module": path, "small": self.small, "seed": self.wanted.seed}, timeout=TRACE_SECONDS
        )
        if "graph" not in answer:
            row["refused"] = f"it cannot be traced: {answer.get('message', answer)}"
            return
        made = plan(module, OpGraph.from_json(answer["graph"]), self.wanted.classes, self.hw)
        with self.book.lock:
            row["refused"], row["left_out"], row["limits"] = made.refused, made.left_out, made.limits
        work = Work(made)
        for cls, planner in made.planners.items():
            own = [t for t in row["trials"] if t["class"] == cls]
            many = self.wanted.trials - len(own)
            found = ahead(planner, own, many) if many > 0 else []
            if len(found) < many:
                with self.book.lock:
                    row["exhausted"] = sorted({*row.get("exhausted", ()), cls})
            for proposal in found:
                self._submit(work, row, proposal)
        if work.tasks or (self.wanted.compiled and not all(n in row["baselines"] for n in COMPILED)):
            self.works.append(work)

    def _submit(self, work: Work, row: dict, proposal: Proposal) -> None:
        module = work.plan.module
        case = Case(row["id"], module, f"{module}_{proposal.cls}", proposal.text)
        if self.builds is None:
            work.tasks.append((Task(case, "oracle", proposal.cls, ""), proposal))
            return
        compiled = to_sources(check(proposal.text).program, self.hw.sms)
        task = Task(case, proposal.backend, proposal.cls, compiled.digest)
        self.builds.submit(task, compiled)
        work.tasks.append((task, proposal))

    # ---- the GPU ----

    def _module(self, work: Work) -> None:
        """Every trial of one module, whatever happens in any of them."""
        row = self.book.problem(work.plan.module, "")
        opened = False
        for task, proposal in work.tasks:
            trial = {
                "class": proposal.cls, "backend": proposal.backend, "change": proposal.change, "why": proposal.why,
                "predicted_ms": proposal.predicted_ms, "text": proposal.text,
            }  # fmt: skip
            began = time.monotonic()
            try:
                opened = opened or self._open(work, row)
                found = self._trial(work, task, proposal)
                if found.pop("lost", False):
                    self.gpu.drop()
                    opened = False
            except WorkerLost as e:
                opened = False
                found = {"ok": False, "failed": e.why, "message": f"{e} {e.log[-500:]}"}
            trial |= task.build | found | {"seconds": time.monotonic() - began}
            self._judge(work, row, trial)
            row["trials"].append(trial)
            self.book.write()
            self.say(self._line(row, work.plan.module, trial))
        if not work.tasks:
            with contextlib.suppress(WorkerLost):
                opened = self._open(work, row)
        if opened:
            with contextlib.suppress(WorkerLost):
                self.gpu.ask("close", 30.0)
        self.book.write()

    def _open(self, work: Work, row: dict) -> bool:
        """The module on the GPU with PyTorch's own times. Raises WorkerLost."""
        path = str(PROBLEMS / f"{work.plan.module}.py")
        answer = self.gpu.ask("open", OPEN_SECONDS, module=path, seed=self.wanted.seed)
        if "error" in answer:
            raise WorkerLost("module", answer["message"])
        self.book.about |= self.gpu.about
        row["scope"] = answer["scope"]
        if self.small:
            return True
        names = [n for n in BASELINES if n not in row["baselines"]]
        if names:
            row["baselines"] |= self.gpu.ask("baselines", BASELINE_SECONDS, names=names)
        names = [n for n in COMPILED if self.wanted.compiled and n not in row["baselines"]]
        for name in names:
            row["baselines"] |= self.gpu.ask("baselines", COMPILE_SECONDS, names=[name])
        return True

    def _trial(self, work: Work, task: Task, proposal: Proposal) -> dict:
        try:
            path, artifact = task.future.result() if task.future is not None else (None, None)
        except BuildError as e:
            return {"ok": False, "failed": f"build_{e.code}", "message": e.reason, "log": e.log[-2000:]}
        except Exception as e:
            return {"ok": False, "failed": "build", "message": f"{type(e).__name__}: {e}"[:1500]}
        planner = work.plan.planners[proposal.cls]
        answer = self.gpu.ask(
            "run", RUN_SECONDS, case=f"{task.case.name}_{id(task)}", backend=task.backend, cls=proposal.cls,
            text=proposal.text, path=path, artifact=artifact, places=places(planner, proposal.text),
        )  # fmt: skip
        if "wrong" in answer:
            return {"ok": False, "failed": answer["wrong"], "message": answer["message"], "lost": answer.get("lost")}
        if "ok" not in answer:
            return {"ok": False, "failed": "run_failed", "message": answer.get("message", "")}
        answer.pop("pairs", None)
        return answer

    def _judge(self, work: Work, row: dict, trial: dict) -> None:
        """Speedups over PyTorch's ways, and the distance to the limit."""
        if not trial["ok"] or "ms" not in trial:
            return
        limit = work.plan.limits[trial["class"]]
        theirs = {n: b["ratio"] for n, b in row["baselines"].items() if "ratio" in b}
        trial["over"] = {n: ratio * trial["ratio"] for n, ratio in theirs.items()}
        base = trial["ms"] * trial["over"].get("eager_f16" if trial["class"] == "f16" else NATIVE, trial["ratio"])
        trial["gap"], trial["score"] = gap(trial["ms"], limit), score(trial["ms"], limit, base)

    def _line(self, row: dict, module: str, trial: dict) -> str:
        head = f"{row['id']:7} {module:34} {trial['class']:5} {trial['backend']:5}"
        if not trial["ok"]:
            return f"{head} {trial['failed']}: {(trial['message'] or '').strip()[:140]}"
        if "ms" not in trial:
            return f"{head} error {trial['error']:.1e}"
        over = trial["over"]
        return (
            f"{head} {trial['ms']:9.4f} ms, {over.get('eager', 0):5.2f}x eager, {trial['ratio']:5.2f}x TF32, gap "
            f"{trial['gap']:4.2f}  {trial['change'][:70]}"
        )
