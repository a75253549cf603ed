"""A strategy without a search: it tries given candidates in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.strategies.api import Candidate, Script, Strategy, Try

AHEAD = 4  # candidates named to the device to be built ahead


class Given(Strategy):
    """`tries`: (candidate, its description in one line). It is not in the registry, because nobody chooses it by
    name."""

    name = "given"
    title = "Given"
    about = "Tries the programs that it is given."

    def __init__(self, tries: Sequence[tuple[Candidate, str]]):
        super().__init__()
        self.tries = list(tries)

    def run(self, problem: Any) -> Script:
        for i, (candidate, words) in enumerate(self.tries):
            upcoming = tuple(c for c, _ in self.tries[i + 1 : i + AHEAD])
            trial = yield Try(candidate, words, "given", upcoming=upcoming)
            if trial.state.stop and i + 1 < len(self.tries):
                return trial.state.stop
        return "Every program that was given was tried."

    def ahead(self, problem: Any) -> Sequence[Candidate]:
        return [candidate for candidate, _ in self.tries[:AHEAD]]
