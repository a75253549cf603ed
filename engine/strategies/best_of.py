"""Independent candidates: each is written without the others, and the fastest right one counts."""

from __future__ import annotations

from pydantic import Field

from engine.strategies import api
from engine.strategies.api import Script, Together
from engine.strategies.forms import CandidateForm
from engine.strategies.writing import FINAL, FIRST, FORM, OPINION, REFINE, RESERVE, SEED, Led, Writer

DRAFT = "This is draft {} of {}; drafts do not see each other."


class BestOfOptions(api.Options):
    form: CandidateForm = FORM
    n: int = Field(8, ge=1, le=64, description="Candidates")
    report: bool = Field(False, description="Put the speed-of-light report into the prompt")
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE


class BestOf(Led):
    """See engine.strategies.api.Strategy."""

    name = "best_of"
    title = "Best of n"
    about = "A model writes n candidates that do not know of each other; the fastest right one counts."
    Options = BestOfOptions

    def write(self, writer: Writer) -> Script:
        n, own = min(self.options.n, writer.share), writer.own
        turns = [
            writer.prompt(
                "implement", writer.expects, **writer.facts(history=False, turn=f"{FIRST} {DRAFT.format(number, n)}")
            )
            for number in range(1, n + 1)
        ]
        unsure = writer.form == "kernel" and writer.problem.device_kind != "measured"
        for drafts in (turns[:1], turns[1:]) if unsure else (turns,):  # perhaps no kernel can run: one draft says so
            for reply in (yield Together(drafts)) if drafts else ():
                if reply.refusal in FINAL:
                    return reply.reason
                if writer.stop:
                    return writer.stop
                yield from writer.tried(writer.candidate(reply, own.number if own else None))
            if writer.stop:
                break
        return writer.used(n, "candidate")


STRATEGY = BestOf
