"""The fold of a session's log: events in, a typed view out, for the page, the API, lists, exports and reports.

    view = fold(rows)                    # of a whole log: rows of {seq, kind, t, data}
    view.apply(seq, kind, t, data)       # or event by event, as they happen

`View` is incremental and applies each event once. It skips an event that it has applied and rejects one whose
predecessor is missing (`apply` returns False), so a reload, a reconnect and a replay give the same view. A log may be
cut at any event and may come from a newer version: an unknown kind or field changes only `warnings`.

Rules that every reader shares; they are stated only here:
- The first event counts for each of a trial's steps, and for its end (judged, untimed or failed).
- A trial is the best of its class if the engine marked it (`best`), its verdict counts (clean or minor), and it is
faster than PyTorch in the class (older engines did not check that) and than the previous best. The engine marks only a
trial that does all the work or is allowed to omit some (`algebraic`).
- `headline` is the best of the class with the largest speedup over PyTorch.
- An owner's own trial may become the best; it does not count against the budget.

The page's counterpart is static/js/session/reduce.js. A new kind of event needs a handler in `_HANDLERS` of both files
or an entry in IGNORED of both; tests/browser/test_fold.py compares the two. The web process loads this module, so it
imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.session.fold import view as parts
from engine.session.fold.readers import Object, flag, number, numbers, obj, objects, read, text, texts, whole
from engine.session.fold.view import Trial, cause_of


@dataclass
class View:
    """A session at one point of its log. `best`: class -> number of its best trial; `fastest`: the same, whether or not
    the trial is faster than PyTorch; `figures_seq`: the last event that changes a figure; `module_note`: what a person
    should know of the module as it was traced."""

    seq: int = 0
    started_t: float | None = None
    last_t: float | None = None
    figures_seq: int = 0
    title: str = ""
    source: str = ""
    source_kind: str = ""
    device: Object = field(default_factory=dict)
    strategy: str = ""
    classes: list[str] = field(default_factory=list)
    budget: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    algebraic: bool = False
    begun: bool = False
    paused: bool = False
    progress: parts.Progress | None = None
    key: parts.Key | None = None
    graph: str = ""
    operations: int | None = None
    module_note: str = ""
    report: str = ""
    bounds: dict[str, float] = field(default_factory=dict)
    sentence: str = ""
    coverage: parts.Coverage | None = None
    notes: list[parts.Note] = field(default_factory=list)
    baselines: list[parts.Baseline] = field(default_factory=list)
    screened: list[parts.Screened] = field(default_factory=list)
    trials: dict[int, Trial] = field(default_factory=dict)
    best: dict[str, int] = field(default_factory=dict)
    fastest: dict[str, int] = field(default_factory=dict)
    stretches: list[parts.Stretch] = field(default_factory=list)
    controls: list[parts.Control] = field(default_factory=list)
    resumed: list[parts.Resumed] = field(default_factory=list)
    end: parts.End | None = None
    warnings: list[parts.Warning] = field(default_factory=list)

    # ---- events in ----

    def apply(self, seq: int, kind: str, t: Any, data: Any) -> bool:
        """Apply one event. Return False, and change nothing, if an earlier event is missing."""
        if seq <= self.seq:
            return True
        if seq != self.seq + 1:
            return False
        self.seq = seq
        at = number(t)
        self.started_t = at if self.started_t is None else self.started_t
        self.last_t = at if at is not None else self.last_t
        if kind in IGNORED:
            return True
        handler = _HANDLERS.get(kind)
        if handler is None:
            self._warn("unknown_kind", kind)
        elif self.end is not None:
            self._warn("after_end", kind)
        elif not isinstance(data, dict):
            self._warn("unreadable", kind)
        elif code := handler(self, data, at):
            self._warn(code, kind)
        elif kind in DRAWN:
            self.figures_seq = seq
        return True

    def _warn(self, code: str, kind: str) -> None:
        known = next((w for w in self.warnings if (w.code, w.kind) == (code, kind)), None)
        if known is not None:
            known.count += 1
        else:
            self.warnings.append(parts.Warning(code, kind, self.seq))

    # ---- derived values ----

    @property
    def state(self) -> str:
        """waiting | running | paused | done | stopped | refused | failed"""
        if self.end is not None:
            return self.end.state or "done"
        if not self.begun:
            return "waiting"
        return "paused" if self.paused else "running"

    @property
    def proposed(self) -> list[Trial]:
        return [t for t in self.trials.values() if "proposed" in t.steps]

    @property
    def used(self) -> int:
        """Trials that count against the budget."""
        return sum(t.of_search for t in self.proposed)

    @property
    def under_way(self) -> Trial | None:
        """The most recent trial without an end."""
        return next((t for t in reversed(self.trials.values()) if not t.ended), None)

    @property
    def headline(self) -> Trial | None:
        """The best trial by its speedup over PyTorch in its class; None if PyTorch stays in every class."""
        judged = [self.trials[n] for n in self.best.values()]
        return max(judged, key=lambda t: (t.judged.speedup, -t.number), default=None)

    @property
    def shown(self) -> Trial | None:
        """The trial that represents the session: its headline or, if PyTorch stays, the trial that came closest to
        PyTorch."""
        judged = [self.trials[n] for n in self.fastest.values()]
        return self.headline or max(judged, key=lambda t: (t.judged.speedup, -t.number), default=None)

    def counts(self, trial: Trial) -> bool:
        """Return True if the trial's time is a result: its verdict counts, and what it omits is allowed."""
        j = trial.judged
        return j is not None and j.counts and (j.best or self.algebraic or not j.algebraic) and j.ms is not None

    def baseline(self, cls: str) -> parts.Baseline | None:
        """PyTorch's plainest time in a class, the first one in the log."""
        return next((b for b in self.baselines if b.cls == cls), None)

    def beside(self, cls: str) -> parts.Baseline | None:
        """PyTorch's time that a class is compared with: in the class itself or, if there is none, in another class."""
        if (own := self.baseline(cls)) is not None:
            return own
        names = {t.judged.baseline for t in self.trials.values() if t.judged is not None and t.judged.cls == cls}
        return next((b for b in self.baselines if b.name in names), None)

    @property
    def all_classes(self) -> list[str]:
        """The allowed classes, then those in which only PyTorch was timed."""
        return list(dict.fromkeys([*self.classes, *(b.cls for b in self.baselines)]))

    # ---- as JSON ----


