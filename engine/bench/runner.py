"""Runs a bench: plans every module, builds ahead, asks the child, writes after every answer.

Builds are the bottleneck (a product by nvcc takes half a minute), so those of the next modules run while the GPU
verifies and times a module whose builds are done. What the results file holds is not run again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dsl.check import check
from dsl.compile import compile as to_sources
from engine.bench.book import Book
from engine.bench.compilers import COMPILE_SECONDS, THREADS, Compilers
from engine.bench.judge import counts, derived, judge
from engine.bench.plan import Plan, ahead, places, plan
from engine.build import toolchain
from engine.build.cute import environment
from engine.build.nvcc import BuildError
from engine.evaluate.condition import read as condition_of
from engine.jsonprocess import JsonProcess, WorkerLost
from engine.strategies import Proposal
from engine.suite.cases import PROBLEMS, Case
from engine.suite.runner import OPEN_SECONDS, RUN_SECONDS, WARM_SECONDS, Builds, Gpu, Task
from sol.graph import OpGraph
from sol.hardware import Hardware

EAGER = ("eager", "eager_tf32", "eager_f16")
COMPILED = ("compile", "compile_max")
BASELINE_SECONDS, TRACE_SECONDS = 60.0, 120.0
TURN_SECONDS = 120.0  # that a request may have to wait for the GPU while others measure choices on it
LATE_SECONDS = 50.0  # that what is under way may take when the time given is over
COMPILERS = 2  # processes that run torch.compile ahead; each may hold 24 GB of the GPU


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
    compilers: int = COMPILERS


@dataclass
class Work:
    """A planned module and its builds under way."""

    plan: Plan
    tasks: list[tuple[Task, Proposal]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return all(task.ready for task, _ in self.tasks)


def run(
    wanted: Wanted, hw: Hardware, out: Path | None, say: Callable[[str], None], command: list[str] | None = None
) -> Book:
    """Everything wanted that the results file does not hold yet. `say` gets a line for each trial and each failure.

    `command`: what answers in the place of engine.bench.child.
    """
    return _Bench(wanted, hw, Book(out), say, command).run()


class _Bench:
    def __init__(self, wanted: Wanted, hw: Hardware, book: Book, say: Callable[[str], None], command: list[str] | None):
        self.wanted, self.hw, self.book, self.say = wanted, hw, book, say
        self.began = time.monotonic()
        self.small = wanted.device == "cpu"
        self.builds = None if self.small else Builds(wanted.jobs)
        child = command or [sys.executable, "-m", "engine.bench.child"]
        self.command = [*child, "--device", wanted.device]
        self.variables = environment(self.builds.cache) if self.builds else {}
        if self.builds and wanted.compiled:
            caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or str(self.builds.cache.folder("inductor"))
            self.variables |= {"TORCHINDUCTOR_CACHE_DIR": caches, "TORCHINDUCTOR_COMPILE_THREADS": str(THREADS)}
        self.turn = Path(tempfile.mkdtemp(prefix="ucutlass-bench-")) / "turn"
        if wanted.compiled:
            self.command += ["--turn", str(self.turn)]
        self.gpu = Gpu(wanted.device, self.variables, self.command)
        self.compilers: Compilers | None = None
        self.pairs: list[tuple[str, str]] = []  # (module, a way of torch.compile) still to be timed
        self.works: list[Work] = []
        self.planned = threading.Event()
        self.stop = False
        self.unable: set[str] = set()  # modules that could not be opened for PyTorch's times

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
            self._know()
            self._work()
        finally:
            self.stop = True
            if self.compilers:
                self.compilers.close()
            if self.builds:
                self.builds.close()
            self.gpu.close()
            planner.join(timeout=10)
            self.book.write()
            shutil.rmtree(self.turn.parent, ignore_errors=True)
        return self.book

    def _know(self) -> None:
        """Which machine this is, and so which baselines the results hold already."""
        if self.small:
            return
        self.book.about |= self.gpu.ask("warm", WARM_SECONDS)
        self.book.machine = (self.book.about["gpu"], self.book.about.get("driver"))
        if not self.wanted.compiled:
            return
        # The default mode of every module before max-autotune of any: a time limit then loses the lesser column.
        modules, book = self.wanted.modules, self.book
        self.pairs = [(m, n) for n in COMPILED for m in modules if book.missing(m, [n])]
        self.compilers = Compilers(self.pairs, self.wanted.compilers, self.command, self.variables, self.say)

    def _work(self) -> None:
        """Trials first, as their builds are done; what the GPU would wait for meanwhile goes to torch.compile."""
        while self.left > 0:
            done = self.planned.is_set()  # read before the list: what is planned after is seen the next time
            if work := next((w for w in self.works if w.ready), None):
                self.works.remove(work)
                self._module(work)
            elif pair := next((p for p in self.pairs if self.compilers.ready(p)), None):
                self.pairs.remove(pair)
                self._time(pair[0], (pair[1],))
            elif not done or self.works:
                time.sleep(0.2)
            elif rest := next((m for m in self.wanted.modules if self._untimed(m)), None):
                self._time(rest, EAGER)  # no program of ours: PyTorch's times are wanted all the same
            elif self.pairs:
                time.sleep(0.2)
            else:
                break

    def _untimed(self, module: str) -> bool:
        return not self.small and module not in self.unable and bool(self.book.missing(module, EAGER))

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
        whole = set(row.get("exhausted", ()))
        return all(n >= self.wanted.trials or c in whole for n, c in zip(counts, self.wanted.classes, strict=True))

    def _plan(self, module: str, row: dict, tracer: JsonProcess) -> None:
        path, began = str(PROBLEMS / f"{module}.py"), time.monotonic()
        answer = tracer.request(
            {"op": "trace", "module": path, "small": self.small, "seed": self.wanted.seed}, timeout=TRACE_SECONDS
        )
        if "graph" not in answer:
            row["refused"] = f"it cannot be traced: {answer.get('message', answer)}"
            return
        traced = time.monotonic()
        made = plan(module, OpGraph.from_json(answer["graph"]), self.wanted.classes, self.hw)
        self.book.spent(module, {"trace": traced - began, "plan": time.monotonic() - traced})
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
        if work.tasks:
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
                "derived": derived(proposal.text), "algebraic": bool(getattr(proposal, "algebraic", False)),
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
                if self.left <= 0:  # perhaps it is lost to the time limit alone
                    break
                found = {"ok": False, "failed": e.why, "message": f"{e} {e.log[-500:]}"}
            trial |= task.build | found | {"seconds": time.monotonic() - began}
            row["trials"].append(trial)
            judge(row)
            self.book.write()
            self.say(self._line(row, work.plan.module, trial))
        if opened:
            with contextlib.suppress(WorkerLost):
                self._ask("close", 30.0)
        self.book.write()

    def _open(self, work: Work, row: dict) -> bool:
        """The module on the GPU with PyTorch's own times. Raises WorkerLost."""
        path = str(PROBLEMS / f"{work.plan.module}.py")
        answer = self._ask("open", OPEN_SECONDS, module=path, seed=self.wanted.seed)
        if "error" in answer:
            raise WorkerLost("module", answer["message"])
        self.book.about |= self.gpu.about
        row["scope"] = answer["scope"]
        row.setdefault("spent", {})["open"] = round(answer["seconds"], 2)
        if not self.small and (names := self.book.missing(work.plan.module, EAGER)):
            self._baselines(work.plan.module, names, BASELINE_SECONDS)
        return True

    def _time(self, module: str, names: tuple[str, ...]) -> None:
        """PyTorch's ways to run a module, without a program of ours."""
        wanted = self.book.missing(module, names)
        self.book.problem(module, self.wanted.modules[module])
        limit = COMPILE_SECONDS if set(wanted) & set(COMPILED) else BASELINE_SECONDS
        try:
            answer = self._ask(
                "open", OPEN_SECONDS, module=str(PROBLEMS / f"{module}.py"), seed=self.wanted.seed, times_only=True
            )
            if "error" in answer:
                raise WorkerLost("module", answer["message"])
            self._baselines(module, wanted, limit)
            self._ask("close", 30.0)
        except WorkerLost as e:
            self.unable.add(module)
            self.say(f"{module}: {', '.join(wanted)} not timed: {e}"[:300])
            if self.left > 0:  # not for the time limit's sake: it would fail again
                self.book.keep(module, {n: {"error": str(e)[:300]} for n in wanted})
        self.book.write()

    def _baselines(self, module: str, names: list[str], seconds: float) -> None:
        began = time.monotonic()
        found = self._ask("baselines", seconds, names=names)
        self.book.keep(module, found)
        self.book.spent(module, {"+".join(names) if names[0] in COMPILED else "baselines": time.monotonic() - began})
        for name in set(names) & set(COMPILED):
            told = found[name]
            how = (
                told["error"][:140]
                if "ms" not in told
                else (f"{told['ms']:9.4f} ms after {told['seconds']:.0f} s{', compiled ahead' * told['ahead']}")
            )
            self.say(f"{self.wanted.modules[module]:7} {module:34} {name}: {how}")

    def _ask(self, op: str, seconds: float, **arguments: object) -> dict:
        """The child's answer. Raises WorkerLost."""
        waiting = TURN_SECONDS if self.compilers else 0.0
        return self.gpu.ask(op, min(seconds + waiting, max(self.left, 0.0) + LATE_SECONDS), **arguments)

    def _trial(self, work: Work, task: Task, proposal: Proposal) -> dict:
        try:
            path, artifact = task.future.result() if task.future is not None else (None, None)
        except BuildError as e:
            return {"ok": False, "failed": f"build_{e.code}", "message": e.reason, "log": e.log[-2000:]}
        except Exception as e:
            return {"ok": False, "failed": "build", "message": f"{type(e).__name__}: {e}"[:1500]}
        planner = work.plan.planners[proposal.cls]
        answer = self._ask(
            "run", RUN_SECONDS, case=f"{task.case.name}_{id(task)}", backend=task.backend, cls=proposal.cls,
            text=proposal.text, path=path, artifact=artifact, places=places(planner, proposal.text),
        )  # fmt: skip
        if "wrong" in answer:
            return {"ok": False, "failed": answer["wrong"], "message": answer["message"], "lost": answer.get("lost")}
        if "ok" not in answer:
            return {"ok": False, "failed": "run_failed", "message": answer.get("message", "")}
        answer.pop("pairs", None)
        return answer

    def _line(self, row: dict, module: str, trial: dict) -> str:
        head = f"{row['id']:7} {module:34} {trial['class']:5} {trial['backend']:5}"
        if not trial["ok"]:
            return f"{head} {trial['failed']}: {(trial['message'] or '').strip()[:140]}"
        if "ms" not in trial:
            return f"{head} error {trial['error']:.1e}"
        over, gap = trial["over"].get("eager", 0), trial.get("gap", 0)
        doubt = "" if counts(trial) else f"  {trial['verdict']}: {trial['message'][:80]}"
        return (
            f"{head} {trial['ms']:9.4f} ms, {over:5.2f}x eager, {trial['ratio']:5.2f}x TF32, gap {gap:4.2f}  "
            f"{trial['change'][:70]}{doubt}"
        )
