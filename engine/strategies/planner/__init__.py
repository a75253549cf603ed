"""The default strategy: no model, no key; deterministic given a seed. Its search is engine.strategies.planner.planner.

The script requests quick times if the device takes them, then one trial after another. The session's budget
(sol.budget) closes a class, and the search ends when every class is closed or exhausted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.strategies.api import Candidate, Finished, Screen, Script, State, Strategy

if TYPE_CHECKING:
    from engine.strategies.planner.planner import Planner
    from engine.strategies.problem import Prepared

AHEAD = 4  # candidates named as probably next


class PlannerStrategy(Strategy):
    """See engine.strategies.api.Strategy."""

    name = "planner"
    title = "Planner"
    about = "Lowers the module by rules, ranks configurations by a model of the GPU, tries few and refines the best."
    remembers = True

    _planner: Planner | None = None

    def run(self, problem: Prepared) -> Script:
        state = problem.start
        planner = self._of(problem)
        while not state.stop:
            if problem.screens and (proposals := planner.screen(_programs(state))):
                state = (yield Screen(tuple(verb.candidate for verb in proposals))).state
            verb = planner.next(_programs(state))
            if verb is None:
                why = "; ".join(f"{cls}: {why}" for cls, why in state.closed.items())
                return f"The search is over: {why or 'there is nothing left to try'}."
            upcoming = [c for c in self._upcoming(planner, state) if c != verb.candidate]
            trial = yield replace(verb, upcoming=tuple(upcoming[: AHEAD - 1]))
            state = trial.state
        return state.stop

    def ahead(self, problem: Prepared) -> Sequence[Candidate]:
        return self._upcoming(self._of(problem), problem.start)[:AHEAD]

    def _of(self, problem: Prepared) -> Planner:
        from engine.strategies.planner import memory
        from engine.strategies.planner.planner import Planner

        if self._planner is None or self._planner.problem is not problem:
            self._planner = Planner(problem, memory.parsed(problem.memory))
        return self._planner

    @staticmethod
    def _upcoming(planner: Planner, state: State) -> list[Candidate]:
        """The planned and untried candidates, if the device builds ahead."""
        if planner.device_kind != "measured":
            return []
        return [verb.candidate for verb in planner.upcoming(_programs(state))]

    # ---- memory ----

    def recall(self, problem: Prepared) -> str:
        """The memory of a measured device; "" if times are predicted."""
        from engine.strategies.planner import memory

        if problem.device_kind != "measured":
            return ""
        return memory.known(problem.hardware.name, problem.hardware.sms).to_text()

    def lesson(self, problem: Prepared, trials: Sequence[Finished]) -> str:
        """The results of measured trials. A pasted program's structures belong to its author and teach nothing."""
        from engine.strategies.planner import memory

        if problem.task.source_kind != "module":
            return ""
        facts = self._of(problem).learned(tuple(trials), memory.session_of(problem.graph))
        return memory.lines_of(facts)

    def keep(self, problem: Prepared, lesson: str) -> None:
        from engine.strategies.planner import memory

        memory.keep(problem.hardware.name, lesson)


def _programs(state: State) -> State:
    """The state without the owner's raw kernels, which the search cannot use."""
    if all(t.form == "program" for t in state.trials):
        return state
    return replace(state, trials=tuple(t for t in state.trials if t.form == "program"))


STRATEGY = PlannerStrategy
