"""Runs the suite: checks and generates every program, builds ahead, asks the child, writes after every answer.

The results file is both the report and the state: what it holds with the same program text and back end is not run
again, so a run that was cut short goes on where it stopped. What failed is tried again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dsl.compile import Compiled
from dsl.compile import compile as to_sources
from dsl.ir import Gemm
from engine import atomic_write
from engine.build import toolchain
from engine.build.cache import Cache, content_key
from engine.build.cute import environment
from engine.build.nvcc import BuildError
from engine.build.pool import BuildPool, build_cpp
from engine.evaluate.timing.gpu_condition import read as condition_of
from engine.jsonprocess import JsonProcess, WorkerLost
from engine.suite.cases import BadProgram, Case, precision

RUN_SECONDS, OPEN_SECONDS, WARM_SECONDS = 60.0, 120.0, 180.0
CUTE_AT_ONCE = 4
NVCC_SECONDS = 300.0  # a pipeline of several products, among twelve such builds
SMS = 132  # an H200's


@dataclass
class Task:
    """One program by one back end. `future` gives what the child loads: (path of the binding, artifact)."""

    case: Case
    backend: str
    cls: str
    digest: str
    future: Future | None = None
    build: dict = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.case.name}:{self.backend}"

    @property
    def ready(self) -> bool:
        return self.future is None or self.future.done()


class Results:
    """{about, results: {program:backend: row}}, written whole after every row."""

    def __init__(self, path: Path | None):
        self.path, self.about, self.rows = path, {}, {}
        if path is not None and path.exists():
            with contextlib.suppress(ValueError, KeyError):
                held = json.loads(path.read_text())
                self.about, self.rows = held["about"], {f"{r['program']}:{r['backend']}": r for r in held["results"]}

    def done(self, task: Task) -> bool:
        row = self.rows.get(task.key)
        return row is not None and row.get("ok") is True and row.get("digest") == task.digest

    def add(self, task: Task | Case, row: dict) -> dict:
        case = task.case if isinstance(task, Task) else task
        known = {"id": case.pid, "problem": case.module, "program": case.name}
        if isinstance(task, Task):
            known |= {"backend": task.backend, "class": task.cls, "digest": task.digest, **task.build}
        else:
            known |= {"backend": ""}
        row = known | row
        self.rows[f"{row['program']}:{row['backend']}"] = row
        if self.path is not None:
            rows = sorted(self.rows.values(), key=lambda r: (r["id"], r["program"], r["backend"]))
            atomic_write.write_results(self.path, {"about": self.about, "results": rows})
        return row


class Builds:
    """Both back ends' builds, each in its own pool: nvcc `jobs` at a time (3.4 GB each), CuTe DSL few at a time."""

    def __init__(self, jobs: int):
        self.cache = Cache()
        self.cute = BuildPool(self.cache, min(jobs, CUTE_AT_ONCE))
        self.cpp = ThreadPoolExecutor(jobs, "nvcc")
        self.waiters = ThreadPoolExecutor(256, "cute")
        self._stop = False

    def submit(self, task: Task, compiled: Compiled) -> None:
        source = compiled.sources[task.backend]
        if task.backend == "cute":
            self.cute.submit(source)
            task.future = self.waiters.submit(self._cute, task, source)
        else:
            task.future = self.cpp.submit(self._cpp, task, source)

    def _cute(self, task: Task, source) -> tuple[str, None]:
        built = self.cute.submit(source).result(lambda: self._stop)
        task.build = {"build_seconds": round(built.seconds, 2), "cached": built.cached}
        return str(built.path), None

    def _cpp(self, task: Task, source) -> tuple[str, str]:
        built = build_cpp(source, self.cache, lambda: self._stop, NVCC_SECONDS)
        task.build = {"build_seconds": round(built.seconds, 2), "cached": built.cached}
        key = content_key("binding", source.binding)
        folder = self.cache.get(key) or self.cache.put(key, {"binding.py": source.binding.encode()})
        return str(folder / "binding.py"), str(built.path)

    def close(self) -> None:
        self._stop = True
        self.cute.close()
        for pool in (self.cpp, self.waiters):
            pool.shutdown(wait=False, cancel_futures=True)


