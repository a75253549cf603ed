"""The planner's search: lower by rules, rank by the attainable model, try few, refine the best. No model, no key.

For each precision class that the session allows, and each region of the problem (engine.strategies.problem), it keeps
one line of search (engine.strategies.planner.search.search_lines):

  1. the best configuration of a similar problem, or triage's first structure with every choice left to the compiler;
  2. in turns, the model's best configurations of it, spread over tile and cluster (nvMatmulHeuristics as a second
     opinion), and the other structures; on a device that times quickly, the better half of twice as many;
  3. neighbours of the best trial so far, one clause changed at a time, then the rest of its ranking.

Where a guard tripped on the session's inputs, the same structure comes first again with its results multiplied by
powers of two, so that f16 holds them (engine.strategies.planner.search.in_range). Where `cute` could not build a
structure, or its result was wrong, the same products are tried by `cpp`.

Only the stage that takes longest is varied; the other products of the program use the model's best. Regions take turns
by the time that they are expected to save. Classes take turns, cheap builds first: `cute` builds in two seconds where
nvcc needs forty, so on a device that compiles, a line whose first program nvcc builds begins with another one that is
built meanwhile, and nvcc builds at most CPP_TRIALS of a session's trials, and one more for each further region, so that
each gets a program.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsl.check.program import check
from engine.evaluate.integrity import trial as integrity
from engine.strategies.api import Finished, State, Try
from engine.strategies.planner import memory
from engine.strategies.planner.memory import Memory
from engine.strategies.planner.search import build_cost, candidates
from engine.strategies.planner.search.build_cost import CPP_TRIALS, LIGHT
from engine.strategies.planner.search.candidates import Ranked
from engine.strategies.planner.search.in_range import in_range
from engine.strategies.planner.search.program_index import ProgramIndex
from engine.strategies.planner.search.refining import of_module
from engine.strategies.planner.search.search_lines import QUICK, Line, Step
from engine.strategies.planner.search.structures import Structure, on_cpp, tune
from engine.strategies.problem import Cancelled, Part, Prepared
from sol.attainable import predict_eager
from sol.bounds import pytorch_class, t_sol

ALGEBRAIC = 2  # trials of a rewrite that does less work than the module
WRONG_RESULT = "wrong_result"  # what engine.devices calls it
WRONG = 2  # results of a structure on a GPU, and none that was right, after which it gets no more trials
WORSE = 2.5  # times as slow as the best one may be what is tried while nvcc builds that for 40 s


class Planner:
    """A pure function of the problem, the memory of other problems and the finished trials: `next` returns the next
    trial. The problem has at least one part."""

    def __init__(self, problem: Prepared, memory: Memory):
        self.problem, self.memory = problem, memory
        self.hardware, self.device_kind = problem.hardware, problem.device_kind
        rankings: dict[tuple, list[Ranked]] = {}
        self.all = [self._line(part, rankings) for part in problem.parts]
        self.lines: dict[str, Line] = {}  # class -> the line of the region with the most work
        self.programs = ProgramIndex(self.all, self.hardware.sms)
        self._costs: dict[str, float] = {}  # text -> its cost of building with nvcc
        self._adapted: set[tuple[str, int, str]] = set()  # class, region and structure of what `_adapt` has looked at
        for line in self.all:
            most = self.lines.setdefault(line.cls, line)
            if line.eager > most.eager:
                self.lines[line.cls] = line
        self._share = CPP_TRIALS + max(0, len(problem.regions) - 1)  # of nvcc, in whole builds

    def _line(self, part: Part, rankings: dict[tuple, list[Ranked]]) -> Line:
        own = part.algebraic is None and self.problem.task.source_kind == "module"
        eager, remembered = 0.0, self.memory
        if own:
            theirs = pytorch_class(part.cls, part.graph)
            eager = predict_eager(part.graph, self.hardware, theirs, autocast=True).ms
        elif part.algebraic is None:
            remembered = Memory()  # a pasted program's own choices are the first trial, whatever the memory says
        line = Line(part, eager, remembered, self.hardware.sms)
        for structure in line.structures:
            if self.problem.cancelled():
                raise Cancelled
            tune(structure, self.hardware, rankings)
        if own:
            line.begin(t_sol(part.graph, self.hardware, part.cls), self.hardware)
        return line

    # ---- which trial next ----

    def next(self, state: State) -> Try | None:
        self._adapt(state)
        for cls in self._turns(state):
            for line in self._regions_in_turn(cls, state):
                proposal = self._propose(line, state)
                if proposal is not None:
                    return of_module(proposal, line, self.problem, state)
        return None

    def upcoming(self, state: State) -> list[Try]:
        """The planned and untried candidates, first those that nvcc must build, because they take longest, and last
        those that wait for all others."""
        out = [(False, p) for p in self.screen(state)]  # which also adapts
        for line in sorted(self.all, key=lambda x: (x.backend == "cute", -x.saved)):
            if line.cls not in state.closed:
                out += [(step.late, line.proposal(step, self.hardware)) for step in self._planned(line, state)]
        once: dict[str, tuple[bool, Try]] = {}
        for late, proposal in out:
            once.setdefault(proposal.text, (late, proposal))
        return [p for _, p in sorted(once.values(), key=lambda one: (one[0], one[1].backend == "cute"))]

    def screen(self, state: State) -> list[Try]:
        """Programs to time quickly before the next trial, only as a hint for the plan: the seeds of each line that has
        its first result (which must not wait), if builds take seconds. [] on a device that predicts."""
        if self.device_kind != "measured":
            return []
        self._adapt(state)
        out = []
        for line in (x for x in self.all if not x.part.algebraic):
            begun = any(t.cls == line.cls and t.region == line.number for t in state.trials)
            if self._over(line.structures[0], state):
                continue
            if line.backend == "cute" and begun and line.cls not in state.closed and len(line.ranked) > 1:
                own = [line.proposal(s, self.hardware) for s in line.seeds(QUICK)]
                out += [] if any(p.text in state.quick for p in own) else own
        return out

    def _adapt(self, state: State) -> None:
        """Change the lines by what their trials have shown, once for each structure.

        Where a guard tripped, the same structure is the line's first from now on, its results multiplied by powers of
        two for the magnitudes that the trial met; if that trips too, no one power suits its inputs. Where `cute` failed
        where `cpp` may not, its structure is added on `cpp`.
        """
        for t in state.trials:
            ranges = integrity.ranges(t.evidence) if t.tripped else {}
            wrong = t.code == WRONG_RESULT and self.device_kind == "predicted"  # so it would be by `cpp`, too
            failed = t.backend == "cute" and t.failed in ("compile", "validate") and not wrong
            line, structure, _ = None, None, None
            if t.by == "strategy" and (ranges or failed):
                line, structure, _ = self.programs.lookup(t.cls, t.text)
            if line is None or (t.cls, line.number, structure.key) in self._adapted:
                continue
            self._adapted.add((t.cls, line.number, structure.key))
            new = on_cpp(structure, self.hardware) if failed else in_range(structure, ranges, self.hardware)
            if new is not None:
                tune(new, self.hardware)
                line.structures.insert(len(line.structures) if failed else 0, new)

    def _turns(self, state: State) -> list[str]:
        """Open classes, the one with the fewest trials first; `cute` counts half if nvcc builds would take longer."""
        weight = 3.0 if self.device_kind == "measured" else 1.0
        slow = {c: line.backend == "cpp" and not line.light for c, line in self.lines.items()}
        own = {c: [t for t in state.of(c) if t.by == "strategy"] for c in self.lines}
        open_ = [
            c
            for c in self.lines
            if c not in state.closed
            and any(not self._over(s, state) for x in self.all if x.cls == c for s in x.structures)
        ]
        return sorted(
            open_,
            key=lambda c: (
                len(own[c]) * (weight if slow[c] else 1.0) + (2.5 if weight > 1 and slow[c] else 0),
                self.lines[c].backend == "cpp",
                list(self.lines).index(c),
            ),
        )

    def _regions_in_turn(self, cls: str, state: State) -> list[Line]:
        """The class's lines: first those without a trial, by their promised saving, then by trials per millisecond of
        PyTorch's time for them."""
        counts = {
            id(x): sum(t.by == "strategy" and self.programs.lookup(cls, t.text)[0] is x for t in state.of(cls))
            for x in self.all
            if x.cls == cls
        }
        lines = [x for x in self.all if x.cls == cls and not (x.part.algebraic and counts[id(x)] >= ALGEBRAIC)]
        first = any(counts[id(x)] for x in lines if not x.part.algebraic)

        def turn(x: Line) -> tuple:
            if x.part.algebraic:  # in addition to the module's own work, once that has a result
                return (1 if first else 3, counts[id(x)])
            return (2, counts[id(x)] / max(x.eager, 1e-6)) if counts[id(x)] else (0, -x.saved)

        return sorted(lines, key=turn)

    def _spent(self, structure: Structure, state: State) -> bool:
        """Return True if nvcc has used its share of the session, given the cost of this structure's next build."""
        if self.device_kind != "measured" or structure.backend != "cpp":
            return False
        built = [t.text for t in state.trials if t.backend == "cpp" and t.by == "strategy"]
        return sum(map(self._cost, built)) + build_cost.cost(structure.base, "cpp") > self._share + 1e-6

    def _over(self, structure: Structure, state: State) -> bool:
        """Return True if a structure gets no more trials: nvcc has used its share, or the structure's guard tripped on
        the session's inputs, or its results were wrong, as they would be in every configuration."""
        own = [t for t in state.trials if self.programs.lookup(t.cls, t.text)[1] is structure]
        tripped = structure.base.guard and any(t.tripped for t in own)
        return tripped or self._wrong(own) or self._coarse(structure, state) or self._spent(structure, state)

    def _coarse(self, structure: Structure, state: State) -> bool:
        """Return True if storing intermediates in half precision is what makes a region's results wrong: two structures
        that do were, and none was right."""
        line = structure.narrow and next((x for x in self.all if any(s is structure for s in x.structures)), None)
        if not line:
            return False
        wrong: set[str] = set()
        for t in state.of(line.cls):
            owner, other, _ = self.programs.lookup(t.cls, t.text)
            if owner is line and other.narrow:
                if t.ms is not None:
                    return False
                wrong |= {other.key} if t.code == WRONG_RESULT else set()
        return len(wrong) > 1

    def _wrong(self, trials: list[Finished]) -> bool:
        """Return True if the results of a structure's trials say that it is wrong itself: a device that predicts checks
        what a program means, while on a GPU one configuration may be at fault, but hardly two of two."""
        wrong = sum(t.failed == "validate" and t.code == WRONG_RESULT for t in trials)
        return wrong >= (WRONG if self.device_kind == "measured" else 1) and all(t.ms is None for t in trials)

    def _cost(self, text: str) -> float:
        """The cost of building a trial's program with nvcc."""
        if text not in self._costs:
            program = check(text).program
            self._costs[text] = build_cost.cost(program, "cpp") if program else build_cost.WHOLE
        return self._costs[text]

    def _propose(self, line: Line, state: State) -> Try | None:
        planned = next(self._planned(line, state), None)
        if planned is not None:
            return line.proposal(planned, self.hardware)
        tried = self._tried(line, state)
        best = state.best(line.cls, line.number)
        owner, structure, config = self.programs.lookup(line.cls, best.text) if best else (None, None, None)
        if owner is not line:
            best, structure, config = None, None, None
        open_ = [s for s in (structure, *line.structures) if s and s.ranked and not self._over(s, state)]
        for current in open_:  # if one has no more trial worth running, the next may
            own = {k for s, k in tried if s == current.key}
            for r, beside in candidates.around(current.ranked, config if current is structure else None, own):
                return line.proposal(
                    Step(current, r), self.hardware, parent=best.number if beside else None,
                    before=config if beside else None,
                )  # fmt: skip
        return None

    def _planned(self, line: Line, state: State) -> Iterator[Step]:
        """The line's plan without tried configurations. If nothing was tried, the first is the compiler's own choice,
        which may equal a configuration of the ranking."""
        tried = self._tried(line, state)
        begun = {s for s, _ in tried}
        ended = [t for t in state.of(line.cls) if t.region == line.number]
        steps = line.plan(state.quick, failing=bool(ended) and all(t.ms is None for t in ended))
        if not tried and self.device_kind == "measured" and state.budget > 1:
            steps = quick_build_first(steps)
        for step in steps:
            if self._over(step.structure, state):
                continue
            config = candidates.key(step.ranked.config)[:5] if step.ranked else None
            if (step.ranked is None and step.structure.key not in begun) or (
                step.ranked is not None and (step.structure.key, config) not in tried
            ):
                yield step

    def _tried(self, line: Line, state: State) -> set[tuple]:
        """(structure, configuration of its main stage) of every trial of the line."""
        out = set()
        for t in state.of(line.cls):
            owner, structure, config = self.programs.lookup(line.cls, t.text)
            if owner is line:
                out.add((structure.key, candidates.key(config)[:5] if config else None))
        return out

    # ---- for the next problem ----

    def learned(self, trials: tuple[Finished, ...], where: str) -> list:
        """The lessons of measured trials for the next problem: each line's fastest, and predicted against measured
        speedups."""
        facts = []
        for line in self.all:
            if line.part.algebraic:
                continue
            own = [t for t in trials if t.cls == line.cls and t.region == line.number and t.by == "strategy"]
            best = min((t for t in own if t.ms is not None and t.clean), key=lambda t: t.part, default=None)
            if best is not None:
                entry = memory.won(where, line.cls, best.backend, best.text, best.part, self.hardware.sms, line.main)
                facts += [entry] if entry else []
            results = []
            for t in own:
                _, structure, _ = self.programs.lookup(line.cls, t.text)
                if structure is not None:
                    step = Step(structure)
                    if t.text == line.text(step):
                        ms = t.part if t.ms is not None and t.clean else None
                        results.append((structure.words, structure.ms, ms))
            facts += memory.outcomes(results, where, line.cls)
        return facts


def quick_build_first(steps: list[Step]) -> list[Step]:
    """The steps of a line's plan as it begins: where nvcc needs its 40 s for the first one, the first of another
    structure that builds in seconds, and that the model does not expect to be WORSE times as slow, is tried meanwhile.
    (`Planner.upcoming` names the slow one, so it is being built.)"""

    def quick(step: Step) -> bool:
        return build_cost.cost(step.structure.base, step.structure.backend) < LIGHT

    if not steps or quick(steps[0]):
        return steps
    most = WORSE * steps[0].structure.ms
    place = next((i for i, s in enumerate(steps) if quick(s) and s.structure.ms <= most), 0)
    return [steps[place], *steps[:place], *steps[place + 1 :]]
