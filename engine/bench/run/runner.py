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
import time
from collections.abc import Callable
from pathlib import Path

from engine.bench.run.compilers import COMPILE_SECONDS, THREADS, Compilers
from engine.bench.run.composing import Composing, Composition, Part
from engine.bench.run.judge import counts, derived
from engine.bench.run.plan import places
from engine.bench.run.planning import Planning, Work
from engine.bench.run.request import Wanted
from engine.bench.run.results_file import Book
from engine.build import toolchain
from engine.build.cute import environment
from engine.build.nvcc import BuildError
from engine.evaluate.timing.gpu_condition import read as condition_of
from engine.jsonprocess import WorkerLost
from engine.session.trial import limiting
from engine.strategies import Proposal
from engine.suite.runner import OPEN_SECONDS, RUN_SECONDS, WARM_SECONDS, Builds, Gpu, Task
from sol.hardware import Hardware

EAGER = ("eager", "eager_tf32", "eager_f16")
COMPILED = ("compile", "compile_max")
BASELINE_SECONDS = 60.0
TURN_SECONDS = 120.0  # that a request may have to wait for the GPU while others measure choices on it
LATE_SECONDS = 50.0  # that what is under way may take when the time given is over


def run(
    wanted: Wanted, hw: Hardware, out: Path | None, say: Callable[[str], None], command: list[str] | None = None
) -> Book:
    """Everything wanted that the results file does not hold yet. `say` gets a line for each trial and each failure.

    `command`: what answers in the place of engine.bench.run.child.
    """
    return _Bench(wanted, hw, Book(out), say, command).run()