class Gpu:
    """The child, and one more that imports meanwhile, so that a hang or a broken context costs seconds."""

    def __init__(self, device: str, variables: dict[str, str], command: list[str] | None = None):
        self.device, self.variables = device, variables
        self.command = command or [sys.executable, "-m", "engine.suite.child", "--device", device]
        self.about: dict = {}
        self._process = self._spare = None

    def start(self) -> None:
        self._process = self._process or self._new()

    def _new(self) -> JsonProcess:
        return JsonProcess(self.command, env={**os.environ, **self.variables}, name="process that runs the programs")

    def ask(self, op: str, timeout: float, **arguments: object) -> dict:
        """Raises WorkerLost; the next call finds a fresh process."""
        if self._process is None:
            self._process, self._spare = self._spare or self._new(), None
        try:
            if not self.about or op == "open":
                found = self._process.request({"op": "warm"}, timeout=WARM_SECONDS)
                if "error" in found:
                    raise WorkerLost("died", found["message"])
                self.about = found
                if self._spare is None and self.device != "cpu":
                    self._spare = self._new()
            return self._process.request({"op": op, **arguments}, timeout=timeout)
        except WorkerLost:
            self.drop()
            raise

    def drop(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process = None

    def close(self) -> None:
        self.drop()
        if self._spare is not None:
            self._spare.close()


def run(
    cases: list[Case], device: str, jobs: int, out: Path | None, say: Callable[[dict], None], *,
    seconds: float = 1e9, seed: int = 0, every: bool = False, backends: tuple[str, ...] = ("cute", "cpp"),
    command: list[str] | None = None,
) -> Results:  # fmt: skip
    """Everything in `cases` that the results file does not hold yet. `seconds`: no problem is begun after that long.

    `every`: convolutions by each back end that takes them; otherwise cute alone where it does. `say` gets each row.
    """
    began = time.monotonic()
    results = Results(out)
    results.about |= {"toolchain": toolchain.find().versions(), "device": device}
    if condition := condition_of() if device != "cpu" else None:
        results.about |= {"date": datetime.now(UTC).date().isoformat(), "driver": condition["driver"]}
    builds = Builds(jobs) if device != "cpu" else None
    gpu = Gpu(device, environment(builds.cache) if builds else {}, command)
    gpu.start()
    try:
        todo: dict[str, list[Task]] = {}
        for case in cases:
            for task in _tasks(case, results, builds, say, every, backends):
                todo.setdefault(case.module, []).append(task)
        while todo and time.monotonic() - began < seconds:
            module = next((m for m, tasks in todo.items() if all(t.ready for t in tasks)), None)
            if module is None:
                time.sleep(0.2)
                continue
            _problem(todo.pop(module), gpu, results, say, seed)
    finally:
        if builds:
            builds.close()
        gpu.close()
    return results


def generate(case: Case) -> str:
    """Which back ends take a program, and why one does not: lines for people. Builds nothing."""
    head = f"{case.pid:7} {case.name:38}"
    try:
        compiled = to_sources(case.program(), SMS)
    except BadProgram as e:
        return f"{head} rejected: {str(e).splitlines()[0]}"
    except Exception as e:
        return f"{head} breaks the compiler: {type(e).__name__}: {e}"
    refused = [f"{n}: {r.code} {r.message}" for n, r in compiled.refused.items()]
    return "\n".join([f"{head} {' '.join(compiled.sources) or 'nobody'}", *(f"{'':8}{words}" for words in refused)])


def _tasks(
    case: Case, results: Results, builds: Builds | None, say: Callable, every: bool, wanted: tuple[str, ...]
) -> list[Task]:
    """The builds of a program that are still to run, submitted; what cannot be is a row at once."""
    try:
        program = case.program()
        cls = precision(program)
        if builds is None:
            tasks = [Task(case, "oracle", cls, content_key(case.text))]
            return [t for t in tasks if not results.done(t)]
        compiled = to_sources(program, SMS)
    except BadProgram as e:
        say(results.add(case, {"ok": False, "failed": "check", "message": str(e)[:1500]}))
        return []
    except Exception as e:  # a back end that breaks is a mistake of ours, and one program's
        say(results.add(case, {"ok": False, "failed": "generate", "message": f"{type(e).__name__}: {e}"[:1500]}))
        return []
    results.rows.pop(f"{case.name}:", None)
    refused = {n: f"{r.code} {r.message}" for n, r in compiled.refused.items()}
    names = [n for n in compiled.sources if n in wanted]
    if not every and "cute" in names and not any(isinstance(s, Gemm) for s in program.stages):
        names = ["cute"]
    if not names:
        words = "; ".join(f"{n}: {why}" for n, why in refused.items())
        say(results.add(case, {"ok": False, "failed": "refused", "message": words[:1500]}))
        return []
    tasks = []
    for name in names:
        task = Task(case, name, cls, compiled.digest, build={"refused": refused})
        if not results.done(task):
            builds.submit(task, compiled)
            tasks.append(task)
    return tasks


def _problem(tasks: list[Task], gpu: Gpu, results: Results, say: Callable[[dict], None], seed: int) -> None:
    """Every task of one module, whatever happens in any of them."""
    opened: dict | None = None
    for task in tasks:
        refused = task.build.get("refused")
        try:
            path, artifact = task.future.result() if task.future is not None else (None, None)
        except BuildError as e:
            say(
                results.add(task, {"ok": False, "failed": f"build_{e.code}", "message": e.reason, "log": e.log[-3000:]})
            )
            continue
        except Exception as e:
            say(results.add(task, {"ok": False, "failed": "build", "message": f"{type(e).__name__}: {e}"[:1500]}))
            continue
        if refused:
            task.build["refused"] = refused
        try:
            if opened is None:
                opened = gpu.ask("open", OPEN_SECONDS, module=str(task.case.module_path), seed=seed)
                if "error" in opened:
                    row, opened = {"ok": False, "failed": "module", "message": opened["message"]}, None
                    say(results.add(task, row))
                    continue
                results.about |= gpu.about
            answer = gpu.ask(
                "run", RUN_SECONDS, case=task.case.name, backend=task.backend, cls=task.cls, text=task.case.text,
                path=path, artifact=artifact,
            )  # fmt: skip
        except WorkerLost as e:
            opened = None
            words = f"no end within {RUN_SECONDS:.0f} s" if e.why == "timeout" else str(e)
            say(results.add(task, {"ok": False, "failed": e.why, "message": words, "log": e.log[-2000:]}))
            continue
        if "wrong" in answer or ("error" in answer and "ok" not in answer):
            code = answer.get("wrong", "run_failed")
            say(results.add(task, {"ok": False, "failed": code, "message": answer["message"]}))
            if answer.get("lost"):
                gpu.drop()
                opened = None
            continue
        say(results.add(task, {**answer, "scope": opened["scope"]}))
    if opened is not None:
        with contextlib.suppress(WorkerLost):
            gpu.ask("close", 30.0)
