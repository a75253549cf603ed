"""The first stage, OptiML-G: a mixture of strategy proposals, and a first candidate written from the chosen one.

A proposal is a strategy in words with a weight. One is chosen by the weights (drawn with the session's seed, or the
heaviest). If its candidate is not right, the model reads why and writes it once more; after that the next proposal by
weight has its turn, and so on in a circle, until a candidate is right or no trial is left. A candidate that repeats a
trial is not tried again. How the mixture is drawn and in which order proposals follow is ours.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from engine.strategies.api import Finished, Show, Try, Verb
from engine.strategies.optiml import guardrail
from engine.strategies.optiml.replies import Proposal, Proposals
from engine.strategies.writing import FIRST, Writer

if TYPE_CHECKING:
    from engine.strategies.optiml.options import OptimlOptions

TRIES = 2  # candidates of one proposal before the next one
MOST_REPEATED = 3  # candidates in a row that repeat a trial, before a stage ends
MEND = "Mend the last candidate, which is not right."


def shares(proposals: Sequence[Proposal]) -> list[float]:
    """The weights as parts of one."""
    total = sum(p.weight for p in proposals)
    return [p.weight / total for p in proposals]


def ordered(weights: Sequence[float], rng: random.Random, choose: str) -> list[int]:
    """The places of the proposals in the order of their turns: the chosen one, then the rest by weight."""
    by_weight = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    if choose == "sampled" and by_weight:
        (first,) = rng.choices(range(len(weights)), weights)
        by_weight.remove(first)
        by_weight.insert(0, first)
    return by_weight


class Mixture:
    """One session's first stage. `evaluations`: the trials that it used."""

    def __init__(self, writer: Writer, options: OptimlOptions):
        self.writer, self.options = writer, options
        self.evaluations = 0
        self._trials: dict[int, list[int]] = {}  # place of a proposal -> its trials

    def first(self) -> Generator[Verb, Any, Finished | None]:
        """The first right candidate; None if there is none. Raises Over."""
        o, writer = self.options, self.writer
        reply = yield from writer.ask(
            "optiml/propose", Proposals, **writer.facts(history=False, wanted=o.proposals)
        )  # fmt: skip
        proposals = list(reply.value.strategies)[: o.proposals] if isinstance(reply.value, Proposals) else []
        weights = shares(proposals)
        order = ordered(weights, writer.problem.rng, o.choose)
        last: Finished | None = None
        written, repeats, why = 0, 0, ""
        while self.evaluations < o.evaluations and repeats < MOST_REPEATED and not writer.stop:
            place, again = divmod(written, TRIES)
            chosen = order[place % len(order)] if order else None
            if not again:
                why = self._why(chosen, weights, last) if order else f"No proposal is usable: {reply.reason}"
                yield from self._show(proposals, weights, chosen, why)
            verb, repeated = yield from self._write(proposals, weights, chosen, mend=bool(again))
            written, repeats = written + 1, repeats + 1 if repeated else 0
            if repeated:
                continue
            last = yield from writer.tried(verb)
            self.evaluations += 1
            if last.number:
                self._trials.setdefault(-1 if chosen is None else chosen, []).append(last.number)
                yield from self._show(proposals, weights, chosen, why)  # with this trial, which may be the last one
            if guardrail.rule(last, None).right:
                return last
        return None

    def _write(
        self, proposals: Sequence[Proposal], weights: Sequence[float], chosen: int | None, *, mend: bool
    ) -> Generator[Verb, Any, tuple[Try, int]]:
        """A candidate of a proposal as a trial, and the number of the trial that it repeats, or 0."""
        writer, proposal = self.writer, None
        if chosen is not None:
            own = proposals[chosen]
            proposal = {"title": own.title, "why": own.why, "weight": weights[chosen]}
        turn = MEND if mend else FIRST
        _, verb, repeated = yield from writer.candidate_of(
            "optiml/generate", writer.expects, **writer.facts(proposal=proposal, turn=turn)
        )
        return verb, repeated

    def _why(self, chosen: int, weights: Sequence[float], last: Finished | None) -> str:
        """Why a proposal has its turn."""
        share = f"{weights[chosen]:.0%} of the weight"
        if last is not None:
            return f"No candidate of the proposal before was right, and this one is next, with {share}."
        if self.options.choose == "best":
            return f"It has most of the weight: {share}."
        return f"Drawn by the weights with the session's seed: it has {share}."

    def _show(
        self, proposals: Sequence[Proposal], weights: Sequence[float], chosen: int | None, why: str
    ) -> Generator[Verb, Any, None]:
        rows = [
            {
                "title": p.title, "why": p.why, "weight": round(weights[i], 4), "chosen": i == chosen,
                "trials": list(self._trials.get(i, ()))[-8:],
            }
            for i, p in enumerate(proposals)
        ]  # fmt: skip
        self.writer.state = yield Show("mixture", {"rows": rows, "choose": self.options.choose, "why": why})
