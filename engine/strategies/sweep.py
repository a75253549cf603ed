"""Try every legal configuration of one structure, one trial each: to teach what a clause does, or to tune by hand.

One product or convolution of the program is varied (tile, cluster, schedule, scheduler, swizzle) over the values that
`auto` chooses from, with split_k by 2, 4, 8 and 16; the rules of the language decide which combinations are legal.
Everything else stays. The session's stop rule (eps, window) does not end a sweep, because a person wants the whole
table; only the budget of trials and `limit` end it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product, zip_longest
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from dsl.ir import Collective, Config, Program, Scheduler
from dsl.printer import to_text
from dsl.resolve import resolve
from dsl.rules import legal
from engine.strategies import api
from engine.strategies.api import Candidate, Script, Strategy, Try, Unsuitable
from engine.words import count
from sol.attainable import collective_time, predict, product_of
from sol.hardware import Hardware

if TYPE_CHECKING:
    from engine.strategies.problem import Part, Prepared

CLAUSES = ("tile", "cluster", "schedule", "scheduler", "swizzle")
SPLITS = (2, 4, 8, 16)


class SweepOptions(api.Options):
    stage: str = Field(
        "", max_length=64, description="Stage to vary, by its name; empty: the product that takes longest"
    )
    structure: int = Field(1, ge=1, le=8, description="Structure of the program: 1 is the one expected to be fastest")
    region: int = Field(0, ge=0, description="Region of a module that is no single program; 0: the one with most work")
    order: Literal["predicted", "listed", "shuffled"] = Field(
        "predicted",
        description="predicted: the model's fastest first, swizzle by swizzle; listed: clause by clause; shuffled: by "
        "the seed",
    )
    limit: int = Field(0, ge=0, description="Trials of each precision class at most; 0: no limit beside the budget")


class Sweep(Strategy):
    """See engine.strategies.api.Strategy."""

    name = "sweep"
    title = "Sweep"
    about = "Tries every legal configuration of one structure. The stop rule does not end it; the budget does."
    Options = SweepOptions

    def run(self, problem: Prepared) -> Script:
        tried, trial = 0, None
        # In turns, so that a small budget reaches every class.
        for attempt in chain.from_iterable(zip_longest(*(self._tries(problem, cls) for cls in problem.classes))):
            if attempt is None:
                continue
            if (trial is not None and trial.state.stop) or problem.cancelled():
                return trial.state.stop if trial is not None else "The sweep was stopped."
            trial = yield attempt
            tried += 1
        return f"The sweep is over: {count(tried, 'configuration')} tried."

    def _tries(self, problem: Prepared, cls: str) -> Iterator[Try]:
        """The configurations of one class, each as a trial. Raises Unsuitable."""
        part = self._part(problem, cls)
        if self.options.structure > len(part.structures):
            known = count(len(part.structures), "structure")
            raise Unsuitable("no_structure", f"the program has {known} in {cls}; give structure a number up to that")
        base = part.structures[self.options.structure - 1]
        stage = self._stage(base.base, problem.hardware)
        configs = list(configurations(base.base, stage, base.backend))
        self._sort(configs, base.base, stage, problem)
        for number, config in enumerate(configs[: self.options.limit or None], 1):
            program = varied(base.base, stage, config)
            yield Try(
                Candidate(to_text(program), cls, base.backend), f"{stage.name}: {words(config)}",
                f"configuration {number} of {len(configs)} of: {base.words}",
                predicted_ms=predict(resolve(program, problem.hardware.sms), problem.hardware).ms,
            )  # fmt: skip

    def _part(self, problem: Prepared, cls: str) -> Part:
        """The requested region, or the one whose programs are expected to take longest."""
        parts = problem.of(cls)
        if not self.options.region:
            return max(parts, key=lambda part: part.structures[0].ms)
        chosen = next((part for part in parts if part.number == self.options.region), None)
        if chosen is None:
            numbers = ", ".join(str(part.number) for part in parts if part.number)
            there = f"its regions are {numbers}" if numbers else "it is one program; leave region out"
            raise Unsuitable("no_region", f"the module has no region {self.options.region} in {cls}: {there}")
        return chosen

    def _stage(self, program: Program, hardware: Hardware) -> Collective:
        """The varied stage of the program. Raises Unsuitable if there is none."""
        types = legal.types_of(program)
        stages = {s.name: s for s in program.stages if isinstance(s, Collective) and legal.configured(s, types)}
        if not stages:
            raise Unsuitable("no_product", "a sweep varies a product or a convolution, and the program has none")
        if self.options.stage:
            if self.options.stage not in stages:
                names = ", ".join(stages)
                raise Unsuitable(
                    "no_stage", f"the program has no stage `{self.options.stage}` to vary; write one of: {names}"
                )
            return stages[self.options.stage]
        times = {s.name: s.ms for s in predict(resolve(program, hardware.sms), hardware).stages}
        return max(stages.values(), key=lambda s: times.get(s.name, 0.0))

    def _sort(self, configs: list[Config], program: Program, stage: Collective, problem: Prepared) -> None:
        if self.options.order == "shuffled":
            problem.rng.shuffle(configs)
        elif self.options.order == "predicted":
            priced = product_of(program, stage)

            def swizzle_then_time(config: Config) -> tuple[int, float]:
                # The model gives most swizzles one time: such configurations would stand side by side.
                ms = collective_time(program, replace(stage, config=config), problem.hardware, priced).ms
                return legal.SWIZZLES.index(config.swizzle) if config.swizzle in legal.SWIZZLES else 0, ms

            configs.sort(key=swizzle_then_time)


def configurations(program: Program, stage: Collective, backend: str) -> Iterator[Config]:
    """The legal configurations of a stage for a back end (cute | cpp). Clauses that the program fixes stay."""
    p, fixed = legal.program_problem(program, stage), stage.config
    choices = {
        "tile": legal.tiles_for(p), "cluster": legal.clusters(p), "schedule": legal.schedules(p),
        "scheduler": [Scheduler("persistent"), Scheduler("stream_k"), *(Scheduler("split_k", n) for n in SPLITS)],
        "swizzle": legal.SWIZZLES,
    }  # fmt: skip
    values = []
    for clause in CLAUSES:
        set_by_author = vars(fixed)[clause]
        alone = [v for v in choices[clause] if not legal.objections(p, replace(fixed, **{clause: v}), backend)]
        values.append([set_by_author] if set_by_author is not None else alone or [None])
    for chosen in product(*values):
        config = replace(fixed, **dict(zip(CLAUSES, chosen, strict=True)))
        if p.kind == "rowmajor" and config.stages is None:
            config = replace(config, stages=legal.auto_stages(p, config.tile, None))
        if not legal.objections(p, config, backend):
            yield config


def varied(program: Program, stage: Collective, config: Config) -> Program:
    """The program with another configuration of one stage."""
    changed = tuple(replace(s, config=config) if s.name == stage.name else s for s in program.stages)
    return replace(program, stages=changed)


def words(config: Config) -> str:
    """`tile 128x128x64, cluster 2x1x1, ...`: the clauses that are set."""
    return ", ".join(f"{c} {_value(vars(config)[c])}" for c in CLAUSES if vars(config)[c] is not None)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return legal.dims(value)
    if isinstance(value, Scheduler):
        return f"split_k({value.splits})" if value.kind == "split_k" else value.kind
    return str(value)


STRATEGY = Sweep
