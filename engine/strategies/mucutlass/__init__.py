"""μCUTLASS + SOL guidance (arXiv 2603.29010): programs of the language, steered by the speed of light.

`orchestrated` (the study's MANTIS) goes through phases: Measure, Analyze, Nominate, Triage, Implement, Summarize; five
iterations of two hypotheses with four attempts each. Triage ranks the nominated hypotheses by return on investment
(sol.triage), with both risks from the model and from past trials. `in_prompt` gives one role the report and the rules.
Each phase can be switched off. Prompts are ours, and so is the way in which the two estimates of a risk are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.strategies.api import Finished, Script
from engine.strategies.mucutlass.options import MucutlassOptions
from engine.strategies.writing import Led, Writer

if TYPE_CHECKING:
    from engine.strategies.mucutlass.phases import Orchestrated
    from engine.strategies.problem import Prepared

STEER = (
    "The report says how far the best candidate is from its limit. Choose the change with most to gain for its risk."
)


class Mucutlass(Led):
    """See engine.strategies.api.Strategy."""

    name = "mucutlass"
    title = "μCUTLASS + SOL"
    about = "A model writes programs in phases; the speed-of-light bound chooses which hypotheses are worth their risk."
    Options = MucutlassOptions
    remembers = True

    _phases: Orchestrated | None = None

    def write(self, writer: Writer) -> Script:
        from engine.strategies.mucutlass.phases import Orchestrated

        o = self.options
        if o.steering == "in_prompt":
            return (yield from writer.refine(o.iterations * o.hypotheses * o.attempts, STEER))
        self._phases = Orchestrated(writer, o, writer.problem.memory)
        return (yield from self._phases.run())

    # ---- memory ----

    def recall(self, problem: Prepared) -> str:
        """Outcomes on other problems of this device; "" if its times are predicted."""
        from engine.strategies.mucutlass import memory

        return memory.known(problem.hardware.name) if problem.device_kind == "measured" else ""

    def lesson(self, problem: Prepared, trials: Sequence[Finished]) -> str:
        """Outcomes of `trials`, those with measurements: predictions teach nothing."""
        from engine.strategies.mucutlass import memory

        measured, outcomes = {t.number for t in trials}, self._phases.outcomes if self._phases is not None else ()
        return memory.lines_of(outcome for number, outcome in outcomes if number in measured)

    def keep(self, problem: Prepared, lesson: str) -> None:
        from engine.strategies.mucutlass import memory

        memory.keep(problem.hardware.name, lesson)


STRATEGY = Mucutlass