class _Bench:
    def __init__(self, wanted: Wanted, hw: Hardware, book: Book, say: Callable[[str], None], command: list[str] | None):
        self.wanted, self.hw, self.book, self.say = wanted, hw, book, say
        self.began = time.monotonic()
        self.builds = None if wanted.small else Builds(wanted.jobs)
        child = command or [sys.executable, "-m", "engine.bench.run.child"]
        self.command = [*child, "--device", wanted.device]
        self.variables = environment(self.builds.cache) if self.builds else {}
        if self.builds and wanted.compiled:
            caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or str(self.builds.cache.folder("inductor"))
            self.variables |= {"TORCHINDUCTOR_CACHE_DIR": caches, "TORCHINDUCTOR_COMPILE_THREADS": str(THREADS)}
        self.turn = Path(tempfile.mkdtemp(prefix="ucutlass-bench-")) / "turn"
        if wanted.compiled:
            self.command += ["--turn", str(self.turn)]
        self.gpu = Gpu(wanted.device, self.variables, self.command)
        self.regions: list[str] = []  # found while planning, and still to be looked at here
        self.planning = Planning(wanted, hw, book, self.builds, say, self.regions.append)
        self.composing = Composing(wanted, hw, book, self.builds, self.planning)
        self.compilers: Compilers | None = None
        self.pairs: list[tuple[str, str]] = []  # (module, a way of torch.compile) still to be timed
        self.unable: set[str] = set()  # modules that could not be opened for PyTorch's times

    @property
    def left(self) -> float:
        return self.wanted.seconds - (time.monotonic() - self.began)

    def run(self) -> Book:
        self.book.about |= {
            "toolchain": toolchain.find().versions(), "device": self.wanted.device, "hardware": self.hw.name,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }  # fmt: skip
        if condition := None if self.wanted.small else condition_of():
            self.book.about["driver"] = condition["driver"]
        self.gpu.start()
        self.planning.start()
        try:
            self._know()
            self._work()
        finally:
            if self.compilers:
                self.compilers.close()
            if self.builds:
                self.builds.close()
            self.gpu.close()
            self.planning.close()
            self.book.write()
            shutil.rmtree(self.turn.parent, ignore_errors=True)
        return self.book

    def _know(self) -> None:
        """Which machine this is, and so which baselines the results hold already."""
        if self.wanted.small:
            return
        self.book.about |= self.gpu.ask("warm", WARM_SECONDS)
        self.book.machine = (self.book.about["gpu"], self.book.about.get("driver"))
        if not self.wanted.compiled:
            return
        # The default mode of every module before max-autotune of any: a time limit then loses the lesser column.
        modules, book = self.wanted.modules, self.book
        self.pairs = [(m, n) for n in COMPILED for m in modules if book.missing(m, [n])]
        self.compilers = Compilers(
            self.pairs, self.wanted.compilers, self.command, self.variables, self.planning.where, self.say
        )

    def _work(self) -> None:
        """Trials first, as their builds are done; what the GPU would wait for meanwhile goes to torch.compile."""
        while self.left > 0:
            over = self.planning.over
            self._meet_regions()
            if work := self.planning.ready():
                self._module(work)
                self.planning.go_on(work)
            elif whole := self.composing.ready():
                self._compose(whole)
            elif pair := self._compiled():
                self.pairs.remove(pair)
                self._time(pair[0], (pair[1],))
            elif not over or self.composing.waiting:
                time.sleep(0.2)
            elif rest := next((m for m in self.planning.modules if self._untimed(m)), None):
                self._time(rest, EAGER)  # no program of ours: PyTorch's times are wanted all the same
            elif self.pairs:
                time.sleep(0.2)
            else:
                break

    def _compiled(self) -> tuple[str, str] | None:
        """What torch.compile is ready for; no max-autotune while a default mode is still compiled ahead."""
        return next((p for p in self.pairs if p[1] == self.pairs[0][1] and self.compilers.ready(p)), None)

    def _meet_regions(self) -> None:
        """torch.compile of what is covered, beside that of the whole module."""
        while self.regions:
            name = self.regions.pop(0)
            if self.compilers:
                self.pairs += [(name, n) for n in self.book.missing(name, COMPILED)]
                self.pairs.sort(key=lambda pair: COMPILED.index(pair[1]))

    def _untimed(self, module: str) -> bool:
        return not self.wanted.small and module not in self.unable and bool(self.book.missing(module, EAGER))

    # ---- the GPU ----

    def _module(self, work: Work) -> None:
        """Every trial of one module, whatever happens in any of them."""
        row = self.book.problem(work.plan.module, "")
        opened = False
        module = work.plan.module
        for task, proposal in work.tasks:
            trial = {
                "class": proposal.cls, "backend": proposal.backend, "change": proposal.change, "why": proposal.why,
                "structure": proposal.structure, "settings": proposal.settings,
                "predicted_ms": proposal.predicted_ms, "text": proposal.text,
                "derived": derived(proposal.text), "roof": limiting(proposal.text, proposal.cls),
                **_left_out(work, proposal),
            }  # fmt: skip
            began = time.monotonic()
            try:
                opened = opened or self._open(module, row)
                began = time.monotonic()  # opening is counted once, beside the trials
                found = self._trial(work, task, proposal)
                if found.pop("lost", False):
                    self.gpu.drop()
                    opened = False
            except WorkerLost as e:
                opened = False
                if self.left <= 0:  # perhaps it is lost to the time limit alone
                    break
                found = {"ok": False, "failed": e.why, "message": f"{e} {e.log[-500:]}"}
            trial |= task.build | found | {"wave": work.number, "seconds": time.monotonic() - began}
            self.book.tried(row, trial)
            self.book.write()
            self.say(self._line(row, module, trial))
        if opened:
            with contextlib.suppress(WorkerLost):
                self._ask("close", 30.0)
        self.book.write()

    def _compose(self, whole: Composition) -> None:
        """A module in regions as a whole, with the best program of each."""
        row, began = self.book.problem(whole.module, ""), time.monotonic()
        try:
            placed = [self._placed(part) for part in whole.parts]
            self._open(whole.module, row)
            graph = self.planning.where[whole.parts[0].region]["region"]["graph"]
            answer = self._ask("compose", RUN_SECONDS, graph=graph, placed=placed, cls=whole.cls)
            found = _found(answer)
            if found.pop("lost", False):
                self.gpu.drop()
            else:
                self._ask("close", 30.0)
        except Exception as e:
            if isinstance(e, WorkerLost) and self.left <= 0:  # perhaps it is lost to the time limit alone
                return
            found = {"ok": False, "failed": "composing", "message": f"{type(e).__name__}: {e}"[:500]}
        told = whole.told() | found | {"seconds": time.monotonic() - began}
        self.book.composed(whole.module, told)
        self.book.write()
        self.say(self._line(row, whole.module, told))

    def _placed(self, part: Part) -> dict:
        path, artifact = part.task.future.result() if part.task.future is not None else (None, None)
        return part.placed(self.planning.where[part.region]["region"]["ops"], path, artifact)

    def _open(self, module: str, row: dict) -> bool:
        """The module on the GPU with PyTorch's own times. Raises WorkerLost."""
        answer = self._ask("open", OPEN_SECONDS, **self.planning.where[module], seed=self.wanted.seed)
        if "error" in answer:
            raise WorkerLost("module", answer["message"])
        self.book.about |= self.gpu.about
        row["scope"] = answer["scope"]
        row.setdefault("spent", {})["open"] = round(answer["seconds"], 2)
        if not self.wanted.small and (names := self.book.missing(module, EAGER)):
            self._baselines(module, names, BASELINE_SECONDS)
        return True

    def _time(self, module: str, names: tuple[str, ...]) -> None:
        """PyTorch's ways to run a module, without a program of ours."""
        wanted = self.book.missing(module, names)
        self.book.problem(module, self.planning.modules[module])
        limit = COMPILE_SECONDS if set(wanted) & set(COMPILED) else BASELINE_SECONDS
        try:
            answer = self._ask(
                "open", OPEN_SECONDS, **self.planning.where[module], seed=self.wanted.seed, times_only=True
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
            how = told.get("error", "")[:140]
            if "ms" in told:
                how = f"{told['ms']:9.4f} ms after {told['seconds']:.0f} s{', compiled ahead' * told['ahead']}"
            self.say(f"{self.planning.modules[module]:7} {module:34} {name}: {how}")

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
        return _found(answer)

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


def _found(answer: dict) -> dict:
    """What the results file keeps of the child's answer to `run` or `compose`; `lost`: its context is broken."""
    if "wrong" in answer:
        return {"ok": False, "failed": answer["wrong"], "message": answer["message"], "lost": answer.get("lost")}
    if "ok" not in answer:
        return {"ok": False, "failed": "run_failed", "message": answer.get("message", "")}
    answer.pop("pairs", None)
    return answer


def _left_out(work: Work, proposal: Proposal) -> dict:
    """{algebraic: what a program leaves out of the work that the module asks for, or "", limit_ms: of what is left}"""
    found = work.plan.planners[proposal.cls].algebraic(proposal.text, proposal.cls)
    if found is None:
        return {"algebraic": ""}
    return {"algebraic": found.words, "limit_ms": found.limits.get(limiting(proposal.text, proposal.cls))}