def fold(rows: Iterable[Mapping[str, Any] | Any], up_to: int | None = None) -> View:
    """The view of a log, or of its events up to `up_to`. `rows`: {seq, kind, t, data}, as mappings or objects, in any
    order. The fold ends at the first gap."""
    view = View()
    mappings = [r if isinstance(r, Mapping) else {n: getattr(r, n) for n in ("seq", "kind", "t", "data")} for r in rows]
    for row in sorted(mappings, key=lambda r: r["seq"]):
        if (up_to is not None and row["seq"] > up_to) or not view.apply(row["seq"], row["kind"], row["t"], row["data"]):
            break
    return view


# ---- one handler per kind: returns None, or the code of a warning ----


def _started(v: View, d: Object, t: float | None) -> str | None:
    if v.begun:
        return "repeated"
    v.begun = True
    v.title, v.source, v.source_kind = text(d.get("title")), text(d.get("source")), text(d.get("source_kind"))
    v.device, v.strategy, v.classes = obj(d.get("device")), text(d.get("strategy")), texts(d.get("classes"))
    v.budget, v.algebraic = numbers(d.get("budget")), flag(d.get("algebraic"))
    seed = d.get("seed")
    v.seed = seed if isinstance(seed, int) else 0
    return None


def _progress(v: View, d: Object, t: float | None) -> None:
    v.progress = read(parts.Progress, d, t=t)


