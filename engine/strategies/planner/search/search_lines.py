"""One line of search: the structures of one region in one precision class, and the plan of their trials.

The plan starts with the best configuration of a similar problem if there is one (engine.strategies.planner.memory),
else with every choice left to the compiler, or with the model's best one where that is far ahead. Then come, in turns,
the model's best configurations and the other structures, and last what promises little. `triage`
(sol.triage) orders the structures: by the model's promise, discounted by how well such promises held.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dsl import ir
from dsl.ir import Collective, Config, Conv, Program
from dsl.printer import to_text
from engine.devices import Binding
from engine.strategies.api import Candidate, Try
from engine.strategies.planner.memory import Memory, Won
from engine.strategies.planner.search import build_cost, candidates
from engine.strategies.planner.search.candidates import Ranked
from engine.strategies.planner.search.guard_risk import chance, depth, expected_ms
from engine.strategies.planner.search.structures import IN_TF32, SCALED, Structure, prediction
from engine.strategies.problem import Part
from sol.hardware import Hardware
from sol.triage import Hypothesis, triage

SEEDS = {"cute": 4, "cpp": 2}
QUICK = 2  # this many times more candidates are timed quickly than are then tried in full
CASTS = {
    "f16": "operands cast to f16, timed",
    "bf16": "operands cast to bf16, timed",
    "fp8": "operands scaled by rows and cast to e4m3, timed",
}
GUARDED = "operands cast to f16 under a guard (all again in tf32 or f32 where f16 lacks their range), timed"
PLAIN = "each operation as it comes"
# A search opens with what the compiler chooses, or a convolution's with what won elsewhere, unless the model expects it
# to take this many times as long as its best tile. Of 19 transposed convolutions with rows of whole 16 bytes on an H200
# (engine/results, kernelbench-248) the model was off by 3% in the mean and by 39% at most, whichever tile they had.
OPENS = 1.2
# What won elsewhere on a product may disagree more with the model. At 1.45 times its best tile the model was right: a
# batched product took 1.25 ms for 0.82 (engine/results, kernelbench-146).
FAR = 1.4
# A structure waits for the rest of the plan if the model expects it to take this many times as long as the first one,
# and less is enough for one that nvcc builds: of 80 such trials on an H200 (engine/results, kernelbench-248-rows and
# kernelbench-level2-convs) none was the best, and each held its session up for 2 to 25 s.
LATE, DEAR = 1.6, 1.3


@dataclass(frozen=True)
class Step:
    """A planned trial: a structure with everything auto (`ranked` None) or in one configuration; `won`: the problem on
    which that configuration was the best; `late`: it waits for all others."""

    structure: Structure
    ranked: Ranked | None = None
    won: Won | None = None
    late: bool = False


@dataclass
class Line:
    """`part`: the work; `structures`: its own copies of the part's structures, the first one to be tried first;
    `eager`: PyTorch's expected time for the part in ms; `promises`: structure -> triage's words for it."""

    part: Part
    eager: float = 0.0
    memory: Memory = field(default_factory=Memory)
    sms: int = 132
    promises: dict[str, str] = field(default_factory=dict)
    structures: list[Structure] = field(init=False)
    opening: Step | None = field(init=False, default=None)  # the first trial where nothing is remembered

    def __post_init__(self) -> None:
        self.structures = [replace(s) for s in self.part.structures]  # ranking changes them

    @property
    def cls(self) -> str:
        return self.part.cls

    @property
    def bindings(self) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        return self.part.bindings

    @property
    def number(self) -> int:
        """The region's number; 0 if the program is the whole module."""
        return self.part.number

    @property
    def backend(self) -> str:
        return self.structures[0].backend

    @property
    def light(self) -> bool:
        """Return True if a trial of the first structure builds in seconds."""
        return build_cost.cost(self.structures[0].base, self.backend) < build_cost.LIGHT

    @property
    def base(self) -> Program:
        return self.structures[0].base

    @property
    def main(self) -> str:
        return self.structures[0].main

    @property
    def ranked(self) -> list[Ranked]:
        return self.structures[0].ranked

    @property
    def saved(self) -> float:
        """Milliseconds that the first structure is expected to save."""
        return self.eager - self.structures[0].ms

    def begin(self, limit: float, hw: Hardware) -> None:
        """Sort the structures in triage's order, a guarded one by what it takes in the mean where its guard may trip.
        `limit`: t_sol of what they compute, in ms."""
        plain = next((s for s in self.structures if s.words == PLAIN), self.structures[-1])
        offered = [Hypothesis(s.words, s.words, plain.ms / expected_ms(s.ms, s.base, hw)) for s in self.structures]
        ranked = triage(offered, plain.ms / limit if limit > 0 else 1.0, self.memory.outcomes)
        by_words = {s.words: s for s in self.structures}
        self.structures = [by_words[r.hypothesis.action] for r in ranked]
        self.promises = {r.hypothesis.action: r.why for r in ranked if self.memory.outcomes.of(r.hypothesis.action)}
        self.opening = self._opening(hw)

    def _opening(self, hw: Hardware) -> Step:
        """Every choice left to the compiler, which knows the product alone: where what follows it fits into other tiles
        and the model expects far less time there, these."""
        first = self.structures[0]
        if first.ranked and not configured(first.first):
            best = Step(first, first.ranked[0])
            if OPENS * prediction(self.program(best), hw).ms < first.ms:
                return best
        return Step(first)

    # ---- what is tried ----

    def plan(self, quick: dict[str, float | None] | None = None, failing: bool = False) -> list[Step]:
        """The trials planned before any result. `quick`: program -> quick time, of which the better half of the seeds
        stays, before the other structures. The model's first choice stays without one, too: a busy GPU may have
        disturbed it, and it costs only a trial. `failing`: no result was right, so no other structure waits."""
        seeds, timed = self.seeds(), []
        if quick:
            pool = self.seeds(QUICK)
            timed = [(quick[t], i) for i, s in enumerate(pool) if quick.get(t := self.text(s)) is not None]
            if timed:
                seeds = [pool[i] for _, i in sorted(timed)][: -(-len(timed) // 2)]
                if quick.get(self.text(pool[0])) is None:
                    seeds.insert(0, pool[0])
        opening = self.opening or Step(self.structures[0])
        out = self.remembered() or [opening]
        if out[0].structure is not opening.structure:
            out.append(opening)
        seeds = [s for s in seeds if s.ranked is not out[0].ranked]
        others = [Step(s, late=not failing and self._waits(s)) for s in self.structures[1:]]
        soon, late = [s for s in others if not s.late], [s for s in others if s.late]
        while seeds or soon:
            out += [*seeds[:1], *soon[:1]] if timed else [*soon[:1], *seeds[:1]]
            seeds, soon = seeds[1:], soon[1:]
        return out + sorted(late, key=lambda step: _cost(step.structure))

    def _waits(self, s: Structure) -> bool:
        first = self.structures[0]
        return s.ms > (DEAR if _cost(s) > _cost(first) == 0 else LATE) * first.ms

    def seeds(self, times: int = 1) -> list[Step]:
        seeds = candidates.seeds(self.ranked, times * SEEDS["cute" if self.light else self.backend])
        return [Step(self.structures[0], r) for r in seeds]

    def remembered(self) -> list[Step]:
        """The best configuration of the most similar problem, of the first structure that has one and is not expected
        to be far slower than the best."""
        near = (s for s in self.structures if s.ms <= OPENS * self.structures[0].ms)
        return next((steps for s in near if (steps := self._remembered(s))), [])

    def _remembered(self, first: Structure) -> list[Step]:
        """The same of one structure, if it is legal here and the model does not expect another one to be far better:
        what follows a product here may fit into other tiles."""
        stage = next((s for s in first.base.stages if s.name == first.main), None)
        if not isinstance(stage, Collective):
            return []
        far = OPENS if isinstance(stage, Conv) else FAR  # M, N and K say less of a convolution
        settings = {candidates.change(None, r.config): r for r in first.ranked}
        # Each back end groups tiles in its own way, so what won on the other one is known by the rest of its clauses.
        ungrouped = {_ungrouped(s): r for s, r in reversed(settings.items())}
        for w in self.memory.like(first.base, stage, self.cls, first.backend):
            same = settings.get(w.settings)
            if same is None and w.backend != first.backend:
                same = ungrouped.get(_ungrouped(w.settings))
            if same is not None and same.ms <= far * first.ranked[0].ms:
                return [Step(first, same, w)]
        return []

    def text(self, step: Step) -> str:
        return to_text(self.program(step))

    def program(self, step: Step) -> Program:
        if step.ranked is None:
            return step.structure.first
        stages = tuple(
            replace(s, config=step.ranked.config) if isinstance(s, Collective) and s.name == step.structure.main else s
            for s in step.structure.base.stages
        )
        return replace(step.structure.base, stages=stages)

    # ---- in words ----

    def proposal(self, step: Step, hw: Hardware, *, parent: int | None = None, before: Config | None = None) -> Try:
        """The step as a trial; `parent`: the trial that it differs from in one clause, whose configuration is `before`.
        `predicted_ms` is the program's own."""
        p = self.program(step)
        predicted = prediction(p, hw)
        if step.ranked is None:
            change, why = self._first(step.structure, p, predicted)
        else:
            change, why = candidates.change(before, step.ranked.config), self._configured(step, predicted.ms)
            change += SCALED if step.structure.words.endswith(SCALED) else ""
            if step.won is not None:
                why = f"won on {step.won}; {why}"
            if parent is not None:
                why = f"next to trial {parent}, the best so far: {why}"
        if step.structure.finer and IN_TF32 not in change:
            change += IN_TF32
        if self.number:
            change = f"region {self.number}: {change}"
        if self.part.algebraic is not None:
            change, why = f"algebraic: {change}", f"{self.part.algebraic.words}; {why}"
        structure = step.structure.words if step.ranked is not None or not configured(p) else ""
        settings = candidates.change(None, step.ranked.config) if step.ranked is not None else ""
        return Try(
            Candidate(to_text(p), self.cls, step.structure.backend), change, why, parent, predicted.ms,
            structure=structure, settings=settings,
        )  # fmt: skip

    def _first(self, structure: Structure, p: Program, predicted) -> tuple[str, str]:
        """The pasted program, or a lowered one with every choice left to the compiler."""
        change = "the given program" if configured(p) else "every choice left to the compiler"
        why = f"the starting point in {self.cls}; predicted {predicted.ms:.3g} ms, bound by {predicted.bound_by}"
        if len(self.structures) > 1:
            change = f"{change}; {structure.words}"
            if structure is not self.structures[0]:
                why = f"another structure; predicted {predicted.ms:.3g} ms, bound by {predicted.bound_by}"
        if structure.words in self.promises:
            why += f"; {self.promises[structure.words]}"
        if p.guard or any(casts(s) for s in p.stages):
            why += f"; {GUARDED if p.guard else CASTS.get(self.cls, 'casts timed')}"
        if risk := chance(p):
            why += f"; its guard may trip behind {depth(p)} products in a chain, which counts with {risk:.0%}"
        return change, why

    def _configured(self, step: Step, ms: float) -> str:
        t = step.ranked.time
        waves = f"{t.tiles:,} tiles on {self.sms} SMs in {t.waves} wave{'s' if t.waves != 1 else ''}"
        why = f"{waves}, {min(t.busy, 1.0):.0%} of the SMs' time used, bound by {t.work_by}; predicted {ms:.3g} ms"
        return why + ("; nvMatmulHeuristics agrees" if step.ranked.advised else "")


def _cost(structure: Structure) -> float:
    return build_cost.cost(structure.base, structure.backend)


def _ungrouped(settings: str) -> str:
    """Settings in one line without the swizzle, which is their last clause."""
    return settings.partition(", swizzle ")[0]


def casts(stage: ir.Stage) -> bool:
    """Return True if a stage only casts operands."""
    return (isinstance(stage, ir.Transform) and stage.to is not None) or getattr(stage, "op", "") == "absmax"


def configured(program: Program) -> bool:
    products = [s for s in program.stages if isinstance(s, Collective)]
    return any(getattr(s.config, c) for s in products for c in candidates.CLAUSES)
