"""A session in a terminal: one line per event of interest, and a live status line if there is a screen."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any, TextIO

from engine.session import events, recording
from engine.session.fold.reduce import View, fold
from engine.session.kernel_text import LANGUAGES
from engine.session.recording import Row
from engine.words import count, family_name, with_covered

MARK = {"measured": "", "predicted": "~"}  # distinguishes printed predictions from measurements


def ms(value: float, kind: str = "measured") -> str:
    return f"{MARK[kind]}{value:.3g} ms"


def line(event: events.Event) -> str | None:
    """An event as a line for a person, or None if it is of no interest."""
    e = event
    if isinstance(e, events.SessionStarted):
        allowed = "; algebraic rewrites are allowed" * e.algebraic
        options = "".join(f", {name} {value}" for name, value in e.options.items() if value not in ("", 0))
        where = e.device.get("name", "?")
        return f"{e.title}: {e.strategy}{options} on {where}, classes {', '.join(e.classes)}{allowed}"
    if isinstance(e, events.Traced):
        return f"{count(e.ops, 'operation')}, traced in {e.seconds:.1f} s{'. ' + e.note if e.note else ''}"
    if isinstance(e, events.Reported):
        return e.summary
    if isinstance(e, events.Noted):
        return e.text
    if isinstance(e, events.Covered):
        return "\n".join([e.text, *(_region(r) for r in e.regions), *_left(e.uncovered)])
    if isinstance(e, events.Screened):
        ran = sum(ms is not None for ms in e.quick.values())
        return f"chose among {count(ran, 'candidate')} by a few calls of each in {e.seconds:.1f} s"
    if isinstance(e, events.TrialMeasured) and e.part:
        p, kind = e.part, e.time.kind
        text = f"    region {p['region']} {beside_pytorch(p, kind)}"
        graph = "; the whole module as one CUDA graph" if p.get("graph") else ""
        rest = "; what stays PyTorch compiled by Inductor" if p.get("rest") else ""
        return f"{text}; {count(p['programs'], 'program')} together {ms(p['covered_ms'], kind)}{graph}{rest}"
    if isinstance(e, events.Baseline):
        return f"  {e.name} ({e.cls}): {ms(e.time.ms, e.time.kind)}{'  ' + e.note if e.note else ''}"
    if isinstance(e, events.TrialProposed):
        how = LANGUAGES.get(e.language, e.language) if e.form == "kernel" else e.backend
        return f"trial {e.trial}  {e.cls} {how}  {e.change}\n    {e.why}"
    if isinstance(e, events.TrialCompiled):
        what = f"{e.how}{' (cached)' if e.cached else ''} in {e.seconds:.1f} s"
        used = ", ".join(_resources(r) for r in e.resources or [])
        return f"    {what}{': ' + used if used else ''}{'; ' + e.note if e.note else ''}"
    if isinstance(e, events.TrialValidated):
        why = f", {e.bound}" if e.bound else ""
        return f"    right: error {e.error:.1e}{_worst(e.checks)} (allowed {e.tolerance:.1e}{why}); {e.scope}"
    if isinstance(e, events.TrialJudged):
        return f"    {'* ' if e.best else ''}{MARK[e.kind]}{e.text}"
    if isinstance(e, events.TrialUntimed):
        return f"    {e.verdict}, without a time: {e.text}"
    if isinstance(e, events.TrialFailed):
        return f"    failed at {e.step}: {e.reason}"
    if isinstance(e, events.MemoryRead):
        return e.text if e.entries else None
    if isinstance(e, events.Asked):
        again = f", attempt {e.attempt}" if e.attempt > 1 else ""
        return f"step {e.path}: asks {e.role or f'for a {e.verb}'}{again}"
    if isinstance(e, events.Answered) and e.verb != "receive":
        return f"step {e.path}: {e.reason if e.refusal else f'answered in {e.seconds:.1f} s'}"
    if isinstance(e, events.Controlled):
        return f"[{e.action}]"
    if isinstance(e, events.SessionEnded):
        reason = with_covered(e.reason, [(c["kind"], c["names"]) for c in e.covered])
        place = f"line {e.line}: " if e.line and f"ine {e.line}" not in reason else ""
        return f"{e.state}: {place}{reason} ({count(e.trials, 'trial')}, {e.seconds:.0f} s)"
    return None


def _worst(checks: list[dict[str, Any]]) -> str:
    """The family of inputs with the largest error, if there are several."""
    worst = max(checks, key=lambda c: c["error"], default=None)
    if len(checks) < 2 or not worst["error"]:
        return ""
    return f" on {family_name(worst['family'])} inputs, the most of {len(checks)} rounds"


def beside_pytorch(part: dict[str, Any], kind: str) -> str:
    """A region's program beside PyTorch's own operations of the same region: `part` of events.TrialMeasured."""
    text, theirs = f"alone {ms(part['region_ms'], kind)}", part.get("region_eager_ms")
    if theirs is None:
        return text
    return f"{text}, PyTorch's own {ms(theirs, kind)} ({theirs / part['region_ms']:.2f}x)"


def _region(r: dict[str, Any]) -> str:
    lines = f", line{'s' if len(r['lines']) > 1 else ''} {', '.join(map(str, r['lines']))}" if r["lines"] else ""
    limits = ", ".join(f"{cls} {value:.3g} ms" for cls, value in r["limits"].items())
    return f"  region {r['number']}: {r['words']}{lines}; {r['share']['flops']:.1%} of the FLOPs; limit {limits}"


def _left(uncovered: list[dict[str, Any]]) -> list[str]:
    """One line for each reason why operations stay PyTorch."""
    return [f"  PyTorch: {reason}" for reason in dict.fromkeys(u["reason"] for u in uncovered)]


def _resources(r: dict[str, Any]) -> str:
    parts = [str(r.get("stage") or r.get("kernel") or "kernel")]
    if r.get("registers") is not None:
        parts.append(f"{r['registers']} registers")
    if r.get("shared_bytes") is not None:
        parts.append(f"{r['shared_bytes']:,} B shared")
    if r.get("spill_bytes"):
        parts.append(f"{r['spill_bytes']} B spilled")
    return " ".join(parts)


class Display:
    """Plain lines in a log; in a terminal also a last line with the current step and its start."""

    def __init__(self, out: TextIO = sys.stdout):
        self.out = out
        self.live = out.isatty()
        self.status: Any = None

    def __enter__(self) -> Display:
        if self.live:
            try:
                from rich.console import Console
            except ImportError:  # plain lines are enough
                self.live = False
            else:
                self.status = Console(file=self.out, highlight=False).status("Starting")
                self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.Progress):
            self._now(event.text)
            return
        if isinstance(event, events.TrialProposed):
            self._now(f"Trial {event.trial}: {event.change}")
        text = line(event)
        if text is not None:
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line."""
        if self.status is not None:
            self.status.console.print(text, markup=False)
        else:
            print(text, file=self.out, flush=True)

    def _now(self, text: str) -> None:
        if self.status is not None:
            self.status.update(f"{text} ...")