def _traced(v: View, d: Object, t: float | None) -> None:
    v.graph, v.operations = text(d.get("graph")), whole(d.get("ops"))
    v.title, v.module_note = text(d.get("title")) or v.title, text(d.get("note"))


def _reported(v: View, d: Object, t: float | None) -> None:
    v.report, v.bounds, v.sentence = text(d.get("report")), numbers(d.get("bounds")), text(d.get("summary"))


def _covered(v: View, d: Object, t: float | None) -> None:
    v.coverage = parts.Coverage(
        [read(parts.Region, r) for r in objects(d.get("regions"))],
        [read(parts.Uncovered, u) for u in objects(d.get("uncovered"))],
        numbers(d.get("share")), text(d.get("text")),
    )  # fmt: skip


def _noted(v: View, d: Object, t: float | None) -> None:
    v.notes.append(read(parts.Note, d))


def _baseline(v: View, d: Object, t: float | None) -> None:
    """A time that is taken again (torch.compile's, known from another run) replaces the first one at its place."""
    time = obj(d.get("time"))
    baseline = read(parts.Baseline, d, ms=number(time.get("ms")), kind=text(time.get("kind")))
    at = [i for i, b in enumerate(v.baselines) if (b.name, b.cls) == (baseline.name, baseline.cls)]
    if at:
        v.baselines[at[0]] = baseline
    else:
        v.baselines.append(baseline)


def _screened(v: View, d: Object, t: float | None) -> None:
    ran = sum(number(ms) is not None for ms in obj(d.get("quick")).values())
    v.screened.append(read(parts.Screened, d, ran=ran))


def _step(name: str, take: Callable[[View, Trial, Object], None]) -> Callable[[View, Object, float | None], str | None]:
    """The handler of an event that is a step of a trial."""

    def handler(v: View, d: Object, t: float | None) -> str | None:
        n = whole(d.get("trial"))
        if n is None:
            return "unreadable"
        known = n in v.trials and (name == "proposed" or "proposed" in v.trials[n].steps)
        trial = v.trials.setdefault(n, Trial(n))
        if trial.ended or name in trial.steps:
            return "repeated"
        trial.steps[name] = t
        if name not in ("untimed", "failed"):
            trial.step = name
        take(v, trial, d)
        return None if known or name == "proposed" else "not_proposed"

    return handler


_PROPOSED = (
    "cls", "roof", "backend", "program", "change", "why", "by", "structure", "settings", "form", "language", "entry",
    "rest",
)  # fmt: skip


def _proposed(v: View, trial: Trial, d: Object) -> None:
    for name in _PROPOSED:
        setattr(trial, name, text(d.get(name)))
    trial.parent, trial.predicted_ms = whole(d.get("parent")), number(d.get("predicted_ms"))


def _checked(v: View, trial: Trial, d: Object) -> None:
    trial.resolved, trial.stages, trial.tried = text(d.get("resolved")), objects(d.get("stages")), texts(d.get("tried"))


def _generated(v: View, trial: Trial, d: Object) -> None:
    trial.sources, trial.refused = obj(d.get("sources")), obj(d.get("refused"))
    trial.inputs, trial.part_of = objects(d.get("inputs")), whole(d.get("region"))


def _compiled(v: View, trial: Trial, d: Object) -> None:
    trial.compiled = d


def _validated(v: View, trial: Trial, d: Object) -> None:
    trial.validated = d


def _measured(v: View, trial: Trial, d: Object) -> None:
    time = obj(d.get("time"))
    trial.measured = read(parts.Measured, d, ms=number(time.get("ms")), kind=text(time.get("kind")))


