"""A module in regions as a whole: the fastest program of each region that beats PyTorch there, PyTorch for the rest.

What a session reports of such a module, and so what a bench needs beside the times of its regions: one composition a
class, once the search of every region is over. Its programs were built for their own trials; what an earlier call built
comes from the cache.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dsl.check.program import check
from dsl.compile import compile as to_sources
from engine.bench.run.judge import EAGER_OF, FINENESS, NATIVE, best, roof
from engine.bench.run.planning import Planning
from engine.bench.run.request import Wanted
from engine.bench.run.results_file import Book
from engine.strategies.planner.planner import Planner
from engine.suite.cases import Case
from engine.suite.runner import Builds, Task
from engine.words import count
from sol.hardware import Hardware

NONE_FASTER = "no region has a program that is faster than PyTorch there"


@dataclass
class Part:
    """One region's program: its trial in the results file, its build, and the planner that knows its bindings."""

    region: str
    trial: dict
    task: Task
    planner: Planner

    def placed(self, ops: list[str], path: str | None, artifact: str | None) -> dict:
        """As engine.evaluate.candidate.region_program reads it."""
        program = check(self.trial["text"]).program
        inputs, outputs = self.planner.problem.bind(self.trial["text"])
        types = [t.dtype.value for t in program.result_types]
        return {
            "ops": ops, "program": self.trial["text"], "path": path, "artifact": artifact,
            "inputs": [asdict(b) for b in inputs],
            "outputs": [{**asdict(b), "dtype": dtype} for b, dtype in zip(outputs, types, strict=True)],
        }  # fmt: skip


@dataclass
class Composition:
    """`parts`: in the order of the regions."""

    module: str
    cls: str
    parts: list[Part]

    @property
    def ready(self) -> bool:
        return all(p.task.ready for p in self.parts)

    def told(self) -> dict:
        """What the results file says of it besides what running it said: fields of a trial, with `programs` (region ->
        text) in the place of `text`. Its class is that of its coarsest program, and so is the roof of a guarded one."""
        by = [p.trial.get("derived") or p.trial["class"] for p in self.parts]
        guarded = self.cls == "tf32" and any(roof(p.trial) == "f16" for p in self.parts)
        return {
            "class": self.cls, "backend": "composed", "programs": {p.region: p.trial["text"] for p in self.parts},
            "change": f"{count(len(self.parts), 'program')} of ours and PyTorch", "algebraic": "",
            "derived": max([self.cls, *by] if not guarded else by, key=lambda c: FINENESS[c]),
            "roof": "f16" if guarded else self.cls,
        }  # fmt: skip


class Composing:
    """`ready()` gives one composition after the other; `waiting`: whether one is still being built."""

    def __init__(self, wanted: Wanted, hw: Hardware, book: Book, builds: Builds | None, planning: Planning):
        self.wanted, self.hw, self.book, self.builds, self.planning = wanted, hw, book, builds, planning
        self._begun: set[tuple[str, str]] = set()
        self._building: list[Composition] = []

    @property
    def waiting(self) -> bool:
        return bool(self._building)

    def ready(self) -> Composition | None:
        """One whose builds are done; it is the caller's now."""
        for module in self.wanted.modules:
            names = self.book.problems.get(module, {}).get("regions")
            if names and self.planning.finished.issuperset(names):
                for cls in self.wanted.classes:
                    if (module, cls) not in self._begun:
                        self._begun.add((module, cls))
                        self._begin(module, cls, names)
        found = next((c for c in self._building if c.ready), None)
        if found is not None:
            self._building.remove(found)
        return found

    def _begin(self, module: str, cls: str, names: list[str]) -> None:
        parts = [p for p in (self._part(name, cls) for name in names) if p is not None]
        held = self.book.problems[module].get("composed", {}).get(cls)
        if held is not None and held["programs"] == {p.region: p.trial["text"] for p in parts}:
            return  # an earlier call's
        if not parts:
            none = {"ok": False, "failed": "none", "message": NONE_FASTER}
            self.book.composed(module, {"class": cls, "backend": "composed", "programs": {}, **none})
            return
        self._building.append(Composition(module, cls, parts))

    def _part(self, name: str, cls: str) -> Part | None:
        """The region's program, its build asked for; None where PyTorch stays."""
        row, plan = self.book.problems[name], self.planning.plans[name]
        found = best(row, cls)
        if found is None and self.wanted.small:  # nothing is timed there
            found = next((t for t in row["trials"] if t["class"] == cls and t["ok"]), None)
        elif found is not None and found["over"].get(EAGER_OF.get(cls, NATIVE), found["ratio"]) <= 1.0:
            found = None
        if found is None or found["class"] not in plan.planners:
            return None
        case = Case(row["id"], name, f"{name}_{cls}_composed", found["text"])
        task = Task(case, found["backend"], found["class"], "")
        if self.builds is not None:
            self.builds.submit(task, to_sources(check(found["text"]).program, self.hw.sms))
        return Part(name, found, task, plan.planners[found["class"]])
