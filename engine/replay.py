"""Recorded sessions under other stop rules: `python -m engine replay SESSIONS`.

A recording is folded (engine.session.fold.reduce) and becomes one sol.budget.Recorded per precision class. sol.replay
reads the results of a bench, and prints both. A class that cannot be replayed is named with its reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.llm.settings import Prices, prices_of
from engine.session import events, recording
from engine.session.fold.reduce import View, fold
from engine.words import count
from sol import replay
from sol.budget import Recorded, Trial
from sol.replay import Omission


@dataclass
class Charges:
    """What the models' turns cost in US dollars, by the ledger or else by `prices`. `free`: the models of the turns
    that neither has a price for, with the number of those turns."""

    prices: Prices | None = None
    turns: int = 0
    dollars: float = 0.0
    free: dict[str, int] = field(default_factory=dict)

    def of(self, turn: events.Answered) -> float:
        """US dollars of a turn; 0 without a price."""
        if not turn.tokens:
            return 0.0
        self.turns += 1
        cost = turn.cost
        if cost is None and self.prices is not None:
            cost = self.prices.cost(turn.model, turn.tokens)
        if cost is None:
            self.free[turn.model] = self.free.get(turn.model, 0) + 1
        self.dollars += cost or 0.0
        return cost or 0.0

    def __str__(self) -> str:
        if not self.turns:
            return "Money: no session asked a model."
        unpriced = sum(self.free.values())
        names = ", ".join(sorted(name or "a model without a name" for name in self.free))
        if unpriced == self.turns:
            return f"Money: no price was set for {count(unpriced, 'turn')} of {names}."
        table = f" by the price table of {self.prices.date}" if self.prices else ""
        paid = f"Money: the turns of models cost {self.dollars:.4g} US dollars{table}"
        return f"{paid}, without {count(unpriced, 'turn')} of {names}, which have no price." if unpriced else f"{paid}."


def spending(rows: Iterable[recording.Row], charges: Charges | None = None) -> dict[int, dict[str, float]]:
    """Trial -> what the session spent from the end of the trial before it to its own end: seconds, and a model's tokens
    and money (US dollars) as the ledger has them, or `charges` for turns without a price."""
    charges = charges or Charges()
    spent: dict[int, dict[str, float]] = {}
    since: dict[str, float] = {}
    last: float | None = None
    for row in rows:
        match row.event:
            case events.Progress(step="search") | events.Resumed():
                last = row.t
            case events.Answered() as a:
                for kind, value in (
                    ("tokens", sum(a.tokens.get(k, 0) for k in ("in", "out"))),
                    ("money", charges.of(a)),
                ):
                    if value:
                        since[kind] = since.get(kind, 0.0) + value
            case events.TrialJudged() | events.TrialUntimed() | events.TrialFailed() as end:
                spent[end.trial] = since | {"seconds": max(0.0, row.t - (row.t if last is None else last))}
                since, last = {}, row.t
    return spent


def recorded(
    view: View, name: str, spent: Mapping[int, Mapping[str, float]] = {}, omissions: list[Omission] | None = None
) -> list[Recorded]:
    """Every class of a session that has a limit, a baseline and a trial. `spent`: as `spending` returns it;
    `omissions` receives the other classes. A trial that failed, or whose time is no result, counts as a trial without
    gain. The owner's own trials and the session's last ones are no part of the search, nor is a raw kernel that could
    have no time."""
    trials: dict[str, list[Trial]] = {}
    for t in view.trials.values():
        if t.ended and t.untimed is None and t.of_search:
            trials.setdefault(t.cls, []).append(
                Trial(
                    t.judged.ms if view.counts(t) else None,
                    spent=dict(spent.get(t.number, {})),
                    t_sol_ms=view.bounds.get(t.roof) if t.roof != t.cls else None,
                )
            )
    sessions = []
    for cls, ended in trials.items():
        baseline = view.baseline(cls)
        if cls not in view.bounds or baseline is None or baseline.ms is None:
            why = "no_limit" if cls not in view.bounds else "no_baseline"
            if omissions is not None:
                omissions.append(Omission(f"{name} ({cls})", why))
            continue
        predicted = baseline.kind == "predicted"
        sessions.append(Recorded(f"{name} ({cls})", tuple(ended), view.bounds[cls], baseline.ms, predicted))
    if not trials and omissions is not None:
        omissions.append(Omission(name, "no_session"))
    return sessions


def read(path: Path, omissions: list[Omission] | None = None, charges: Charges | None = None) -> list[Recorded]:
    """The classes of one recording. Raises OSError, and ValueError for a file that is no recording."""
    try:
        rows = recording.read(path).rows
        return recorded(fold(rows), path.stem, spending(rows, charges), omissions)
    except (recording.RecordingError, UnicodeDecodeError) as e:
        raise ValueError(f"{path}: {e}") from None


def run(args: argparse.Namespace) -> str:
    """The text to print. Raises ValueError and OSError in words for a person."""
    omissions: list[Omission] = []
    charges = Charges(prices_of(args.prices or ""))
    sessions = replay.load(args.sessions, lambda path, others: read(path, others, charges), omissions)
    if args.cost == "money" and not charges.dollars:
        raise ValueError(f"no session recorded money. {charges} Give a table of prices with --prices FILE")
    return replay.show(args, sessions, omissions, str(charges))
