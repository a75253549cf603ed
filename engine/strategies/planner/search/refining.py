"""Refine a program that any strategy wrote: the planner's moves around the session's best, without its plan.

The product or convolution of the program that takes longest is varied; the rest of the program stays. First come the
configurations that differ in one clause, then the rest of the model's ranking (`candidates.around`, as in
engine.strategies.planner.planner). A trial that is faster becomes the program that is refined next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dsl.check.program import check
from dsl.ir import Collective, Config, Program
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.devices.parts import expected_ms
from engine.strategies.api import Finished, State, Try
from engine.strategies.planner.search import build_cost, candidates
from engine.strategies.planner.search.search_lines import Line, Step
from engine.strategies.planner.search.structures import Structure, tunable
from engine.strategies.problem import Cancelled, Prepared
from sol.attainable import predict


@dataclass(frozen=True)
class Base:
    """A program that is refined. `config`: of the varied stage, with every clause set; `frame`: the rest of the program
    in one text, which all of its refinements share."""

    trial: Finished
    line: Line
    config: Config
    frame: str


class Refiner:
    """A function of the problem and the finished trials: `next` returns the next refinement."""

    def __init__(self, problem: Prepared):
        self.problem, self.hardware = problem, problem.hardware
        self._bases: dict[tuple[str, str], Base | None] = {}  # by class and text
        self._lines: dict[tuple[str, str, str, str], Line] = {}  # by class, back end, stage and frame
        self._frames: dict[tuple[str, str], tuple[str, Config] | None] = {}  # by text and stage

    def next(self, state: State, built: float = 0.0) -> Try | None:
        """One refinement of the fastest program or, if none of it is left, of another region's fastest; None if nothing
        is left. `built`: what refinements cost nvcc so far (`cost`)."""
        bases = [base for trial in _fastest(state, self.problem.classes) if (base := self._base(trial)) is not None]
        for near in (True, False):
            for base in bases:
                structure = base.line.structures[0]
                if built + self._cost(structure.base, structure.backend) > build_cost.CPP_TRIALS + 1e-6:
                    continue
                tried = self._tried(base, state)
                for ranked, beside in candidates.around(structure.ranked, base.config, tried):
                    if beside == near:
                        return self._proposal(base, ranked, beside, state)
        return None

    def cost(self, verb: Try) -> float:
        """The cost of building a refinement with nvcc (build_cost); 0 where builds are fast."""
        return self._cost(check(verb.text).program, verb.backend)

    def _cost(self, program: Program, backend: str) -> float:
        measured = self.problem.device_kind == "measured" and backend == "cpp"
        return build_cost.cost(program, backend) if measured else 0.0

    def _proposal(self, base: Base, ranked: candidates.Ranked, beside: bool, state: State) -> Try:
        number, line = base.trial.number, base.line
        verb = line.proposal(Step(line.structures[0], ranked), self.hardware, before=base.config)
        rule = "one clause changed" if beside else "next of the model's ranking"
        verb = replace(verb, parent=number, why=f"the planner refines trial {number}, {rule}: {verb.why}")
        return of_module(verb, line, self.problem, state)

    def _base(self, trial: Finished) -> Base | None:
        """A trial's program as the base of refinements; None if it has no product whose configuration can be varied."""
        key = trial.cls, trial.text
        if key not in self._bases:
            if self.problem.cancelled():
                raise Cancelled
            self._bases[key] = self._opened(trial)
        base = self._bases[key]
        return base if base is None else replace(base, trial=trial)

    def _opened(self, trial: Finished) -> Base | None:
        program = check(trial.text).program
        parts = [p for p in self.problem.of(trial.cls) if p.number == trial.region]
        stages = tunable(program) if program is not None and parts else []
        if not stages:
            return None
        times = {s.name: s.ms for s in predict(resolve(program, self.hardware.sms), self.hardware).stages}
        main = max(stages, key=lambda s: times.get(s.name, 0.0))
        frame, config = self._framed(trial.text, main.name)
        key = trial.cls, trial.backend, main.name, frame
        if key not in self._lines:
            opened = replace(main, config=Config(compute=main.config.compute, backend=main.config.backend))
            base = _with_stage(program, opened)
            ranked = candidates.rank(base, opened, self.hardware, trial.backend)
            ms = ranked[0].ms if ranked else 0.0
            words = f"the program of trial {trial.number}"
            structure = Structure(words, base, program, trial.backend, ms, main.name, ranked=ranked)
            self._lines[key] = Line(replace(parts[0], structures=(structure,)), sms=self.hardware.sms)
        return Base(trial, self._lines[key], config, frame)

    def _tried(self, base: Base, state: State) -> set[tuple]:
        """The configurations of the varied stage in every trial of the same program."""
        framed = (self._framed(t.text, base.line.main) for t in state.of(base.trial.cls) if t.form == "program")
        return {candidates.key(own[1])[:5] for own in framed if own is not None and own[0] == base.frame}

    def _framed(self, text: str, stage: str) -> tuple[str, Config] | None:
        """A program without the configuration of one stage, and that configuration; None if it has no such stage."""
        if (text, stage) not in self._frames:
            program = check(text).program
            resolved = resolve(program, self.hardware.sms) if program is not None else None
            stages = resolved.stages if resolved is not None else ()
            own = next((s for s in stages if isinstance(s, Collective) and s.name == stage), None)
            self._frames[text, stage] = None
            if own is not None:
                plain = _with_stage(resolved, replace(own, config=Config(compute=own.config.compute)))
                self._frames[text, stage] = to_text(replace(plain, name="p")), own.config
        return self._frames[text, stage]


def _fastest(state: State, classes: list[str]) -> Iterator[Finished]:
    """The fastest right program of all classes, then the fastest of each other region in its class. A guarded program
    whose guard tripped is left out: it would trip in every configuration."""
    programs = tuple(t for t in state.trials if t.form == "program" and not t.tripped)
    state = replace(state, trials=programs)
    best = min((t for c in classes if (t := state.best(c)) is not None), key=lambda t: (t.ms, t.number), default=None)
    if best is None:
        return
    yield best
    for region in sorted({t.region for t in state.of(best.cls) if t.region} - {best.region}):
        other = state.best(best.cls, region)
        if other is not None:
            yield other


def _with_stage(program: Program, stage: Collective) -> Program:
    """The program with one stage replaced by one of the same name."""
    return replace(program, stages=tuple(stage if s.name == stage.name else s for s in program.stages))


def of_module(proposal: Try, line: Line, problem: Prepared, state: State) -> Try:
    """The proposal with the time of the whole module, if the program is one region."""
    if not line.number:
        return proposal
    sms = problem.hardware.sms
    standing = [(line.part.region.ops, resolve(check(proposal.text).program, sms))]
    for number, t in state.standing(line.cls).items():
        if number != line.number:
            standing.append((problem.ops(number), resolve(check(t.text).program, sms)))
    ms, _ = expected_ms(problem.graph, standing, problem.hardware, line.cls)
    return replace(proposal, predicted_ms=ms)