def _judged(v: View, trial: Trial, d: Object) -> None:
    trial.judged = j = read(parts.Judged, d)
    trial.cls = trial.cls or j.cls
    if not v.counts(trial) or j.speedup is None:
        return
    before = v.fastest.get(j.cls)
    if before is None or j.ms < v.trials[before].judged.ms:
        v.fastest[j.cls] = trial.number
    before = v.best.get(j.cls)
    if j.best and j.speedup > 1 and (before is None or j.ms < v.trials[before].judged.ms):
        v.best[j.cls] = trial.number
    if (head := v.headline) is None:
        return
    if not v.stretches or v.stretches[-1].baseline != head.judged.baseline:
        v.stretches.append(parts.Stretch(head.number, head.judged.baseline, head.judged.speedup))
    v.stretches[-1].speedup = head.judged.speedup


def _untimed(v: View, trial: Trial, d: Object) -> None:
    trial.untimed = read(parts.Untimed, d)
    trial.cls = trial.cls or trial.untimed.cls


def _failed(v: View, trial: Trial, d: Object) -> None:
    code = text(d.get("code"))
    trial.failed = read(parts.Failed, d, cause=text(d.get("cause")) or cause_of(code))


def _controlled(v: View, d: Object, t: float | None) -> None:
    command = read(parts.Control, d, t=t)
    v.controls.append(command)
    if command.action in ("pause", "resume"):
        v.paused = command.action == "pause"
    elif command.action == "budget":
        v.budget = {**v.budget, **numbers(command.data)}
    elif command.action == "profile" and (trial := v.trials.get(whole(command.data.get("trial")))) is not None:
        trial.profile = parts.Profile("asked", t)


def _profiled(v: View, d: Object, t: float | None) -> str | None:
    n = whole(d.get("trial"))
    trial = v.trials.get(n)
    if n is None or trial is None:
        return "unreadable" if n is None else "not_proposed"
    asked = trial.profile.asked if trial.profile is not None else None
    state = "ready" if text(d.get("text")) else "refused"
    trial.profile = read(parts.Profile, d, state=state, asked=asked, t=t)
    return None


def _key_wanted(v: View, d: Object, t: float | None) -> None:
    v.key = read(parts.Key, d)


def _key_received(v: View, d: Object, t: float | None) -> None:
    v.key = None


def _resumed(v: View, d: Object, t: float | None) -> None:
    v.key = None  # the engine that asked for it is gone
    v.resumed.append(read(parts.Resumed, d, t=t))


def _ended(v: View, d: Object, t: float | None) -> None:
    closed = [read(parts.Closed, c) for c in objects(d.get("closed"))]
    v.end = read(parts.End, d, closed=closed, t=t)
    v.paused, v.key = False, None


_HANDLERS: dict[str, Callable[[View, Object, float | None], str | None]] = {
    "session.started": _started,
    "progress": _progress,
    "traced": _traced,
    "reported": _reported,
    "covered": _covered,
    "noted": _noted,
    "baseline": _baseline,
    "screened": _screened,
    "trial.proposed": _step("proposed", _proposed),
    "trial.checked": _step("checked", _checked),
    "trial.generated": _step("generated", _generated),
    "trial.compiled": _step("compiled", _compiled),
    "trial.validated": _step("validated", _validated),
    "trial.measured": _step("measured", _measured),
    "trial.judged": _step("judged", _judged),
    "trial.untimed": _step("untimed", _untimed),
    "trial.failed": _step("failed", _failed),
    "trial.profiled": _profiled,
    "controlled": _controlled,
    "resumed": _resumed,
    "key.wanted": _key_wanted,
    "key.received": _key_received,
    "session.ended": _ended,
}
# Kinds that do not change the view: for replaying a strategy's script, and its memory of other problems.
IGNORED = frozenset({
    "memory.read", "memory.written", "turn.asked", "turn.said", "turn.answered", "script.shown", "script.advanced",
})  # fmt: skip
# Kinds that change a figure.
DRAWN = frozenset({
    "reported", "covered", "baseline", "trial.checked", "trial.judged", "trial.untimed", "trial.failed", "controlled",
    "session.ended",
})  # fmt: skip
KINDS = frozenset(_HANDLERS) | IGNORED
