"""The search of the second stage: coordinate descent with random restarts. Ours, as the study's tuner is unpublished.

    first    the starts of the roles `test` and `tune`, then random ones: the screening
    descend  from the fastest one: a parameter at a time, the nearest larger values while they are faster, then the
             smaller ones; a pass without gain is a local optimum
    restart  a random configuration, and descend from there, until the evaluations are used

Only allowed configurations are ever asked for, each once. Chance comes from the session's seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.strategies.two_stage.space import Config, Space


@dataclass(frozen=True)
class Step:
    """A configuration to evaluate. `phase`: screening | descent | restart; `why`: one line; `base`: the configuration
    from which it differs in one parameter, or None."""

    config: Config
    phase: str
    why: str
    base: Config | None = None


Walk = Generator[Step, float | None, None]  # it is sent milliseconds, None if the configuration has no time


class Descent:
    """One search. `starts`: evaluated first; `order`: names of parameters, the most promising first; `known`: times of
    configurations that need no evaluation (None: it failed); `screened`: random starts in the screening."""

    def __init__(
        self, space: Space, rng: random.Random, starts: Iterable[tuple[Config, str]] = (), order: Sequence[str] = (),
        known: Mapping[Config, float | None] | None = None, screened: int = 2,
    ):  # fmt: skip
        self.space, self.rng, self.screened = space, rng, screened
        self.ms: dict[Config, float | None] = dict(known or {})
        self.starts = [(c, why) for c, why in starts if space.allows(c)]
        listed = [space.names.index(n) for n in dict.fromkeys(order) if n in space.names]
        self.places = [*listed, *(i for i in range(len(space.names)) if i not in listed)]

    @property
    def best(self) -> Config | None:
        """The fastest configuration; the first of equals."""
        timed = [c for c, ms in self.ms.items() if ms is not None]
        return min(timed, key=lambda c: self.ms[c], default=None)

    def walk(self) -> Walk:
        """Every step of the search, until no allowed configuration is left."""
        for config, why in self.starts:
            yield from self._evaluate(Step(config, "screening", why))
        for _ in range(self.screened):
            yield from self._random("screening")
        base = self.best
        while True:
            if base is not None:
                yield from self._descend(base)
            if not self._left():
                return
            base = yield from self._random("restart")

    def _descend(self, base: Config) -> Walk:
        """From a configuration to a local optimum."""
        better = True
        while better:
            better = False
            for place in self.places:
                for row in self.space.beside(base, place):
                    for config in row:
                        why = f"{self.space.names[place]} {base[place]} -> {config[place]}"
                        yield from self._evaluate(Step(config, "descent", why, base))
                        if not self._time(config) < self._time(base):
                            break
                        base, better = config, True

    def _random(self, phase: str) -> Generator[Step, float | None, Config | None]:
        """One random configuration that was not evaluated; it, or None if none is left or it has no time."""
        left = self._left()
        if not left:
            return None
        config = self.rng.choice(left)
        yield from self._evaluate(Step(config, phase, "random"))
        return config if self.ms[config] is not None else None

    def _left(self) -> list[Config]:
        return [c for c in self.space.allowed if c not in self.ms]

    def _evaluate(self, step: Step) -> Walk:
        if step.config not in self.ms:
            self.ms[step.config] = yield step

    def _time(self, config: Config) -> float:
        ms = self.ms.get(config)
        return math.inf if ms is None else ms


__all__ = ["Descent", "Step"]
