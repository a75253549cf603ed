"""A kind of place and the line for it: a number of pieces of work at a time, by fair share, then by age."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from engine.executors import Cancelled, Share

logger = logging.getLogger(__name__)

POLL = 0.05  # seconds between two looks whether waiting work was cancelled
HALF_LIFE = 60.0  # seconds after which a use of the place counts half


class Turn:
    """See engine.executors.Turn."""

    def __init__(self, line: Line, share: Share, number: int):
        self.line, self.share, self.number = line, share, number
        self.place, self.waiting = line.name, True
        self._since, self._until = time.monotonic(), 0.0
        self.began = 0.0

    @property
    def waited(self) -> float:
        return (time.monotonic() if self.waiting else self._until) - self._since

    def ahead(self) -> int:
        return self.line.ahead(self)

    def starts(self) -> None:
        self.waiting, self._until = False, time.monotonic()
        self.began = self._until


class Line:
    """`places`: pieces of work at a time. `patience`: seconds after which a piece of work no longer counts against the
    places, so that a module that never ends delays nobody; None for a place that has one user whatever happens."""

    def __init__(self, name: str, places: int, patience: float | None = None):
        self.name, self.places, self.patience = name, places, patience
        self._changed = Condition()
        self._waiting: list[Turn] = []
        self._inside: list[Turn] = []
        self._used: dict[str, tuple[float, float]] = {}  # account -> (seconds of use, when that was computed)
        self._number = itertools.count()

    def turn(self, share: Share) -> Turn:
        """A turn that waits from now on."""
        turn = Turn(self, share, next(self._number))
        with self._changed:
            self._waiting.append(turn)
        return turn

    @contextmanager
    def hold(self, turn: Turn, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Turn]:
        """Wait for the place, and keep it until the block ends. Raises Cancelled."""
        self._enter(turn, cancelled)
        try:
            yield turn
        finally:
            self._leave(turn)

    def ahead(self, turn: Turn) -> int:
        """Pieces of work before this one, with those that have the place now."""
        with self._changed:
            if turn not in self._waiting:
                return 0
            order = self._order()
            return order.index(turn) + len(self._counted())

    def busy(self) -> int:
        """Pieces of work that have the place now, with those that no longer count."""
        with self._changed:
            return len(self._inside)

    # ---- inside ----

    def _enter(self, turn: Turn, cancelled: Callable[[], bool]) -> None:
        with self._changed:
            while len(self._counted()) >= self.places or self._order()[0] is not turn:
                self._changed.wait(POLL)
                if cancelled():
                    self._waiting.remove(turn)
                    self._changed.notify_all()
                    raise Cancelled
            self._waiting.remove(turn)
            turn.starts()
            self._inside.append(turn)
            self._changed.notify_all()

    def _leave(self, turn: Turn) -> None:
        with self._changed:
            self._inside.remove(turn)
            now = time.monotonic()
            logger.debug(
                "%s used by %s for %.3f s until %.3f", self.name, turn.share.session, now - turn.began, time.time()
            )
            for account in turn.share.levels:
                self._used[account] = self._use(account, now) + now - turn.began, now
            self._used = {a: u for a, u in self._used.items() if self._use(a, now) > 1e-3}
            self._changed.notify_all()

    def _counted(self) -> list[Turn]:
        if self.patience is None:
            return self._inside
        late = time.monotonic() - self.patience
        return [turn for turn in self._inside if turn.began > late]

    def _order(self) -> list[Turn]:
        """The waiting turns in the order in which they get the place. What runs now counts as used."""
        now = time.monotonic()
        running: dict[str, float] = {}
        for turn in self._inside:
            for account in turn.share.levels:
                running[account] = running.get(account, 0.0) + now - turn.began + 1e-3

        def key(turn: Turn) -> tuple:
            used = (self._use(account, now) + running.get(account, 0.0) for account in turn.share.levels)
            return *used, turn.share.since, turn.number

        return sorted(self._waiting, key=key)

    def _use(self, account: str, now: float) -> float:
        seconds, at = self._used.get(account, (0.0, now))
        return seconds * 0.5 ** ((now - at) / HALF_LIFE)
