"""One budget over all problems of an arm: which session gets the next trial.

    in_turn   the first trial of every problem, then the second of every problem, and so on
    sol       by the expected saving (sol.schedule), so problems near their limit come last

Sessions are held open and advanced trial by trial (engine.bench.compare.play). On a GPU the data of all problems stays
on it meanwhile, so choose problems that fit together.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.compare.play import Playing
from engine.session import events
from sol.schedule import Progress, next_turn


def spend(playing: Sequence[Playing], evaluations: int, tokens: int, order: str, eps: float, window: int) -> list[str]:
    """Play the sessions until their common budget is used up or each has ended. Returns the problems in the order of
    their turns. A session that ends by itself frees its share."""
    turns: list[str] = []
    going = list(playing)
    while going:
        left = evaluations - sum(p.used for p in playing)
        if left <= 0 or sum(p.tokens for p in playing) >= tokens:
            break
        chosen = _next(going, order, eps, window)
        if chosen is None:
            break
        turns.append(chosen.cell.problem)
        chosen.evaluations = min(chosen.evaluations, chosen.used + left)
        if not chosen.step():
            going.remove(chosen)
    for p in going:
        p.finish()
    return turns


def _next(going: Sequence[Playing], order: str, eps: float, window: int) -> Playing | None:
    if order == "in_turn":
        return min(going, key=lambda p: p.used)
    states = {p: progress(p) for p in going}
    unknown = [p for p, state in states.items() if state is None]
    if unknown:  # its limit and PyTorch's time are known after its first trial
        return unknown[0]
    turn = next_turn([state for state in states.values() if state is not None], eps, window)
    return (
        None
        if turn is None
        else next(p for p, state in states.items() if state is not None and state.name == turn.name)
    )


def progress(p: Playing) -> Progress | None:
    """What the scheduler reads of a session. None before its first trial ended."""
    times: list[float | None] = []
    limit, pytorch, beside = None, {}, ""  # PyTorch's times, and which one the class is compared with
    cls = p.spec.classes[0]
    for e in (e.event for e in p.emitted):
        match e:
            case events.Reported(bounds=bounds):
                limit = bounds.get(cls)
            case events.Baseline(time=time):
                pytorch[e.name] = time.ms
                beside = beside or (e.name if e.cls == cls else "")
            case events.TrialJudged():
                times.append(e.ms if e.verdict in ("clean", "minor") else None)
                beside = beside or e.baseline  # PyTorch has no fp8, for example
            case events.TrialFailed() | events.TrialUntimed():
                times.append(None)
    baseline = pytorch.get(beside) or min(pytorch.values(), default=None)
    if not times:
        return None if p.ended is None else Progress(p.cell.problem, 0.0, 0.0, (), 0)
    if limit is None or baseline is None:  # of the class: no saving can be expected, so it gets what no other one wants
        limit = baseline = 0.0
    return Progress(p.cell.problem, limit, baseline, tuple(times), len(times) + max(0, p.evaluations - p.used))
