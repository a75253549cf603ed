"""The orchestrated steering: Measure, Analyze, Nominate, Triage, Implement, Summarize, iteration after iteration.

A phase that needs no model is computed here and shown: Measure reads the state of the session, Triage ranks by
sol.triage. Each phase logs one `Show`, so the page draws the table that the script decided by.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.llm.prompts import facts as prompt_facts
from engine.llm.replies import LEAST_RISK, Analysis, Idea, Ideas, Lessons
from engine.strategies.api import Finished, Script, Show, Verb
from engine.strategies.mucutlass import memory
from engine.strategies.writing import Writer
from engine.words import all_of, count
from sol.levers import levers
from sol.triage import MOST_RISK, Memory, Outcome, exponent, roi

if TYPE_CHECKING:
    from engine.strategies.mucutlass.options import MucutlassOptions

NOMINEES = 2  # hypotheses nominated for each one that is implemented
MOST_LESSONS = 12
LEAST_GAP = 1e-9  # a prediction at its limit may round to 0
ENOUGH = 3  # past outcomes of an action from which its observed risks count as much as the model's
LEVER_RISK = 2.0  # both risks of a lever of the report, which no model estimated
MODEL, FIXED = "model", "fixed value"  # who estimated a risk


@dataclass(frozen=True)
class Ranked:
    """A hypothesis with its return on investment and who estimated its risks (model | model and past trials; FIXED in
    place of the model for a lever of the report)."""

    idea: Idea
    implementation: float
    performance: float
    estimated_by: str
    roi: float


def risk(estimate: float, observed: float, many: int, by: str = MODEL) -> tuple[float, str]:
    """A risk from an estimate (`by`: whose) and that of `many` past trials, in geometric mean; and who estimated it."""
    if not many:
        return estimate, by
    weight = 0.5 * min(1.0, many / ENOUGH)
    joined = estimate ** (1 - weight) * observed**weight
    return min(MOST_RISK, max(LEAST_RISK, joined)), f"{by} and {count(many, 'past trial')}"


def triage(ideas: list[Idea], gap: float, past: Memory, by: str = MODEL) -> list[Ranked]:
    """The hypotheses, the best return first; equal returns in the nominated order."""
    ranked = []
    for idea in ideas:
        action = memory.action_of(idea.action)
        many = len(past.of(action))
        build, who = risk(idea.implementation, past.implementation_risk(action), many, by)
        perform, _ = risk(idea.performance, past.performance_risk(action, idea.speedup), many)
        ranked.append(Ranked(idea, build, perform, who, roi(idea.speedup, max(gap, LEAST_GAP), build, perform)))
    return sorted(ranked, key=lambda r: -r.roi)


class Orchestrated:
    """One session's phases. `outcomes`: (trial, what came of its hypothesis) of this session, for other problems."""

    def __init__(self, writer: Writer, options: MucutlassOptions, known: str):
        self.writer, self.options = writer, options
        self.past = memory.parsed(known)
        self.outcomes: list[tuple[int, Outcome]] = []
        self.lessons: list[str] = []

    def run(self) -> Script:
        o = self.options
        for iteration in range(1, o.iterations + 1):
            if self.writer.stop:
                return self.writer.stop
            yield from self._measure(iteration)
            profile = yield from self.writer.look()
            analysis = (yield from self._analyze(profile)) if o.analyze else None
            ranked = yield from self._nominate(iteration, analysis)
            if not ranked:
                return "The model nominated no hypothesis."
            done = []
            for place, choice in enumerate(ranked[: o.hypotheses], 1):
                if self.writer.stop:
                    return self.writer.stop
                done.append((yield from self._implement(iteration, place, choice, profile)))
            if o.summarize and not self.writer.stop and iteration < o.iterations:
                yield from self._summarize(done)
        return self.writer.stop or all_of(o.iterations, "iteration")

    # ---- phases ----

    def _measure(self, iteration: int) -> Generator[Verb, Any, None]:
        best = self.writer.best()
        self.writer.state = yield Show(
            "phase",
            {
                "phase": "measure", "iteration": iteration, "gap": round(self.writer.gap(), 4),
                "best": best.number if best else None, "baselines": dict(self.writer.state.baselines),
            },
        )  # fmt: skip

    def _analyze(self, profile: dict[str, Any] | None) -> Generator[Verb, Any, Analysis | None]:
        reply = yield from self.writer.ask("analyze", Analysis, **self.writer.facts(profile=profile))
        return reply.value

    def _nominate(self, iteration: int, analysis: Analysis | None) -> Generator[Verb, Any, list[Ranked]]:
        o, gap = self.options, self.writer.gap()
        ideas, by = self._levers(), FIXED
        if o.nominate:
            reply = yield from self.writer.ask(
                "nominate", Ideas,
                **self.writer.facts(
                    analysis=analysis, gap=gap, nominees=NOMINEES * o.hypotheses, lessons=self.lessons,
                    actions=memory.ACTIONS,
                ),
            )  # fmt: skip
            if isinstance(reply.value, Ideas):
                ideas, by = list(reply.value.hypotheses), MODEL
        ranked = triage(ideas, gap, self.past, by)
        if not o.triage:
            ranked.sort(key=lambda r: ideas.index(r.idea))
        self.writer.state = yield Show("triage", self._table(iteration, gap, ranked))
        return ranked

    def _table(self, iteration: int, gap: float, ranked: list[Ranked]) -> dict[str, Any]:
        """The rows of triage as the page draws them."""
        rows = [
            {
                "title": r.idea.title, "action": memory.action_of(r.idea.action), "speedup": r.idea.speedup,
                "implementation": round(r.implementation, 3), "performance": round(r.performance, 3),
                "estimated_by": r.estimated_by, "roi": round(r.roi, 4), "why": r.idea.why,
                "chosen": place < self.options.hypotheses,
            }
            for place, r in enumerate(ranked)
        ]  # fmt: skip
        weight = round(exponent(max(gap, LEAST_GAP)), 4)
        return {
            "iteration": iteration, "gap": round(gap, 4), "exponent": weight, "by_roi": self.options.triage,
            "rows": rows,
        }  # fmt: skip

    def _levers(self) -> list[Idea]:
        """The report's levers as hypotheses, where no model nominates."""
        problem = self.writer.problem
        ranked = levers(problem.graph, problem.hardware, problem.classes[0], tuple(problem.classes))
        return [
            Idea(
                title=lever.title[:200], action=lever.action, speedup=min(1000.0, max(lever.speedup, 0.01)),
                implementation=LEVER_RISK, performance=LEVER_RISK, why=lever.why[:600],
            )
            for lever in ranked[: NOMINEES * self.options.hypotheses]
        ] or [Idea(title="A right first candidate", speedup=1.0, implementation=1.0, performance=1.0)]  # fmt: skip

    def _implement(
        self, iteration: int, place: int, choice: Ranked, profile: dict[str, Any] | None
    ) -> Generator[Verb, Any, dict[str, Any]]:
        """Attempts at one hypothesis, until a right candidate has a time; what came of it."""
        o, idea, before = self.options, choice.idea, self.writer.best()
        numbers, last, parent = [], None, self.writer.origin()
        for attempt in range(1, o.attempts + 1):
            if self.writer.stop:
                break
            last = yield from self.writer.attempt(
                parent=parent,
                **self.writer.facts(
                    idea=idea, attempt=attempt, attempts=o.attempts, profile=profile, lessons=self.lessons
                ),
            )
            numbers.append(last.number)
            if not last.failed and last.ms is not None:
                break
        outcome = self._outcome(idea, before, last)
        facts = {
            "iteration": iteration, "place": place, "title": idea.title, "expected": idea.speedup,
            "observed": outcome.observed, "trials": [n for n in numbers if n],
            "outcome": prompt_facts.words(last) if last is not None else "not tried",
        }  # fmt: skip
        self.writer.state = yield Show("hypothesis", facts)
        if last is not None:
            self.past.add(outcome)
            self.outcomes.append((last.number, outcome))
        return facts

    def _outcome(self, idea: Idea, before: Finished | None, last: Finished | None) -> Outcome:
        """Predicted and observed speedup over the best candidate before, or over PyTorch where there was none."""
        observed = None
        if last is not None and last.ms and last.clean:
            observed = before.ms / last.ms if before is not None else last.speedup
        cls = last.cls if last is not None else ""
        return Outcome(memory.action_of(idea.action), idea.speedup, observed, "", cls)

    def _summarize(self, done: list[dict[str, Any]]) -> Generator[Verb, Any, None]:
        reply = yield from self.writer.ask("summarize", Lessons, **self.writer.facts(outcomes=done))
        if isinstance(reply.value, Lessons):
            self.lessons = [*self.lessons, *reply.value.lessons][-MOST_LESSONS:]
            self.writer.state = yield Show("lessons", {"lessons": list(reply.value.lessons)})
