"""What a GPU really did: recorded sessions of the gallery and the benches of engine/results, read for lessons.

A file is read when a lesson first asks for it, and kept while it does not change.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from engine import replay
from engine.session import recording
from engine.session.fold.reduce import View, fold
from engine.session.fold.view import Trial

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "playground" / "recordings"
BENCHES = {"suite59": "bench-suite59-h200-2026-11-21.json", "f16": "bench-f16-h200-2026-11-21.json"}
FIELDS = (
    "ms", "speedup", "gap", "score", "verdict", "class", "error", "tolerance", "max_error", "predicted_ms",
    "build_seconds", "lines",
)  # fmt: skip


class RecordError(ValueError):
    """A session, trial or field that is not recorded; the message names those that are."""


def names() -> tuple[str, ...]:
    """The recorded sessions."""
    return _names(RECORDINGS, RECORDINGS.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)  # a lesson names recordings dozens of times
def _names(folder: Path, _: int) -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in folder.glob("*.jsonl")))


@functools.lru_cache(maxsize=32)
def _read(name: str, _: int) -> tuple[str, View, dict[str, str]]:
    path = RECORDINGS / f"{name}.jsonl"
    raw = path.read_bytes()
    record = recording.read(path)
    session_id = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()[:16]).decode().rstrip("=")
    return session_id, fold(record.rows), record.blobs


def _recording(name: str) -> tuple[str, View, dict[str, str]]:
    if not re.fullmatch(r"\w+", str(name)) or name not in names():
        raise RecordError(f"there is no recorded session {name!r}; there are {', '.join(names())}")
    return _read(name, (RECORDINGS / f"{name}.jsonl").stat().st_mtime_ns)


def session_id(name: str) -> str:
    """The id under which the gallery shows a recording (playground.recordings derives it alike)."""
    return _recording(name)[0]


def view(name: str) -> View:
    """The folded log of a recorded session."""
    return _recording(name)[1]


def text_of(name: str, sha: str) -> str:
    """A text of a recording: the module, or a trial's program."""
    return _recording(name)[2].get(sha, "")


def _trial(name: str, number: int) -> Trial:
    trials = view(name).trials
    if number not in trials:
        raise RecordError(f"{name} has no trial {number!r}; its trials are {', '.join(map(str, trials))}")
    return trials[number]


def trial(name: str, number: int, field: str = "ms") -> Any:
    """trial(session, number, field="ms"): ms, speedup, gap, score, verdict, class, error, .. of a trial

    `field`: one of FIELDS. Times in ms, the build in seconds.
    """
    t = _trial(name, number)
    judged, validated = t.judged or t.untimed, t.validated or {}
    built, text = t.compiled or {}, text_of(name, t.program)
    values = {
        "ms": getattr(judged, "ms", None),
        "speedup": getattr(judged, "speedup", None),
        "gap": getattr(judged, "gap", None),
        "score": getattr(judged, "sol_score", None),
        "verdict": judged.verdict if judged else "failed",
        "class": t.cls,
        "predicted_ms": t.predicted_ms,
        "build_seconds": built.get("seconds"),
        "lines": sum(bool(line.strip()) for line in text.splitlines()) or None,
        **{key: validated.get(key) for key in ("error", "tolerance", "max_error")},
    }
    if values.get(field) is None:
        have = ", ".join(key for key, value in values.items() if value is not None)
        raise RecordError(f"trial {number} of {name} has no {field!r}; it has {have}")
    return values[field]


def baseline(name: str, cls: str) -> float:
    """baseline(session, class): ms of PyTorch in a class of a recorded session"""
    row = view(name).baseline(cls)
    if row is None or row.ms is None:
        raise RecordError(f"{name} has no baseline of class {cls!r}")
    return row.ms


def sol_limit(name: str, cls: str) -> float:
    """recorded_limit(session, class): ms of the limit of a class of a recorded session"""
    bounds = view(name).bounds
    if cls not in bounds:
        raise RecordError(f"{name} has no limit of class {cls!r}; it has {', '.join(bounds)}")
    return bounds[cls]


def sessions(name: str) -> dict[str, replay.Recorded]:
    """Class -> the session for sol.budget.replay."""
    rows = replay.recorded(view(name), name)
    return {row.name.rpartition("(")[2].rstrip(")"): row for row in rows}


def session(name: str, cls: str) -> replay.Recorded:
    """The searched trials of one class, for sol.budget.replay."""
    by_class = sessions(name)
    if cls not in by_class:
        raise RecordError(f"{name} has no searched trials of class {cls!r}; it has {', '.join(by_class)}")
    return by_class[cls]


@functools.lru_cache(maxsize=4)
def bench(file: str) -> dict[str, Any]:
    """The bench of a file of engine/results: {date, gpu, driver, toolchain, command, problems}."""
    return json.loads((ROOT / "engine" / "results" / file).read_text(encoding="utf-8"))


def problem(of: str, name: str) -> dict[str, Any]:
    """A problem of a bench, by its name in BENCHES: {baselines, limits, trials}."""
    if of not in BENCHES:
        raise RecordError(f"there is no bench {of!r}; there are {', '.join(BENCHES)}")
    problems = bench(BENCHES[of])["problems"]
    if name not in problems:
        raise RecordError(f"the bench {of} has no problem {name!r}")
    return problems[name]


def bench_trials(of: str, name: str, cls: str, words: str = "") -> list[dict[str, Any]]:
    """The right trials of a class whose change has these words, in the order in which they ran."""
    rows = [t for t in problem(of, name)["trials"] if t["class"] == cls and t["ok"] and words in t["change"]]
    if not rows:
        raise RecordError(f"{name} has no right trial of class {cls!r} with {words!r}")
    return rows