class Collected:
    """Every event of a run with its blobs, for the result as JSON. With a `writer` each event is recorded at once, and
    the first one with `command`, so that a reader can run the session again."""

    def __init__(self, writer: recording.Writer | None = None, command: str = "") -> None:
        self.rows: list[tuple[int, float, events.Event]] = []
        self.blobs: dict[str, str] = {}
        self.started = time.time()
        self._writer, self._command = writer, command

    def add(self, emitted: Any) -> None:
        seq, event = len(self.rows) + 1, emitted.event
        self.rows.append((seq, emitted.t, event))
        self.blobs.update(emitted.blobs)
        if self._writer is not None:
            if isinstance(event, events.SessionStarted):
                event = dataclasses.replace(event, device=event.device | {"command": self._command})
            self._writer.add(seq, emitted.t, event, emitted.blobs)

    @property
    def view(self) -> View:
        """The session so far (engine.session.fold.reduce)."""
        return fold(Row(seq, e.KIND, t, events.encode(e)) for seq, t, e in self.rows)

    @property
    def state(self) -> str:
        view = self.view
        return view.state if view.end is not None else "failed"

    def to_json(self) -> str:
        """{state, code, reason, closed, title, device, bounds_ms, covered, baselines, trials, best: class -> trial with
        its program}. A finished trial is its last event with its proposal's change, why, backend and class."""
        view, trials = self.view, []
        for trial in sorted(view.trials.values(), key=lambda t: t.number):
            if not trial.ended:
                continue
            about = {n: getattr(trial, n) for n in ("change", "why", "form", "language", "backend", "cls")}
            part = {"part": trial.measured.part} if trial.measured is not None and trial.measured.part else {}
            about |= {**dataclasses.asdict(trial.end), "outcome": trial.outcome}
            trials.append({"trial": trial.number, **about, **part})
        end = view.end
        return json.dumps(
            {
                "state": self.state,
                "code": end.code if end else "",
                "reason": end.reason if end else "",
                "closed": [dataclasses.asdict(c) for c in end.closed] if end else [],
                "title": view.title,
                "device": view.device,
                "bounds_ms": view.bounds,
                "covered": dataclasses.asdict(view.coverage) if view.coverage else None,
                "baselines": [dataclasses.asdict(b) for b in view.baselines],
                "trials": trials,
                "best": {
                    cls: {"trial": n, "program": self.blobs.get(view.trials[n].resolved, "")}
                    for cls, n in view.best.items()
                },
            },
            indent=1,
        )
