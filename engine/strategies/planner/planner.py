"""The default strategy: no model, no key. Lower by rules, rank by the attainable model, try few, refine the best.

A module that the rules take whole is one program; any other is cut into regions
(engine.strategies.planner.regions.partition), each of which becomes a program while the rest stays PyTorch. For each
precision class that the session allows, and each region, it keeps one line of search
(engine.strategies.planner.search.search_lines):

  1. what won on a similar problem, or the structure that triage puts first with every choice left to the compiler;
  2. by turns, the model's best configurations of it, spread over tile and cluster (nvMatmulHeuristics as a second
     opinion), and the other structures; where a device times quickly, of twice as many the better half;
  3. neighbours of the best trial so far, one clause changed at a time, and after those the rest of its ranking.

Only the stage that takes longest is varied; the other products of the program take the model's best. Regions take turns
by the time that they are expected to save. Classes take turns, cheap builds first: `cute` answers in two seconds where
nvcc needs forty, so on a device that compiles at most CPP_TRIALS of a session's trials are built by nvcc. The session's
budget (sol.budget) closes a class; this strategy ends when every class is closed or exhausted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from dsl import ir
from dsl.check.program import check
from dsl.ir import Collective, Config, Program
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.devices import Binding, Problem, SessionRefused
from engine.devices.parts import expected_ms
from engine.session import events
from engine.strategies import Finished, Proposal, State
from engine.strategies.planner import memory
from engine.strategies.planner.lowering import program_graph
from engine.strategies.planner.lowering.lower import CLASSES, FLOATS, NATIVE, Lowered, lower, not_in_float64
from engine.strategies.planner.memory import Memory
from engine.strategies.planner.regions import coverage
from engine.strategies.planner.regions.partition import Partition, Region, Uncovered, partition
from engine.strategies.planner.search import algebra, build_cost, candidates
from engine.strategies.planner.search.program_index import Programs
from engine.strategies.planner.search.search_lines import QUICK, Algebraic, Line, Step
from engine.strategies.planner.search.structures import Structure, opened, structures, tune
from engine.words import class_name
from sol.attainable import predict_eager
from sol.bounds import pytorch_class, t_sol
from sol.hardware import Hardware

# Of a session, in builds over CUTLASS's headers (planner.search.build_cost), 40 s each on a device.
CPP_TRIALS = 4
LISTED = f"{', '.join(CLASSES[:-1])} or {CLASSES[-1]}"
ALGEBRAIC = 2  # trials of a rewrite that does less work than the module asks for
WORSE = 1.5  # a neighbour that the model expects to be this much slower than the best is not worth a trial


class Planner:
    """`device_kind`: measured | predicted. `memory`: of other problems; None: what is known of a measured device, and
    nothing where times are predicted. Raises SessionRefused when no rule lowers any part of the problem.

    `regions`: what is covered (engine.strategies.planner.regions.coverage.Covered), `uncovered`: what stays PyTorch,
    and why.
    """

    def __init__(
        self, problem: Problem, classes: tuple[str, ...], hardware: Hardware, device_kind: str, seed: int = 0,
        memory: Memory | None = None,
    ):  # fmt: skip
        self.hardware, self.device_kind, self.graph = hardware, device_kind, problem.graph
        self.rng = random.Random(seed)
        self.memory = memory if memory is not None else self._known()
        self.all: list[Line] = []
        self.lines: dict[str, Line] = {}  # class -> that of the region with the most to do
        self.notes: list[events.Noted] = []
        self.regions: tuple[coverage.Covered, ...] = ()
        self.uncovered: tuple[Uncovered, ...] = ()
        self.covered: events.Covered | None = None
        self.partition: Partition | None = None
        self.programs = Programs(self.all, hardware.sms)
        self._costs: dict[str, float] = {}  # text -> what nvcc takes for it
        if problem.source_kind == "program":
            self._pasted(problem.source)
        else:
            self._lowered(problem, classes)
        for line in self.all:
            held = self.lines.setdefault(line.cls, line)
            if line.eager > held.eager:
                self.lines[line.cls] = line

    def _known(self) -> Memory:
        return memory.known(self.hardware.name, self.hardware.sms) if self.device_kind == "measured" else Memory()

    def _pasted(self, source: str) -> None:
        pasted = check(source).program
        if pasted is None:
            raise SessionRefused("bad_program", "the program does not pass its checks")
        reasons: list[str] = []
        made = opened(pasted, "your program", self.hardware, reasons)
        if made is None:
            raise SessionRefused("not_covered", f"no back end takes this program: {reasons[0]}")
        made.base = _plain(pasted)
        tune(made, self.hardware)
        # The person's own choices are the first trial, whatever won elsewhere.
        bindings = program_graph.bindings(pasted)
        self.all.append(Line(program_graph.class_of(pasted), [made], bindings, sms=self.hardware.sms))

    def _lowered(self, problem: Problem, classes: tuple[str, ...]) -> None:
        self._opened: dict[tuple[str, str], tuple[list[Structure], list[str]]] = {}  # by class and plain program
        self._left_out: dict[str, str] = {}
        not_in_float64(problem.graph)
        found = self.partition = partition(problem.graph, lambda lowered: self._rejected(lowered, classes))
        for region in found.regions:
            wanted = region.lowered.classes(classes)
            for cls in wanted:
                line = self._line(region, cls, found.whole)
                if line is not None:
                    self.all.append(line)
        order = list(dict.fromkeys(line.cls for line in self.all))
        if found.whole:
            self._algebraic(classes)
        self.notes = [
            events.Noted("class_left_out", f"{cls} is left out: {why}", cls)
            for cls, why in self._left_out.items()
            if cls not in order
        ]
        self.regions = coverage.covered(found, self.hardware, order)
        self.uncovered = found.uncovered
        self.covered = coverage.event(found, self.regions, self.hardware, order[0])

    def _rejected(self, lowered: Lowered, classes: tuple[str, ...]) -> str | None:
        """Why no back end takes a region in any class, or None."""
        wanted = lowered.classes(classes)
        if not wanted and lowered.dtype not in NATIVE:  # part of a module that goes on in another type
            return f"it computes in {class_name(lowered.dtype)}, and programs in {FLOATS}"
        if not wanted:
            raise SessionRefused(
                "no_class", f"no program is written in class {' or '.join(classes)} alone; allow {LISTED}"
            )
        why = {}
        for cls in wanted:
            found, reasons = self._structures(lowered, cls)
            if not found:
                why[cls] = reasons[0]
        self._left_out |= why
        return "; ".join(f"{cls}: {said}" for cls, said in why.items()) if len(why) == len(wanted) else None

    def _structures(self, lowered: Lowered, cls: str) -> tuple[list[Structure], list[str]]:
        """Those that a back end takes, and why the others are not. A region is asked about more than once, and only
        what stays one is tuned."""
        plain = to_text(lowered.program(cls))
        if (cls, plain) not in self._opened:
            reasons: list[str] = []
            self._opened[cls, plain] = structures(lowered, cls, self.hardware, reasons), reasons
        return self._opened[cls, plain]

    def _line(self, region: Region, cls: str, whole: bool) -> Line | None:
        found, _ = self._structures(region.lowered, cls)
        if not found:
            return None
        theirs = pytorch_class(cls, region.graph)
        eager = predict_eager(region.graph, self.hardware, theirs, cast_parameters=True).ms
        for structure in found:
            if not structure.ranked:
                tune(structure, self.hardware)
        bindings = region.lowered.inputs, region.lowered.outputs
        line = Line(cls, found, bindings, None if whole else region, eager, self.memory, sms=self.hardware.sms)
        line.begin(t_sol(region.graph, self.hardware, cls))
        return line

    def _algebraic(self, classes: tuple[str, ...]) -> None:
        """The module with less work than it asks for, as lines of their own: an offer, and never what is begun with."""
        made = algebra.rewritten(self.graph)
        if made is None:
            return
        try:
            lowered = lower(made.graph)
        except SessionRefused:
            return
        for cls in lowered.classes(classes):
            found, _ = self._structures(lowered, cls)
            for structure in found:
                if not structure.ranked:
                    tune(structure, self.hardware)
            if found:
                limits = {c: t_sol(made.graph, self.hardware, c) for c in classes}
                offer, bindings = Algebraic(made.words, limits), (lowered.inputs, lowered.outputs)
                line = Line(cls, found, bindings, None, 0.0, self.memory, sms=self.hardware.sms, algebraic=offer)
                self.all.append(line)

    @property
    def classes(self) -> list[str]:
        return list(self.lines)

    # ---- which trial next ----

    def next(self, state: State) -> Proposal | None:
        for cls in self._turns(state):
            for line in self._regions_in_turn(cls, state):
                proposal = self._propose(line, state)
                if proposal is not None:
                    return self._whole(proposal, line, state)
        return None

    def upcoming(self, state: State) -> list[Proposal]:
        """What is planned and not tried yet, those that nvcc must build first: they take longest."""
        out = self.screen(state)
        for line in sorted(self.all, key=lambda x: (x.backend == "cute", -x.saved)):
            if line.cls not in state.closed:
                out += self._planned(line, state)
        return sorted({p.text: p for p in out}.values(), key=lambda p: p.backend == "cute")

    def screen(self, state: State) -> list[Proposal]:
        """Programs to be timed quickly before the next trial, their result a hint for the plan alone: the seeds of
        each line that has its first result (for which nobody should wait longer), where builds take seconds. [] on a
        device that predicts."""
        if self.device_kind != "measured":
            return []
        out = []
        for line in (x for x in self.all if not x.algebraic):
            begun = any(t.cls == line.cls and t.region == line.number for t in state.trials)
            if self._over(line.structures[0], state):
                continue
            if line.backend == "cute" and begun and line.cls not in state.closed and len(line.ranked) > 1:
                own = [line.proposal(s, self.hardware) for s in line.seeds(QUICK)]
                out += [] if any(p.text in state.quick for p in own) else own
        return out

    def _turns(self, state: State) -> list[str]:
        """Open classes, the one with the fewest trials first; `cute` counts half where nvcc would be waited for."""
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
        """The class's lines, first those without a trial by what they promise to save, then by trials a millisecond
        that PyTorch takes for them."""
        made = {
            id(x): sum(t.by == "strategy" and self.programs.found(cls, t.text)[0] is x for t in state.of(cls))
            for x in self.all
            if x.cls == cls
        }
        lines = [x for x in self.all if x.cls == cls and not (x.algebraic and made[id(x)] >= ALGEBRAIC)]
        first = any(made[id(x)] for x in lines if not x.algebraic)

        def turn(x: Line) -> tuple:
            if x.algebraic:  # beside the module's own work, once that has a result
                return (1 if first else 3, made[id(x)])
            return (2, made[id(x)] / max(x.eager, 1e-6)) if made[id(x)] else (0, -x.saved)

        return sorted(lines, key=turn)

    def _spent(self, structure: Structure, state: State) -> bool:
        """Whether nvcc has had its share of the session, as far as this structure's next build goes."""
        if self.device_kind != "measured" or structure.backend != "cpp":
            return False
        built = [t.text for t in state.trials if t.backend == "cpp" and t.by == "strategy"]
        return sum(map(self._cost, built)) + build_cost.cost(structure.base, "cpp") > CPP_TRIALS + 1e-6

    def _over(self, structure: Structure, state: State) -> bool:
        """Whether nothing more is tried of a structure: nvcc has had its share, or its guard tripped on the session's
        own inputs, and would in every configuration."""
        tripped = structure.base.guard and any(
            t.tripped and self.programs.found(t.cls, t.text)[1] is structure for t in state.trials
        )
        return tripped or self._spent(structure, state)

    def _cost(self, text: str) -> float:
        """Of building a trial's program with nvcc."""
        if text not in self._costs:
            program = check(text).program
            self._costs[text] = build_cost.cost(program, "cpp") if program else build_cost.WHOLE
        return self._costs[text]

    def _propose(self, line: Line, state: State) -> Proposal | None:
        planned = next(self._planned(line, state), None)
        if planned is not None:
            return planned
        tried = self._tried(line, state)
        best = state.best(line.cls, line.number)
        found, structure, config = self.programs.found(line.cls, best.text) if best else (None, None, None)
        if found is not line:
            best, structure, config = None, None, None
        open_ = [s for s in (structure, *line.structures) if s and s.ranked and not self._over(s, state)]
        for current in open_:  # where one has no more that is worth a trial, the next one may
            own = {k for s, k in tried if s == current.key}
            near = candidates.neighbours(current.ranked, config, own) if config and current is structure else []
            limit = WORSE * current.ranked[0].ms
            for r in [*near, *current.ranked]:
                if candidates.key(r.config)[:5] not in own and r.ms <= limit:
                    beside = r in near
                    return line.proposal(
                        Step(current, r), self.hardware, parent=best.number if beside else None,
                        before=config if beside else None,
                    )  # fmt: skip
        return None

    def _planned(self, line: Line, state: State) -> Iterator[Proposal]:
        """The line's plan without what was tried. With nothing tried the first is the compiler's own choice, which
        a configuration of the ranking may equal."""
        tried = self._tried(line, state)
        begun = {s for s, _ in tried}
        for step in line.plan(state.quick):
            if self._over(step.structure, state):
                continue
            config = candidates.key(step.ranked.config)[:5] if step.ranked else None
            if (step.ranked is None and step.structure.key not in begun) or (
                step.ranked is not None and (step.structure.key, config) not in tried
            ):
                yield line.proposal(step, self.hardware)

    def _whole(self, proposal: Proposal, line: Line, state: State) -> Proposal:
        """With the time of the whole module, of which the program is one region."""
        if line.region is None:
            return proposal
        standing = [(line.region.ops, resolve(check(proposal.text).program, self.hardware.sms))]
        for number, t in state.standing(line.cls).items():
            if number != line.number:
                standing.append((self.ops(number), resolve(check(t.text).program, self.hardware.sms)))
        ms, _ = expected_ms(self.graph, standing, self.hardware, line.cls)
        return replace(proposal, predicted_ms=ms)

    def _tried(self, line: Line, state: State) -> set[tuple]:
        """(structure, configuration of its main stage) of every trial of the line."""
        out = set()
        for t in state.of(line.cls):
            found, structure, config = self.programs.found(line.cls, t.text)
            if found is line:
                out.add((structure.key, candidates.key(config)[:5] if config else None))
        return out

    # ---- which part of the module a program is ----

    def region(self, text: str) -> int:
        """The number of the region that a program stands for; 0 where it stands for the whole module."""
        return self.programs.region(text)

    def ops(self, region: int) -> tuple[str, ...]:
        """The operations of a region; () of the whole module."""
        return next((r.ops for r in self.regions if r.number == region), ()) if region else ()

    def algebraic(self, text: str, cls: str) -> Algebraic | None:
        """What a program leaves out of the work that the module asks for; None of one that does it all."""
        line = self.programs.found(cls, text)[0]
        return line.algebraic if line is not None else None

    def bind(self, text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Parameters and results of a program as tensors of the graph. Raises TrialError("check")."""
        return self.programs.bind(text)

    # ---- for the next problem ----

    def learned(self, trials: tuple[Finished, ...], where: str) -> list:
        """What measured trials teach the next problem: each line's fastest, and its structures' promises kept."""
        found = []
        for line in self.all:
            if line.algebraic:
                continue
            own = [t for t in trials if t.cls == line.cls and t.region == line.number and t.by == "strategy"]
            best = min((t for t in own if t.ms is not None and t.clean), key=lambda t: t.part, default=None)
            if best is not None:
                entry = memory.won(where, line.cls, best.backend, best.text, best.part, self.hardware.sms, line.main)
                found += [entry] if entry else []
            made = []
            for t in own:
                _, structure, _ = self.programs.found(line.cls, t.text)
                if structure is not None:
                    step = Step(structure)
                    if t.text == line.text(step):
                        ms = t.part if t.ms is not None and t.clean else None
                        made.append((structure.words, structure.ms, ms))
            found += memory.outcomes(made, where, line.cls)
        return found


def _plain(program: Program) -> Program:
    """The same pipeline with its configuration left open; precision and back end stay as the author wrote them."""

    def plain(s: ir.Stage) -> ir.Stage:
        kept = Config(compute=s.config.compute, backend=s.config.backend) if isinstance(s, Collective) else None
        return s if kept is None else replace(s, config=kept)

    return replace(program, stages=tuple(plain(s) for s in program.stages))
