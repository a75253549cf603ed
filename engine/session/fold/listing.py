"""A session's view as plain data: complete, for comparisons, and the short form for lists."""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.session.fold.readers import Object
from engine.session.fold.reduce import View
from engine.session.fold.view import Trial

SHAPE = 2  # version of `listing`: when it changes, a migration folds the logs of a database again


def plain(view: View) -> dict[str, Any]:
    """The whole view with its derived values as plain data, equal to `plain` of static/js/session/reduce.js. It omits
    the seed, which may have more bits than a browser's numbers."""
    data = _plain(view)
    del data["seed"]
    data["trials"] = [_plain(t) | {"outcome": t.outcome, "region": t.region} for t in view.trials.values()]
    headline, shown, under_way = view.headline, view.shown, view.under_way
    return data | {
        "state": view.state, "used": view.used, "all_classes": view.all_classes,
        "headline": headline.number if headline else None, "shown": shown.number if shown else None,
        "under_way": under_way.number if under_way else None,
    }  # fmt: skip


def listing(view: View) -> dict[str, Any]:
    """The entry of a session in a list, and the API's `summary`. The database stores it in the session's row.

    {shape, state, device, strategy, classes, algebraic, budget, started, paused, progress, trials, failed, regions,
    bounds, sentence, baselines: {class: {name, ms, kind}}, best, by_class, fastest, end, warnings}; `best` is one
    of `by_class`: {trial, cls, kind, ms, speedup, baseline, gap, sol_score, verdict}, or None."""
    headline = view.headline
    baselines: dict[str, Object] = {}
    for b in view.baselines:
        baselines.setdefault(b.cls, {"name": b.name, "ms": b.ms, "kind": b.kind})
    return {
        "shape": SHAPE, "state": view.state, "device": view.device, "strategy": view.strategy,
        "classes": view.classes, "algebraic": view.algebraic, "budget": view.budget, "started": view.started_t,
        "paused": view.paused, "progress": view.progress.text if view.progress and not view.end else "",
        "trials": len(view.proposed), "failed": sum(t.failed is not None for t in view.trials.values()),
        "regions": len(view.coverage.regions) if view.coverage else 0, "bounds": view.bounds,
        "sentence": view.sentence, "baselines": baselines, "best": _short(headline) if headline else None,
        "by_class": {cls: _short(view.trials[n]) for cls, n in view.best.items()},
        "fastest": {cls: _short(view.trials[n]) for cls, n in view.fastest.items()},
        "end": _plain(view.end), "warnings": len(view.warnings),
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Dataclasses as dicts. Values that come from the log are shared, not copied."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(v) for v in value] if isinstance(value, list) else value


_SHORT = ("cls", "kind", "ms", "speedup", "baseline", "gap", "sol_score", "verdict")


def _short(trial: Trial) -> Object:
    return {"trial": trial.number, **{name: getattr(trial.judged, name) for name in _SHORT}}
