"""A strategy's view of a session: its finished trials, and the state at one point of its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

WORTH = 0.97  # of the baseline: a first program that slows the module down more than this is not used


@dataclass(frozen=True)
class Diagnosis:
    """A mistake in a program's text. Lines and columns count from 1; the end is exclusive."""

    code: str
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    help: str = ""


CANNOT_RUN = ("needs_gpu", "no_compiler")  # codes of a kernel without a verdict


@dataclass(frozen=True)
class Finished:
    """A trial that ended. `ms` is None if it failed, and for a kernel with a verdict and no time (`untimed`, `code`
    says why); `by`: strategy | owner; `clean`: it may be its class's best.

    In a module with regions, `region` is the program's region (0: the whole module) and `region_ms` the time of the
    program alone, `gain` PyTorch's own time of the region over it, and `beside` the trials whose programs ran in the
    other regions; `ms` and `speedup` (over the baseline) are always of the whole module.

    For learning: `failed` (the step), `code` and `reason` of a failure; `diagnoses` of a rejected text; `log`, the
    compiler's output; `resources` and `stages` as in events.TrialCompiled and TrialChecked; `checks`, the errors of
    each round of validation; `verdict` with its `evidence`. `state` is set only on an answer.
    """

    number: int
    text: str
    cls: str
    backend: str = ""
    by: str = "strategy"
    ms: float | None = None
    clean: bool = True
    failed: str = ""
    region: int = 0
    region_ms: float | None = None
    gain: float | None = None
    beside: tuple[int, ...] = ()
    speedup: float | None = None
    tripped: bool = False  # a guarded program whose f32 fallback was timed
    form: str = "program"
    language: str = ""
    kind: str = ""  # measured | predicted
    gap: float | None = None  # time / limit of its class
    code: str = ""
    reason: str = ""
    diagnoses: tuple[Diagnosis, ...] = ()
    log: str = ""
    resources: tuple[dict[str, Any], ...] = ()
    stages: tuple[dict[str, Any], ...] = ()
    checks: tuple[dict[str, Any], ...] = ()
    verdict: str = ""
    evidence: tuple[dict[str, Any], ...] = ()
    untimed: bool = False
    state: State | None = field(default=None, compare=False, repr=False)

    @property
    def cannot_run_here(self) -> bool:
        """Return True for a kernel that this machine cannot run, so that nothing was verified. Another one that is
        written for the same GPU ends in the same way."""
        return self.untimed and self.code in CANNOT_RUN

    @property
    def part(self) -> float:
        """Milliseconds of the program alone; infinite if it failed."""
        ms = self.ms if self.region_ms is None else self.region_ms
        return float("inf") if ms is None else ms


@dataclass(frozen=True)
class State:
    """The session at one point of its log.

    `trials`: those that ended, by number; `budget`: trials that the strategy may make; `closed`: classes whose budget
    is spent (sol.budget), with the reason in words; `quick`: program -> milliseconds of a quick timing (None: it did
    not run), a hint for the order and no result; `baselines`: class -> milliseconds of PyTorch; `stop`: why the
    strategy can run no further trial, or "".
    """

    trials: tuple[Finished, ...] = ()
    budget: int = 12
    closed: dict[str, str] = field(default_factory=dict)
    quick: dict[str, float | None] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)
    stop: str = ""

    def of(self, cls: str) -> list[Finished]:
        return [t for t in self.trials if t.cls == cls]

    def best(self, cls: str, region: int = 0) -> Finished | None:
        """The fastest correct trial. For a region, by the time of its program alone."""
        timed = [t for t in self.of(cls) if t.ms is not None and t.clean and (not region or t.region == region)]
        if not timed:
            return None
        return min(timed, key=lambda t: (t.part if region else t.ms, t.number))

    def standing(self, cls: str) -> dict[int, Finished]:
        """The programs that are in use in the module while those of another region are tried: region -> its trial. A
        program is used once it made the whole module faster than before.

        Two programs may be worth it together where each alone is not, because what lies between them costs (a cast,
        a copy). So for a region without a program in use, the fastest whose region beats PyTorch's own time of it runs
        along, until a trial beside it made the module no faster."""
        numbered = {t.number: t for t in self.trials}
        placed: dict[int, Finished] = {}
        refused: set[int] = set()
        best, clean = WORTH, [t for t in self.of(cls) if t.region and t.ms is not None and t.clean]
        for t in clean:
            if t.speedup is not None and t.speedup > best:
                partners = (numbered[n] for n in t.beside if n in numbered)
                placed, best = {**placed, **{p.region: p for p in partners}, t.region: t}, t.speedup
            else:
                refused |= set(t.beside) - {p.number for p in placed.values()}
        hopeful: dict[int, Finished] = {}
        for t in clean:
            if t.region not in placed and t.number not in refused and (t.gain or 0.0) > 1.0:
                hopeful[t.region] = min(hopeful.get(t.region, t), t, key=lambda one: (one.part, one.number))
        return hopeful | placed
