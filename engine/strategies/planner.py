"""The default strategy: no model, no key. Lower by rules, rank by the attainable model, try few, refine the best.

For each precision class that the session allows it keeps one line of search:

  1. the program with every choice left to the compiler: the point everybody can reach;
  2. the model's best configurations, spread over tile and cluster (nvMatmulHeuristics as a second opinion);
  3. neighbours of the best trial so far, one clause changed at a time, and after those the rest of the ranking.

Only the stage that takes longest is varied; the other products of the program take the model's best. Classes take
turns, cheap builds first: `cute` answers in two seconds where nvcc needs forty, so on a device that compiles at
most CPP_TRIALS of a session's trials are built by nvcc. The session's budget (sol.budget) closes a class; this
strategy ends when every class is closed or exhausted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from dsl import ir
from dsl.check import check
from dsl.compile import compile as generate
from dsl.ir import Config, Gemm, Program
from dsl.printer import to_text
from engine.devices import Binding, Problem, SessionRefused, TrialError
from engine.strategies import Proposal, State, candidates, program_graph
from engine.strategies.candidates import Ranked
from engine.strategies.lowering import lower
from sol.attainable import Attainable, predict
from sol.hardware import Hardware

CPP_TRIALS = 4  # of a session, on a device where an nvcc build takes 40 s
SEEDS = {"cute": 4, "cpp": 2}
WORSE = 1.5  # a neighbour that the model expects to be this much slower than the best is not worth a trial
CASTS = {"f16": "operands cast to f16, timed", "bf16": "operands cast to bf16, timed"}


@dataclass
class _Line:
    """The search in one class: its typed base program, and what may vary."""

    cls: str
    backend: str
    base: Program  # checked; every configuration clause but `compute` auto
    main: str  # the stage that is varied
    ranked: list[Ranked]
    first: Program | None = None  # the pasted program, when the problem is one


class Planner:
    """`device_kind`: measured | predicted. Raises SessionRefused when no rule lowers the problem."""

    def __init__(self, problem: Problem, classes: tuple[str, ...], hardware: Hardware, device_kind: str, seed: int = 0):
        self.hardware, self.device_kind = hardware, device_kind
        self.rng = random.Random(seed)
        self.lines: dict[str, _Line] = {}
        self.notes: list[str] = []
        if problem.source_kind == "program":
            pasted = check(problem.source).program
            if pasted is None:
                raise SessionRefused("bad_program", "the program does not pass its checks")
            self.inputs, self.outputs = program_graph.bindings(pasted)
            cls = program_graph.class_of(pasted)
            self._open(cls, _plain(pasted), pasted)
        else:
            lowered = lower(problem.graph)
            self.inputs, self.outputs = lowered.inputs, lowered.outputs
            wanted = lowered.classes(classes)
            if not wanted:
                raise SessionRefused(
                    "no_class", f"none of the classes {', '.join(classes)} has a back end yet; allow tf32, f16 or bf16"
                )
            reasons = {}
            for cls in wanted:
                text = to_text(lowered.program(cls))
                checked = check(text)
                if checked.ok:
                    self._open(cls, checked.program, None, reasons)
                else:
                    reasons[cls] = checked.diagnostics[0].message
            if not self.lines:
                why = "; ".join(f"{cls}: {why}" for cls, why in reasons.items())
                raise SessionRefused("not_covered", f"the module is understood, but its program is rejected: {why}")
            self.notes = [f"{cls} is left out: {why}" for cls, why in reasons.items()]
        self.signature = next(iter(self.lines.values())).base

    def _open(self, cls: str, base: Program, first: Program | None, reasons: dict[str, str] | None = None) -> None:
        """Begin a line of search with the back end that takes the program: `cute` when it can, else `cpp`."""
        compiled = generate(first or base, self.hardware.sms)
        backend = next((b for b in ("cute", "cpp") if b in compiled.sources), None)
        if backend is None:
            why = "; ".join(f"{name}: {r.message}" for name, r in compiled.refused.items())
            if reasons is None:
                raise SessionRefused("not_covered", f"no back end takes this program: {why}")
            reasons[cls] = why
            return
        gemms = [s for s in base.stages if isinstance(s, Gemm) and s.config.compute is not ir.DType.F32]
        if not gemms:  # nothing that the model ranks: the compiler's own choices are the one trial
            self.lines[cls] = _Line(cls, backend, base, "", [], first or base)
            return
        ranked = {s.name: candidates.rank(base, s, self.hardware, backend) for s in gemms}
        main = max(gemms, key=lambda s: ranked[s.name][0].ms if ranked[s.name] else 0.0)
        rest = {s.name: ranked[s.name][0].config for s in gemms if s is not main and ranked[s.name]}
        tuned = tuple(replace(s, config=rest[s.name]) if s.name in rest else s for s in base.stages)
        self.lines[cls] = _Line(cls, backend, replace(base, stages=tuned), main.name, ranked[main.name], first or base)

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
        """The seeds not tried yet, those that nvcc must build first: they take longest."""
        out = []
        for line in sorted(self.lines.values(), key=lambda x: x.backend == "cute"):
            if line.cls in state.closed or self._spent(line, state):
                continue
            tried = self._tried(line, state)
            for r in candidates.seeds(line.ranked, SEEDS[line.backend]):
                if candidates.key(r.config)[:5] not in tried:
                    out.append(self._proposal(line, r, None, state))
        return out

    def _turns(self, state: State) -> list[str]:
        """Open classes, the one with the fewest trials first; `cute` counts half where nvcc would be waited for."""
        weight = 3.0 if self.device_kind == "measured" else 1.0
        own = {c: [t for t in state.of(c) if t.by == "strategy"] for c in self.lines}
        open_ = [c for c, line in self.lines.items() if c not in state.closed and not self._spent(line, state)]
        return sorted(
            open_,
            key=lambda c: (
                len(own[c]) * (weight if self.lines[c].backend == "cpp" else 1.0)
                + (2.5 if weight > 1 and self.lines[c].backend == "cpp" else 0),
                self.lines[c].backend == "cpp",
                list(self.lines).index(c),
            ),
        )

    def _spent(self, line: _Line, state: State) -> bool:
        built = sum(t.backend == "cpp" and t.by == "strategy" for t in state.trials)
        return self.device_kind == "measured" and line.backend == "cpp" and built >= CPP_TRIALS

    def _propose(self, line: _Line, state: State) -> Proposal | None:
        own = [t for t in state.of(line.cls) if t.by == "strategy"]
        if not own:
            return self._first(line)
        if not line.ranked:
            return None
        tried = self._tried(line, state)
        seeds = candidates.seeds(line.ranked, SEEDS[line.backend])
        for r in seeds:
            if candidates.key(r.config)[:5] not in tried:
                return self._proposal(line, r, None, state)
        best = state.best(line.cls)
        config = self._config(line, best.text) if best else None
        near = candidates.neighbours(line.ranked, config, tried) if config else []
        limit = WORSE * line.ranked[0].ms
        for r in [*near, *line.ranked]:
            if candidates.key(r.config)[:5] not in tried and r.ms <= limit:
                return self._proposal(line, r, best.number if best and r in near else None, state)
        return None

    def _first(self, line: _Line) -> Proposal:
        """The pasted program itself, or the lowered one with every choice left to the compiler."""
        program = line.first
        ms = self._predict(program)
        change = (
            "your program" if program is not line.base and _configured(program) else "every choice left to the compiler"
        )
        casts = [s for s in program.stages if isinstance(s, ir.Transform)]
        why = f"the starting point in {line.cls}; predicted {ms.ms:.3g} ms, bound by {ms.bound_by}"
        if casts:
            why += f"; {CASTS.get(line.cls, 'casts timed')}"
        return Proposal(to_text(program), line.cls, line.backend, change, why, None, ms.ms)

    def _proposal(self, line: _Line, r: Ranked, parent: int | None, state: State) -> Proposal:
        program = self._with(line, r.config)
        ms = self._predict(program)
        old = next((t for t in state.trials if t.number == parent), None)
        before = self._config(line, old.text) if old else None
        change = candidates.change(before, r.config)
        t = r.time
        waves = f"{t.tiles:,} tiles on {self.hardware.sms} SMs in {t.waves} wave{'s' if t.waves != 1 else ''}"
        why = f"{waves}, {min(t.busy, 1.0):.0%} of the SMs' time used, bound by {t.bound_by}; predicted {ms.ms:.3g} ms"
        if r.advised:
            why += "; nvMatmulHeuristics agrees"
        if parent is not None:
            why = f"next to trial {parent}, the best so far: {why}"
        return Proposal(to_text(program), line.cls, line.backend, change, why, parent, ms.ms)

    def _with(self, line: _Line, config: Config) -> Program:
        stages = tuple(
            replace(s, config=config) if isinstance(s, Gemm) and s.name == line.main else s for s in line.base.stages
        )
        return replace(line.base, stages=stages)

    def _predict(self, program: Program) -> Attainable:
        return predict(generate_free(program, self.hardware.sms), self.hardware)

    def _tried(self, line: _Line, state: State) -> set[tuple]:
        out = set()
        for t in state.of(line.cls):
            config = self._config(line, t.text)
            if config is not None:
                out.add(candidates.key(config)[:5])
        return out

    def _config(self, line: _Line, text: str) -> Config | None:
        """The resolved configuration of the varied stage in a trial's program; None when it has no such stage."""
        checked = check(text)
        if not checked.ok:
            return None
        resolved = generate_free(checked.program, self.hardware.sms)
        return next((s.config for s in resolved.stages if isinstance(s, Gemm) and s.name == line.main), None)

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


def generate_free(program: Program, sms: int) -> Program:
    """The program with every `auto` filled in, without generating code."""
    from dsl.resolve import resolve

    return resolve(program, sms)


def _plain(program: Program) -> Program:
    """The same pipeline with its configuration left open; precision and back end stay as the author wrote them."""
    stages = tuple(
        replace(s, config=Config(compute=s.config.compute, backend=s.config.backend)) if isinstance(s, Gemm) else s
        for s in program.stages
    )
    return replace(program, stages=stages)


def _configured(program: Program) -> bool:
    products = [s for s in program.stages if isinstance(s, ir.Collective)]
    return any(getattr(s.config, c) for s in products for c in candidates.CLAUSES)
