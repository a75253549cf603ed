"""The raw-code baseline of the μCUTLASS study (arXiv 2603.29010): generate, compile, test, profile, and again.

One role writes candidates, programs of the language or raw kernels, and reads how the earlier ones went. There is no
steering: the speed-of-light report is left out of its prompts unless `report` asks for it. Prompts are ours.
"""

from __future__ import annotations

from pydantic import Field

from engine.strategies import api
from engine.strategies.api import Script
from engine.strategies.forms import CandidateForm
from engine.strategies.writing import FORM, OPINION, PROFILE, REFINE, RESERVE, SEED, Led, Writer


class FlatOptions(api.Options):
    form: CandidateForm = FORM
    attempts: int = Field(40, ge=1, le=200, description="Attempts at most, beside the budget of trials")
    report: bool = Field(False, description="Put the speed-of-light report into the prompts")
    profile: bool = PROFILE
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE


class Flat(Led):
    """See engine.strategies.api.Strategy."""

    name = "flat"
    title = "Flat"
    about = "A model writes one candidate after another and reads how each one went. The raw-code baseline."
    Options = FlatOptions

    def write(self, writer: Writer) -> Script:
        return (yield from writer.refine(self.options.attempts))


STRATEGY = Flat
