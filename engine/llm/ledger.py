"""What a session's turns cost: tokens, money and seconds, by turn and by role, from the events of its log.

    account = ledger(events).total          # of the whole session
    ledger(events).roles["triage"].cost     # US dollars, None if no turn of the role has a price

A lost attempt (its engine died, or a stop came before the endpoint's counts) is booked as one of unknown cost: nobody
can say how much of it the endpoint counts. It is never added up as zero without a mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.session import events


@dataclass(frozen=True)
class Entry:
    """One attempt at a turn of a model. `status`: answered | open (under way) | unknown (its cost is not known).
    `tokens`: {in, out, cached, reasoning}; `prices`: the date of the price table, "" without a price."""

    path: str
    role: str
    attempt: int
    status: str
    model: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    estimated: bool = False
    cost: float | None = None
    prices: str = ""
    seconds: float = 0.0
    retries: int = 0
    refusal: str = ""

    def at_most(self, tokens_a_call: int) -> int:
        """Tokens, in and out, that the attempt used, or the most that it can have used."""
        if self.status == "answered":
            return self.tokens.get("in", 0) + self.tokens.get("out", 0)
        return self.tokens.get("in", 0) + tokens_a_call


@dataclass
class Account:
    """A sum of entries. `unknown`: attempts of unknown cost, which no figure contains; `estimated`: turns whose tokens
    are estimates; `unpriced`: turns with tokens and without a price; `prices`: the dates of the price tables."""

    turns: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    cost: float | None = None
    seconds: float = 0.0
    retries: int = 0
    refused: int = 0
    unknown: int = 0
    estimated: int = 0
    unpriced: int = 0
    prices: set[str] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        if entry.status == "open":
            return
        if entry.status == "unknown":
            self.unknown += 1
            self.seconds += entry.seconds
            return
        self.turns += 1
        self.tokens.update(entry.tokens)
        self.seconds += entry.seconds
        self.retries += entry.retries
        self.refused += bool(entry.refusal)
        self.estimated += entry.estimated
        if entry.cost is not None:
            self.cost = (self.cost or 0.0) + entry.cost
            self.prices.add(entry.prices)
        elif entry.tokens:
            self.unpriced += 1


@dataclass
class Ledger:
    entries: list[Entry]
    total: Account
    roles: dict[str, Account]


def entries(log: Iterable[events.Event]) -> list[Entry]:
    """Every attempt at a turn of a model, in the order of the log. Other events are ignored."""
    log = list(log)
    answers = {e.path: e for e in log if isinstance(e, events.Answered)}
    asked = [e for e in log if isinstance(e, events.Asked) and e.verb == "ask"]
    last = {e.path: e.attempt for e in asked}
    return [_entry(e, answers.get(e.path), e.attempt == last[e.path]) for e in asked]


def ledger(log: Iterable[events.Event]) -> Ledger:
    """The account of a log, or of any beginning of it."""
    booked = entries(log)
    total, roles = Account(), {}
    for entry in booked:
        total.add(entry)
        roles.setdefault(entry.role, Account()).add(entry)
    return Ledger(booked, total, roles)


def _entry(asked: events.Asked, answer: events.Answered | None, is_last: bool) -> Entry:
    estimate = {} if asked.tokens_in is None else {"in": asked.tokens_in}
    if not is_last:
        return Entry(asked.path, asked.role, asked.attempt, "unknown", asked.model, estimate)
    if answer is None:
        return Entry(asked.path, asked.role, asked.attempt, "open", asked.model, estimate)
    lost = answer.refusal in ("lost", "stopped") and not answer.tokens
    return Entry(
        asked.path, asked.role, asked.attempt, "unknown" if lost else "answered", answer.model or asked.model,
        estimate if lost else dict(answer.tokens), answer.estimated, answer.cost, answer.prices, answer.seconds,
        answer.retries, answer.refusal,
    )  # fmt: skip
