"""Run the suite: one session per problem, which tries the suite's own programs. The results are written after each.

The results file is both the report and the state. A result with the same program text and back end is not run again, so
an interrupted run continues where it stopped. Failed programs are tried again.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsl.compile import compile as to_sources
from dsl.ir import Gemm
from engine import atomic_write
from engine.bench.report import speedups
from engine.bench.run import fold, runner
from engine.evaluate.evaluator import Evaluator
from engine.session import runner as sessions
from engine.session.spec import SessionSpec
from engine.strategies.api import Candidate
from engine.suite.cases import BadProgram, Case, precision
from engine.suite.given import Given

BACKENDS = ("cute", "cpp")
REFERENCE = "eager_tf32"  # the baseline whose time and ratio are in every row


@dataclass
class Task:
    """One program by one back end. `refused`: back end -> why it does not take the program."""

    case: Case
    backend: str
    cls: str
    digest: str
    source: Any = None
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.case.name}:{self.backend}"


class Results:
    """{about, results: [row]}, written whole after every session."""

    def __init__(self, path: Path | None):
        self.path, self.about, self.rows = path, {}, {}
        if path is not None and path.exists():
            with contextlib.suppress(ValueError, KeyError):
                data = json.loads(path.read_text())
                self.about, self.rows = data["about"], {f"{r['program']}:{r['backend']}": r for r in data["results"]}

    def done(self, task: Task) -> bool:
        row = self.rows.get(task.key)
        return row is not None and row.get("ok") is True and row.get("digest") == task.digest

    def add(self, task: Task | Case, row: dict[str, Any]) -> dict[str, Any]:
        case = task.case if isinstance(task, Task) else task
        known = {"id": case.pid, "problem": case.module, "program": case.name}
        if isinstance(task, Task):
            known |= {"backend": task.backend, "class": task.cls, "digest": task.digest, "refused": task.refused}
        else:
            known |= {"backend": ""}
        row = known | row
        self.rows[f"{row['program']}:{row['backend']}"] = row
        return row

    def write(self) -> None:
        if self.path is not None:
            rows = sorted(self.rows.values(), key=lambda r: (r["id"], r["program"], r["backend"]))
            atomic_write.write_results(self.path, {"about": self.about, "results": rows})


def run(
    cases: Iterable[Case], evaluator: Evaluator, out: Path | None, say: Callable[[dict], None], *,
    seconds: float = 1e9, seed: int = 0, every: bool = False, backends: tuple[str, ...] = BACKENDS,
) -> Results:  # fmt: skip
    """Run everything in `cases` that the results file lacks. `seconds`: start no problem after that time.

    `every`: convolutions with each back end that takes them; otherwise only with cute if it takes them. `say` gets each
    row.
    """
    until, results = time.monotonic() + seconds, Results(out)
    results.about |= runner.about(evaluator)
    todo: dict[str, list[Task]] = {}
    for case in cases:
        for task in _tasks(case, results, evaluator, say, every, backends):
            todo.setdefault(case.module, []).append(task)
    for task in (t for tasks in todo.values() for t in tasks):
        evaluator.build_ahead(task.source)
    for tasks in todo.values():
        if time.monotonic() >= until:
            break
        for task, row in zip(tasks, _rows(tasks, evaluator, seed), strict=True):
            say(results.add(task, row))
        results.write()
    results.write()
    return results


def generate(case: Case, sms: int) -> str:
    """The back ends that take a program, and why others do not: lines for people. Builds nothing."""
    head = f"{case.pid:7} {case.name:38}"
    try:
        compiled = to_sources(case.program(), sms)
    except BadProgram as e:
        return f"{head} rejected: {str(e).splitlines()[0]}"
    except Exception as e:
        return f"{head} breaks the compiler: {type(e).__name__}: {e}"
    refused = [f"{n}: {r.code} {r.message}" for n, r in compiled.refused.items()]
    return "\n".join([f"{head} {' '.join(compiled.sources) or 'nobody'}", *(f"{'':8}{words}" for words in refused)])


def _tasks(
    case: Case, results: Results, evaluator: Evaluator, say: Callable, every: bool, wanted: tuple[str, ...]
) -> list[Task]:
    """The runs of a program that remain. A run that is impossible becomes a row at once."""
    try:
        program = case.program()
        compiled = to_sources(program, evaluator.hw.sms)
    except BadProgram as e:
        say(results.add(case, {"ok": False, "failed": "check", "message": str(e)[:1500]}))
        return []
    except Exception as e:  # an error of a back end is ours, and affects only this program
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
    tasks = [Task(case, n, precision(program), compiled.digest, compiled.sources[n], refused) for n in names]
    return [t for t in tasks if not results.done(t)]


def _rows(tasks: list[Task], evaluator: Evaluator, seed: int) -> list[dict[str, Any]]:
    """The tasks of one module in one session, as rows in their order."""
    case = tasks[0].case
    classes = tuple(dict.fromkeys(["tf32", *(t.cls for t in tasks)]))  # all are compared with PyTorch with TF32
    spec = SessionSpec(
        title=case.module, source=case.module_path.read_text(encoding="utf-8"), source_kind="module", classes=classes,
        trials=len(tasks), eps=0.0, window=len(tasks), seed=seed,
    )  # fmt: skip
    tries = [(Candidate(t.case.text, t.cls, t.backend), f"{t.case.name} by {t.backend}") for t in tasks]
    log = list(sessions.run(spec, device=evaluator, local_user=True, teaches=False, memory="", strategy=Given(tries)))
    row = fold.row_of(case.pid, log, {name: text for e in log for name, text in e.blobs.items()})
    speedups.judge(row)
    trials = row["trials"] + [None] * (len(tasks) - len(row["trials"]))
    return [_row(trial, row) for trial in trials]


def _row(trial: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    """One trial with its ratio over REFERENCE: a product of alternated ratios if its own baseline is another."""
    if trial is None:
        return {"ok": False, "failed": row["session"]["code"] or "module", "message": row["session"]["reason"]}
    left_out = ("trial", "class", "backend", "change", "why", "by", "predicted_ms", "text", "roof", "algebraic", "over")
    entry = {name: value for name, value in trial.items() if name not in left_out}
    if trial["ok"] and REFERENCE in trial["over"]:
        scale = trial["over"][REFERENCE] / trial["ratio"]
        for name in ("ratio", "ratio_low", "ratio_high"):
            entry[name] = None if trial[name] is None else trial[name] * scale
        entry["eager_ms"] = trial["over"][REFERENCE] * trial["ms"]
    return entry
