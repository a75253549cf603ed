"""One session of a comparison, advanced trial by trial.

A session is a generator, so many can be held open in one thread and advanced in turns. While one is held, nothing of
it runs that costs tokens or evaluations: `step` returns at the end of a trial, before the strategy is sent its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.bench.compare.request import Cell
from engine.llm.ledger import Ledger, ledger
from engine.session import events
from engine.session import runner as sessions
from engine.session.script.steps import Emitted
from engine.session.spec import SessionSpec
from engine.strategies import registry

UNIT_ENDS = events.ENDS


class Playing:
    """`evaluations`: the budget of this session, which may be lowered while it runs. `memory`: what its strategy knows
    of other problems, "" for nothing. A session teaches this machine nothing; `lesson` is what it would teach."""

    def __init__(
        self, cell: Cell, spec: SessionSpec, device: Any, handlers: Mapping[str, Any], evaluations: int,
        memory: str = "", tracer: Callable[..., Any] | None = None,
    ):  # fmt: skip
        self.cell, self.spec, self.device, self.evaluations = cell, spec, device, evaluations
        self.emitted: list[Emitted] = []
        self.blobs: dict[str, str] = {}
        self.ended: events.SessionEnded | None = None
        self.used = 0  # evaluations
        self._strategy = registry.available()[spec.strategy](spec.options)
        self._commands: list[tuple[str, dict[str, Any]]] = []
        self._proposed, self._closing = 0, False
        self._session = sessions.run(
            spec, device=device, control=self._control, local_user=True, teaches=False, memory=memory,
            handlers=handlers, strategy=self._strategy, tracer=tracer,
        )  # fmt: skip

    def step(self) -> bool:
        """Go on until a trial ended. Returns False once the session has ended."""
        for emitted in self._session:
            self._add(emitted)
            if isinstance(emitted.event, UNIT_ENDS):
                return True
        return False

    def finish(self) -> None:
        """Go on to the end, with no further trial: the session ends as one whose budget is used up. One that got no
        trial is stopped, because the least budget of a session is one."""
        self.evaluations = min(self.evaluations, self.used)
        if self.used:
            self._limit()
        else:
            self._commands.append(("stop", {}))
        while self.step():
            continue

    def close(self) -> None:
        """End a session that is not needed any more, with its processes."""
        self._session.close()

    @property
    def ledger(self) -> Ledger:
        return ledger([e.event for e in self.emitted])

    @property
    def tokens(self) -> int:
        """In and out, so far."""
        return sum(e.at_most(0) for e in self.ledger.entries)

    @property
    def lesson(self) -> str:
        """What a strategy led by a model learned for other problems; "" for nothing."""
        s = self._strategy
        return s.lesson(None, ()) if s.remembers and s.asks and self.ended is not None else ""

    # ---- inside ----

    def _add(self, emitted: Emitted) -> None:
        self.emitted.append(emitted)
        self.blobs |= emitted.blobs
        match emitted.event:
            case events.TrialProposed(by="strategy"):
                self.used += 1
                self._proposed += 1
            case events.Screened(quick=quick):
                self.used += len(quick) if self.device.screens else 0
            case events.SessionEnded() as end:
                self.ended = end
        self._limit()

    def _limit(self) -> None:
        """Once the evaluations are used up, allow no further trial."""
        if self.used >= self.evaluations and not self._closing:
            self._closing = True
            self._commands.append(("budget", {"trials": max(1, self._proposed)}))
        elif self._closing and self.used >= 2 * self.evaluations + 8:  # a script that goes on screening
            self._commands.append(("stop", {}))

    def _control(self) -> list[tuple[str, dict[str, Any]]]:
        commands, self._commands = self._commands, []
        return commands
