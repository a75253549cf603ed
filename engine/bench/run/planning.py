"""A bench's search: modules are traced and planned in a thread, and each goes on in waves.

A wave is a few trials of each class that are built at once, none waiting for another's result; the next wave is
planned from what the ones before it found, so that the planner refines around its best. A module that no single
program can be becomes its regions, each a problem of its own with a name like `moe_layer#2`.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dsl.check.program import check
from dsl.compile import compile as to_sources
from engine.bench.run.judge import stopped
from engine.bench.run.plan import Plan, ahead, plan
from engine.bench.run.request import Wanted
from engine.bench.run.results_file import Book
from engine.jsonprocess import JsonProcess, WorkerLost
from engine.strategies.api import Try
from engine.suite.cases import PROBLEMS, Case
from engine.suite.runner import Builds, Task
from sol.graph import OpGraph
from sol.hardware import Hardware

TRACE_SECONDS = 120.0


@dataclass
class Work:
    """A planned module (or region) and its builds under way. `where`: what the child opens it by."""

    plan: Plan
    where: dict
    tasks: list[tuple[Task, Try]] = field(default_factory=list)
    number: int = 0  # of its wave, those of earlier calls counted

    @property
    def ready(self) -> bool:
        return all(task.ready for task, _ in self.tasks)


class Planning:
    """`modules`: name -> id of every problem, regions among them as they are found; `where`: what the child opens each
    by. `found(name)` is called for each region, in the planning thread."""

    def __init__(
        self, wanted: Wanted, hw: Hardware, book: Book, builds: Builds | None, say: Callable[[str], None],
        found: Callable[[str], None],
    ):  # fmt: skip
        self.wanted, self.hw, self.book, self.builds, self.say, self._found = wanted, hw, book, builds, say, found
        self.modules = dict(wanted.modules)
        self.where = {m: {"module": str(PROBLEMS / f"{m}.py")} for m in wanted.modules}
        self.works: list[Work] = []
        self.plans: dict[str, Plan] = {}
        self.finished: set[str] = set()  # modules and regions whose search is over
        self._again: queue.Queue[Work] = queue.Queue()
        self._waiting = 0  # of those, and the one that is being planned
        self._lock = threading.Lock()
        self._modules_done, self._stop = threading.Event(), False
        self._thread = threading.Thread(target=self._all, name="planner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop = True
        self._thread.join(timeout=10)

    def ready(self) -> Work | None:
        """One whose builds are done; it is the caller's now."""
        work = next((w for w in self.works if w.ready), None)
        if work is not None:
            self.works.remove(work)
        return work

    def go_on(self, work: Work) -> None:
        """The next wave of a work whose trials are all made; it is ready again later, or never."""
        with self._lock:
            self._waiting += 1
        self._again.put(work)

    @property
    def over(self) -> bool:
        """Whether nothing will be ready any more."""
        if not self._modules_done.is_set():
            return False
        with self._lock:
            return not self._waiting and not self.works

    # ---- in the thread ----

    def _all(self) -> None:
        """Waves before modules: what was begun is finished first."""
        tracer, modules = None, iter(self.wanted.modules.items())
        try:
            while not self._stop:
                if not self._again.empty() or self._modules_done.is_set():
                    self._wave_after()
                elif (found := next(modules, None)) is None:
                    self._modules_done.set()
                else:
                    tracer = self._planned(*found, tracer)
        finally:
            self._modules_done.set()
            if tracer is not None:
                tracer.close()

    def _wave_after(self) -> None:
        try:
            work = self._again.get(timeout=0.2)
        except queue.Empty:
            return
        try:
            self.wave(work)
        except Exception as e:  # a mistake of ours costs the rest of one search
            self.say(f"{work.plan.module}: no further trials, planning them failed: {type(e).__name__}: {e}"[:300])
            self.finished.add(work.plan.module)
        finally:
            with self._lock:
                self._waiting -= 1

    def _planned(self, module: str, pid: str, tracer: JsonProcess | None) -> JsonProcess | None:
        """One module traced and begun. Gives back the process that traces, None where it is lost."""
        row = self.book.problem(module, pid)
        if self._enough(row):
            return tracer
        try:
            tracer = tracer or JsonProcess(
                [sys.executable, "-m", "engine.bench.run.child", "--device", "cpu"], name="tracer"
            )
            self._module(module, row, tracer)
        except WorkerLost as e:
            row["refused"], tracer = f"tracing it failed: {e}", None
        except Exception as e:  # a mistake of ours costs one module
            row["refused"] = f"planning it failed: {type(e).__name__}: {e}"
        if row["refused"]:
            self.say(f"{pid:7} {module:34} refused: {row['refused'][:200]}")
        return tracer

    def _enough(self, row: dict) -> bool:
        """Whether the results file holds all the trials that are wanted of a problem. Regions are looked at again: only
        the module's graph says what they are."""
        return not row.get("regions") and not any(self._many(row, c) for c in self.wanted.classes)

    def _many(self, row: dict, cls: str) -> int:
        """Trials of a class still to be made."""
        if cls in row.get("exhausted", ()) or cls in row.get("stopped", {}):
            return 0
        return max(0, self.wanted.trials - sum(t["class"] == cls for t in row["trials"]))

    def _module(self, module: str, row: dict, tracer: JsonProcess) -> None:
        began = time.monotonic()
        answer = tracer.request(
            {"op": "trace", **self.where[module], "small": self.wanted.small, "seed": self.wanted.seed},
            timeout=TRACE_SECONDS,
        )
        if "graph" not in answer:
            row["refused"] = f"it cannot be traced: {answer.get('message', answer)}"
            return
        traced = time.monotonic()
        made = plan(module, OpGraph.from_json(answer["graph"]), self.wanted.classes, self.hw, row["id"])
        self.book.spent(module, {"trace": traced - began, "plan": time.monotonic() - traced})
        self._take(made, row, self.where[module])
        for part in made.parts:
            self._region(module, row["id"], part, answer["graph"])

    def _region(self, module: str, pid: str, part: dict, graph: str) -> None:
        name = f"{module}#{part['number']}"
        self.modules[name] = pid
        self.where[name] = self.where[module] | {"region": {"graph": graph, "ops": part["ops"]}}
        row = self.book.problem(name, pid)
        began = time.monotonic()
        made = plan(name, part.pop("graph"), self.wanted.classes, self.hw, pid)
        with self.book.lock:
            row["region"] = part
        self.book.spent(name, {"plan": time.monotonic() - began})
        self._take(made, row, self.where[name])
        self._found(name)

    def _take(self, made: Plan, row: dict, where: dict) -> None:
        self.plans[made.module] = made
        with self.book.lock:
            row["refused"], row["left_out"], row["limits"] = made.refused, made.left_out, made.limits
            if made.parts:
                row["regions"] = [f"{made.module}#{part['number']}" for part in made.parts]
                row["uncovered"], row["covered"] = made.uncovered, made.words
        self.wave(Work(made, where, number=max((t.get("wave", 0) for t in row["trials"]), default=0)))

    # ---- waves ----

    def wave(self, work: Work) -> None:
        """The next trials of each class, submitted to be built; nothing where none is left."""
        row, found = self.book.problems[work.plan.module], []
        for cls, planner in work.plan.planners.items():
            own = [t for t in row["trials"] if t["class"] == cls]
            if why := self._why_stop(row, cls, own):
                with self.book.lock:
                    row.setdefault("stopped", {})[cls] = why
            many = min(self.wanted.wave, self._many(row, cls))
            more = ahead(planner, own, many) if many else []
            if len(more) < many:
                with self.book.lock:
                    row["exhausted"] = sorted({*row.get("exhausted", ()), cls})
            found += more
        work.number += 1
        work.tasks = [self._submitted(work, row, proposal) for proposal in found]
        if work.tasks:
            self.works.append(work)
        else:
            self.finished.add(work.plan.module)

    def _why_stop(self, row: dict, cls: str, own: list[dict]) -> str | None:
        if self.wanted.window is None:
            return None
        return stopped(row, cls, own, self.wanted.eps, self.wanted.window)

    def _submitted(self, work: Work, row: dict, proposal: Try) -> tuple[Task, Try]:
        module = work.plan.module
        case = Case(row["id"], module, f"{module}_{proposal.cls}", proposal.text)
        if self.builds is None:
            return Task(case, "oracle", proposal.cls, ""), proposal
        compiled = to_sources(check(proposal.text).program, self.hw.sms)
        task = Task(case, proposal.backend, proposal.cls, compiled.digest)
        self.builds.submit(task, compiled)
        return task, proposal
