"""The default strategy: no model, no key. Lower by rules, rank by the attainable model, try few, refine the best.

For each precision class that the session allows it keeps one line of search:

  1. the structure expected to be fastest (engine.strategies.structures), every choice left to the compiler;
  2. by turns, the model's best configurations of it, spread over tile and cluster (nvMatmulHeuristics as a second
     opinion), and the other structures;
  3. neighbours of the best trial so far, one clause changed at a time, and after those the rest of its ranking.

Only the stage that takes longest is varied; the other products of the program take the model's best. Classes take
turns, cheap builds first: `cute` answers in two seconds where nvcc needs forty, so on a device that compiles at
most CPP_TRIALS of a session's trials are built by nvcc. The session's budget (sol.budget) closes a class; this
strategy ends when every class is closed or exhausted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dsl import ir
from dsl.check import check
from dsl.ir import Collective, Config, Program
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.devices import Binding, Problem, SessionRefused, TrialError
from engine.strategies import Proposal, State, candidates, program_graph
from engine.strategies.candidates import Ranked
from engine.strategies.lowering import lower
from engine.strategies.structures import Structure, opened, prediction, skeleton, structures, tune
from sol.hardware import Hardware

CPP_TRIALS = 4  # of a session, on a device where an nvcc build takes 40 s
SEEDS = {"cute": 4, "cpp": 2}
WORSE = 1.5  # a neighbour that the model expects to be this much slower than the best is not worth a trial
CASTS = {"f16": "operands cast to f16, timed", "bf16": "operands cast to bf16, timed"}


@dataclass
class _Line:
    """The search in one class: its structures, the one expected to be fastest first."""

    cls: str
    structures: list[Structure]

    @property
    def backend(self) -> str:
        return self.structures[0].backend

    @property
    def base(self) -> Program:
        return self.structures[0].base

    @property
    def main(self) -> str:
        return self.structures[0].main

    @property
    def ranked(self) -> list[Ranked]:
        return self.structures[0].ranked

    def plan(self) -> list[tuple[Structure, Ranked | None]]:
        """What is tried before anything is known: (structure, its configuration or all auto)."""
        seeds = [(self.structures[0], r) for r in candidates.seeds(self.ranked, SEEDS[self.backend])]
        others = [(s, None) for s in self.structures[1:]]
        out: list[tuple[Structure, Ranked | None]] = [(self.structures[0], None)]
        while seeds or others:
            out += [*others[:1], *seeds[:1]]
            seeds, others = seeds[1:], others[1:]
        return out


class Planner:
    """`device_kind`: measured | predicted. Raises SessionRefused when no rule lowers the problem."""

    def __init__(self, problem: Problem, classes: tuple[str, ...], hardware: Hardware, device_kind: str, seed: int = 0):
        self.hardware, self.device_kind, self.graph = hardware, device_kind, problem.graph
        self.rng = random.Random(seed)
        self.lines: dict[str, _Line] = {}
        self.notes: list[str] = []
        self._read: dict[tuple[str, str], tuple[Structure | None, Config | None]] = {}  # texts taken apart
        if problem.source_kind == "program":
            self._pasted(problem.source)
        else:
            self._lowered(problem, classes)
        self.signature = next(iter(self.lines.values())).base

    def _pasted(self, source: str) -> None:
        pasted = check(source).program
        if pasted is None:
            raise SessionRefused("bad_program", "the program does not pass its checks")
        self.inputs, self.outputs = program_graph.bindings(pasted)
        reasons: list[str] = []
        made = opened(pasted, "your program", self.hardware, reasons)
        if made is None:
            raise SessionRefused("not_covered", f"no back end takes this program: {reasons[0]}")
        made.base = _plain(pasted)
        tune(made, self.hardware)
        cls = program_graph.class_of(pasted)
        self.lines[cls] = _Line(cls, [made])

    def _lowered(self, problem: Problem, classes: tuple[str, ...]) -> None:
        lowered = lower(problem.graph)
        self.inputs, self.outputs = lowered.inputs, lowered.outputs
        wanted = lowered.classes(classes)
        if not wanted:
            raise SessionRefused(
                "no_class", f"none of the classes {', '.join(classes)} has a back end yet; allow tf32, f16 or bf16"
            )
        left_out = {}
        for cls in wanted:
            reasons: list[str] = []
            found = structures(lowered, cls, self.hardware, reasons)
            if found:
                self.lines[cls] = _Line(cls, found)
            else:
                left_out[cls] = reasons[0]
        if not self.lines:
            why = "; ".join(f"{cls}: {why}" for cls, why in left_out.items())
            raise SessionRefused("not_covered", f"the module is understood, but its program is rejected: {why}")
        self.notes = [f"{cls} is left out: {why}" for cls, why in left_out.items()]

    @property
    def classes(self) -> list[str]:
        return list(self.lines)

    # ---- which trial next ----

    def next(self, state: State) -> Proposal | None:
        for cls in self._turns(state):
            proposal = self._propose(self.lines[cls], state)
            if proposal is not None:
                return proposal
        return None

    def upcoming(self, state: State) -> list[Proposal]:
        """What is planned and not tried yet, those that nvcc must build first: they take longest."""
        out = []
        for line in sorted(self.lines.values(), key=lambda x: x.backend == "cute"):
            if line.cls not in state.closed:
                out += self._planned(line, state)
        return sorted(out, key=lambda p: p.backend == "cute")

    def _turns(self, state: State) -> list[str]:
        """Open classes, the one with the fewest trials first; `cute` counts half where nvcc would be waited for."""
        weight = 3.0 if self.device_kind == "measured" else 1.0
        own = {c: [t for t in state.of(c) if t.by == "strategy"] for c in self.lines}
        open_ = [
            c
            for c, line in self.lines.items()
            if c not in state.closed and any(not self._spent(s.backend, state) for s in line.structures)
        ]
        return sorted(
            open_,
            key=lambda c: (
                len(own[c]) * (weight if self.lines[c].backend == "cpp" else 1.0)
                + (2.5 if weight > 1 and self.lines[c].backend == "cpp" else 0),
                self.lines[c].backend == "cpp",
                list(self.lines).index(c),
            ),
        )

    def _spent(self, backend: str, state: State) -> bool:
        built = sum(t.backend == "cpp" and t.by == "strategy" for t in state.trials)
        return self.device_kind == "measured" and backend == "cpp" and built >= CPP_TRIALS

    def _propose(self, line: _Line, state: State) -> Proposal | None:
        planned = next(self._planned(line, state), None)
        if planned is not None:
            return planned
        tried = self._tried(line, state)
        best = state.best(line.cls)
        structure, config = self._found(line, best.text) if best else (None, None)
        open_ = [s for s in (structure, *line.structures) if s and s.ranked and not self._spent(s.backend, state)]
        if not open_:
            return None
        config = config if structure is open_[0] else None
        structure = open_[0]
        own = {k for s, k in tried if s == structure.key}
        near = candidates.neighbours(structure.ranked, config, own) if config else []
        limit = WORSE * structure.ranked[0].ms
        for r in [*near, *structure.ranked]:
            if candidates.key(r.config)[:5] not in own and r.ms <= limit:
                return self._proposal(line, structure, r, best.number if best and r in near else None, state)
        return None

    def _planned(self, line: _Line, state: State) -> Iterator[Proposal]:
        """The line's plan without what was tried. With nothing tried the first is the compiler's own choice, which
        a configuration of the ranking may equal."""
        tried = self._tried(line, state)
        begun = {s for s, _ in tried}
        for structure, ranked in line.plan():
            if self._spent(structure.backend, state):
                continue
            if ranked is None and structure.key not in begun:
                yield self._first(line, structure)
            elif ranked is not None and (structure.key, candidates.key(ranked.config)[:5]) not in tried:
                yield self._proposal(line, structure, ranked, None, state)

    def _first(self, line: _Line, structure: Structure) -> Proposal:
        """The pasted program itself, or a lowered one with every choice left to the compiler."""
        p = structure.first
        made = prediction(p, self.hardware)
        change = "your program" if _configured(p) else "every choice left to the compiler"
        why = f"the starting point in {line.cls}; predicted {made.ms:.3g} ms, bound by {made.bound_by}"
        if len(line.structures) > 1:
            change, why = f"{change}; {structure.words}", why if structure is line.structures[0] else (
                f"another structure; predicted {made.ms:.3g} ms, bound by {made.bound_by}"
            )  # fmt: skip
        if any(isinstance(s, ir.Transform) and s.to is not None for s in p.stages):
            why += f"; {CASTS.get(line.cls, 'casts timed')}"
        return Proposal(to_text(p), line.cls, structure.backend, change, why, None, made.ms)

    def _proposal(self, line: _Line, structure: Structure, r: Ranked, parent: int | None, state: State) -> Proposal:
        p = _with(structure, r.config)
        ms = prediction(p, self.hardware)
        old = next((t for t in state.trials if t.number == parent), None)
        before = self._found(line, old.text)[1] if old else None
        change = candidates.change(before, r.config)
        t = r.time
        waves = f"{t.tiles:,} tiles on {self.hardware.sms} SMs in {t.waves} wave{'s' if t.waves != 1 else ''}"
        why = f"{waves}, {min(t.busy, 1.0):.0%} of the SMs' time used, bound by {t.bound_by}; predicted {ms.ms:.3g} ms"
        if r.advised:
            why += "; nvMatmulHeuristics agrees"
        if parent is not None:
            why = f"next to trial {parent}, the best so far: {why}"
        return Proposal(to_text(p), line.cls, structure.backend, change, why, parent, ms.ms)

    def _tried(self, line: _Line, state: State) -> set[tuple]:
        """(structure, configuration of its main stage) of every trial of a known structure."""
        out = set()
        for t in state.of(line.cls):
            structure, config = self._found(line, t.text)
            if structure is not None:
                out.add((structure.key, candidates.key(config)[:5] if config else None))
        return out

    def _found(self, line: _Line, text: str) -> tuple[Structure | None, Config | None]:
        """The structure of a trial's program, and the resolved configuration of the stage that is varied."""
        known = self._read.get((line.cls, text))
        if known is None:
            known = self._read[line.cls, text] = self._parsed(line, text)
        return known

    def _parsed(self, line: _Line, text: str) -> tuple[Structure | None, Config | None]:
        checked = check(text)
        if not checked.ok:
            return None, None
        key = skeleton(checked.program)
        structure = next((s for s in line.structures if s.key == key), None)
        if structure is None:
            return None, None
        resolved = resolve(checked.program, self.hardware.sms)
        found = (s.config for s in resolved.stages if isinstance(s, Collective) and s.name == structure.main)
        return structure, next(found, None)

    # ---- what a program's parameters are ----

    def bind(self, text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Parameters and results of `text` as graph tensors: by name when all names fit, else in order by type."""
        program = check(text).program
        if program is None:
            raise TrialError("check", "bad_program", "the program does not pass its checks")
        want = {b.name: b for b in self.inputs}
        types = {p.name: p.type for p in self.signature.params}
        expected = ", ".join(f"{p.name}: {p.type}" for p in self.signature.params)
        if all(types.get(p.name) == p.type for p in program.params):
            inputs = tuple(want[p.name] for p in program.params)
        elif [p.type for p in program.params] == list(types.values()):
            inputs = tuple(replace(b, name=p.name) for b, p in zip(self.inputs, program.params, strict=True))
        else:
            raise TrialError("check", "signature", f"the program must take what the module takes: ({expected})")
        results = tuple(str(t) for t in program.result_types)
        promised = tuple(str(t) for t in self.signature.result_types)
        if results != promised:
            raise TrialError("check", "signature", f"the program must return {', '.join(promised)}, as the module does")
        outputs = tuple(replace(b, name=n) for b, n in zip(self.outputs, program.results, strict=True))
        return inputs, outputs


def _with(structure: Structure, config: Config) -> Program:
    stages = tuple(
        replace(s, config=config) if isinstance(s, Collective) and s.name == structure.main else s
        for s in structure.base.stages
    )
    return replace(structure.base, stages=stages)


def _plain(program: Program) -> Program:
    """The same pipeline with its configuration left open; precision and back end stay as the author wrote them."""

    def plain(s: ir.Stage) -> ir.Stage:
        kept = Config(compute=s.config.compute, backend=s.config.backend) if isinstance(s, Collective) else None
        return s if kept is None else replace(s, config=kept)

    return replace(program, stages=tuple(plain(s) for s in program.stages))


def _configured(program: Program) -> bool:
    products = [s for s in program.stages if isinstance(s, Collective)]
    return any(getattr(s.config, c) for s in products for c in candidates.CLAUSES)
