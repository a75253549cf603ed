"""One conversation without a tree: every candidate and what came of it stays in the prompt, oldest first."""

from __future__ import annotations

from pydantic import Field

from engine.strategies import api
from engine.strategies.api import Script
from engine.strategies.forms import CandidateForm
from engine.strategies.writing import FIRST, FORM, NEXT, OPINION, REFINE, RESERVE, SEED, Led, Writer

MOST_SPOKEN = 40_000  # characters of the conversation in a prompt: the oldest turns leave first


class ChainOptions(api.Options):
    form: CandidateForm = FORM
    attempts: int = Field(16, ge=1, le=200, description="Attempts at most, beside the budget of trials")
    report: bool = Field(False, description="Put the speed-of-light report into the prompts")
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE


class Chain(Led):
    """See engine.strategies.api.Strategy."""

    name = "chain"
    title = "Chain"
    about = "One conversation: the model sees all of its candidates and what came of each, and writes the next."
    Options = ChainOptions

    def write(self, writer: Writer) -> Script:
        from engine.llm.prompts import facts

        own = writer.own
        spoken: list[dict[str, str]] = []
        while len(spoken) < self.options.attempts and not writer.stop:
            trial = yield from writer.attempt(
                parent=max(writer.changes, default=own.number if own else None),
                **writer.facts(history=False, spoken=_recent(spoken), turn=NEXT if spoken else FIRST),
            )
            spoken.append({"text": trial.text[: facts.MOST_TEXT], "words": facts.words(trial)})
        return writer.used(len(spoken), "attempt")


def _recent(spoken: list[dict[str, str]]) -> list[dict[str, str]]:
    """The end of the conversation that fits into a prompt."""
    room, recent = MOST_SPOKEN, []
    for turn in reversed(spoken):
        room -= len(turn["text"]) + len(turn["words"])
        if room < 0:
            break
        recent.append(turn)
    return recent[::-1]


STRATEGY = Chain
