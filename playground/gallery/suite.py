"""The suite's problems as pages: what each class's best program is, how it was timed, and the code it becomes.

Times and programs are those of the committed results (static/data/bench.json and the file of engine/results that it
names). The generated code is made from the program when the page is read, by the compiler of today.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.words import class_name
from playground import conf
from playground.access.requests import title_of
from playground.gallery.words import speedup, time
from playground.language import examples, service
from playground.learn.recorded import bench
from playground.models import Session

PUBLISHED = conf.ROOT / "static" / "data" / "bench.json"  # written by engine.bench.report.publish


@dataclass(frozen=True)
class Program:
    """The best program of a class. `cls`: the name of the class it was tried in, which may be finer; `backend`: the one
    that was timed; `codes`: [(back end, text)], the timed one first."""

    text: str
    cls: str
    backend: str
    change: str
    codes: tuple[tuple[str, str], ...]
    refused: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Problem:
    """One problem in one class. `facts`: (name, text) of its row in the table; `program`: None if none is right."""

    name: str
    title: str
    source: str
    cls: str
    classes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    program: Program | None
    ways: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    trials: tuple[dict[str, Any], ...]
    about: dict[str, str]


@functools.cache
def published() -> dict[str, Any] | None:
    """static/data/bench.json; None if no results are committed."""
    return json.loads(PUBLISHED.read_text(encoding="utf-8")) if PUBLISHED.exists() else None


def names() -> list[str]:
    """The problems of the table, in its order."""
    results = published()
    return [row["problem"] for row in next(iter(results["classes"].values()))["rows"]] if results else []


def summary(cls: str) -> dict[str, Any] | None:
    """What the gallery says of the results before they are loaded: {classes: [(class, name)], cls, words, about} of a
    class (by default the first one); None if no results are committed."""
    results = published()
    if results is None:
        return None
    classes = results["classes"]
    chosen = cls if cls in classes else next(iter(classes))
    return {
        "classes": [(name, class_name(name)) for name in classes], "cls": chosen, "words": classes[chosen]["words"],
        "about": measured(results),
    }  # fmt: skip


def measured(results: dict[str, Any]) -> str:
    """Where and how published results were measured, in a sentence without its full stop."""
    many = results.get("gpus", 1)
    gpus = f"{'one' if many == 1 else many} {results['gpu']}"
    machine = f"{gpus} (driver {results['driver']}, PyTorch {results['torch']})"
    return f"Measured on {machine} on {results['date']} by {results['command']}"


def problem(name: str, cls: str = "") -> Problem | None:
    """The page of a problem in a class (by default the first one); None if the results have no such problem."""
    results = published()
    if results is None or name not in names():
        return None
    classes = tuple(results["classes"])
    cls = cls if cls in classes else classes[0]
    row = next(row for row in results["classes"][cls]["rows"] if row["problem"] == name)
    return shown(results, row, cls, classes, sources().get(name, ""))


def shown(results: dict[str, Any], row: dict[str, Any], cls: str, classes: tuple[str, ...], text: str) -> Problem:
    """A row of a published table in full. `text`: the module's, "" where it is not committed."""
    name, measured = row["problem"], bench(results["from"])["problems"][row["problem"]]
    best = measured["trials"][row["number"] - 1] if row["number"] else None
    return Problem(
        name, title_of(text, "module") if text else "", text, cls, classes,
        tuple(zip(results["head"][1:], row["cells"][1:], strict=True)),
        _program(best) if best and best.get("text") else None,
        tuple((results["ways"].get(n, n), time(way["ms"])) for n, way in measured["baselines"].items() if "ms" in way),
        tuple((class_name(c), time(ms)) for c, ms in measured["limits"].items()),
        tuple(_trial(n, t, n == row["number"]) for n, t in enumerate(measured["trials"], 1)),
        {k: results[k] for k in ("gpu", "driver", "torch", "date", "command", "from")},
    )  # fmt: skip


def _program(best: dict[str, Any]) -> Program:
    out = service.compile_(best["text"])
    codes = {name: source["text"] for name, source in out["sources"].items()}
    order = sorted(codes, key=lambda name: (name != best["backend"], name))
    refused = tuple((name, why["message"]) for name, why in sorted(out["refused"].items()))
    return Program(
        best["text"], class_name(best["class"]), best["backend"], best["change"],
        tuple((n, codes[n]) for n in order), refused,
    )  # fmt: skip


def _trial(number: int, trial: dict[str, Any], won: bool) -> dict[str, Any]:
    """A trial of the results as a row: {number, cls, backend, change, time, ratio, verdict, won}."""
    timed = trial["ok"] and "ms" in trial
    failed = f"failed: {trial.get('failed', '')} {trial.get('message', '')}".split("\n")[0].strip()[:200]
    return {
        "number": number, "cls": class_name(trial["class"]), "backend": trial["backend"], "change": trial["change"],
        "time": time(trial["ms"]) if timed else "", "ratio": speedup(trial["ratio"]) if timed else "",
        "verdict": trial.get("verdict", "not looked at") if trial["ok"] else failed, "won": won,
    }  # fmt: skip


@functools.cache
def sources() -> dict[str, str]:
    """{problem: the text of its module}."""
    known = set(names())
    return {row["id"]: row["text"] for row in examples.all_examples() if row["kind"] == "module" and row["id"] in known}


def recordings(recorded: Iterable[Session]) -> dict[str, list[Session]]:
    """{problem: the recordings of the same module, by equal source, those of our own planner first}."""
    by_source = {text: name for name, text in sources().items()}
    same: dict[str, list[Session]] = {}
    for session in sorted(recorded, key=lambda s: s.spec.get("strategy") != "planner"):
        name = by_source.get(session.spec.get("source", ""))
        if name is not None:
            same.setdefault(name, []).append(session)
    return same
