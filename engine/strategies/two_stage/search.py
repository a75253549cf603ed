"""Stage two in verbs: each configuration that the descent asks for becomes a trial, and what came of all is shown."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.strategies.api import Finished, Script, Show, Try, Verb
from engine.strategies.two_stage.descent import Descent, Step
from engine.strategies.two_stage.effects import lines, main_effects, spread
from engine.strategies.two_stage.forms import Configuration, KernelTemplate, Tuning
from engine.strategies.two_stage.options import TwoStageOptions
from engine.strategies.two_stage.space import Config, Space
from engine.strategies.writing import Writer
from engine.words import count

MOST_REJECTED = 400  # configurations that the language rejects, each checked here without a trial

Proposed = Callable[[Space, Config, str, str, int | None], Try]


@dataclass
class Evaluator:
    """Configurations of one template as trials. `trials`: of each configuration the first one; `broken`: the instances
    that the language rejects, of every round."""

    writer: Writer
    space: Space
    number: int  # of the round
    proposed: Proposed
    trials: dict[Config, Finished] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    evaluated: int = 0
    rejected: int = 0

    def evaluate(self, step: Step, best: Config | None) -> Generator[Verb, Any, float | None]:
        """The time of a configuration in ms; None if it failed, or if the language rejects it, which takes no trial."""
        w, space = self.writer, self.space
        if self._rejects(step.config):
            self.rejected += 1
            self.broken.add(space.text(step.config))
            return None
        parent = self.trials.get(step.base if step.base is not None else space.default)
        verb = self.proposed(
            space, step.config, words(space, step.config), f"{step.phase}: {step.why}",
            parent.number if parent is not None else None,
        )  # fmt: skip
        trial = next((t for t in w.state.trials if (t.text, t.cls) == (verb.text, verb.cls)), None)
        if trial is None:
            trial = yield from w.tried(verb, instance=True)
            if not trial.number:
                return None
        self.evaluated += 1
        self.trials[step.config] = trial
        ms = time_of(trial)
        faster = ms is not None and (best is None or ms < (time_of(self.trials[best]) or float("inf")))
        row = {
            "round": self.number, "place": self.evaluated, "trial": trial.number, "settings": space.named(step.config),
            "phase": step.phase, "why": step.why[:200], "ms": ms, "best": faster,
            "outcome": f"failed at {trial.failed}" if trial.failed else trial.verdict, **_resources(trial),
        }  # fmt: skip
        w.state = yield Show("search", row)
        return ms

    def again(self, config: Config) -> Generator[Verb, Any, float | None]:
        """Another measurement of a configuration."""
        before = self.trials[config]
        trial = yield from self.writer.tried(
            self.proposed(self.space, config, f"trial {before.number} again", "repeat of the best", before.number),
            instance=True,
        )
        return time_of(trial) if trial.number else None

    def _rejects(self, config: Config) -> bool:
        """Whether the rules of the language reject an instance, or no back end takes it."""
        if isinstance(self.space.template, KernelTemplate):
            return False
        from dsl.check.program import check
        from dsl.compile import compile as generate

        program = check(self.space.text(config)).program
        return program is None or not generate(program, self.writer.problem.hardware.sms).sources


class Search:
    """One round's search. `first`: the trial of the default instance; `preset`: configurations in place of a search;
    `known`: the configurations that earlier rounds evaluated, which cost no evaluation again."""

    def __init__(
        self, evaluator: Evaluator, options: TwoStageOptions, first: Finished,
        preset: Sequence[Mapping[str, int | str]] | None = None, known: Mapping[Config, Finished] | None = None,
    ):  # fmt: skip
        self.evaluator, self.options, self.preset = evaluator, options, preset
        self.space, self.writer = evaluator.space, evaluator.writer
        self.known = dict(known or {})
        evaluator.trials |= self.known | {self.space.default: first}
        self.ms: dict[Config, float | None] = {config: time_of(trial) for config, trial in evaluator.trials.items()}
        self.skipped = 0  # preset configurations that are not allowed ones of this template
        self.repeats: list[float] = []

    def run(self, corners: Sequence[Configuration], tuning: Tuning | None) -> Generator[Verb, Any, list[str]]:
        """Search, repeat the best, and show it; the lines for the plan."""
        why = yield from (self._tried_preset() if self.preset is not None else self._descended(corners, tuning))
        yield from self._repeated()
        return (yield from self.report(why))

    def _descended(self, corners: Sequence[Configuration], tuning: Tuning | None) -> Script:
        """The descent, until its evaluations are used; why it ended."""
        named = [(c, "corner case of the role test") for c in corners]
        named += [(c, "start of the role tune") for c in (tuning.starts if tuning is not None else ())]
        starts = [(c, why) for one, why in named if (c := self.space.config(one.values())) is not None]
        descent = Descent(
            self.space, self.writer.problem.rng, starts, tuning.order if tuning is not None else (), self.ms,
            self.options.screened,
        )  # fmt: skip
        self.ms, walk = descent.ms, descent.walk()
        step = _sent(walk, None)
        while step is not None:
            if self.writer.stop:
                return f"The search stopped: {self.writer.stop}"
            if self.evaluator.evaluated >= self.options.evaluations:
                return f"The search used its {count(self.options.evaluations, 'evaluation')}."
            if self.evaluator.rejected >= MOST_REJECTED:
                return "The search stopped: the language rejects most of these configurations."
            step = _sent(walk, (yield from self.evaluator.evaluate(step, descent.best)))
        return "Every configuration inside the limits was evaluated."

    def _tried_preset(self) -> Script:
        if not self.preset:
            return "No configuration is preset, so the default instance alone was evaluated."
        for settings in self.preset:
            config = self.space.config(settings)
            if config is None:
                self.skipped += 1
                continue
            if config in self.ms:
                continue
            if self.writer.stop:
                return f"The preset configurations were not all evaluated: {self.writer.stop}"
            best = min((c for c, ms in self.ms.items() if ms is not None), key=lambda c: self.ms[c], default=None)
            self.ms[config] = yield from self.evaluator.evaluate(Step(config, "preset", "preset"), best)
        skipped = f"; {self.skipped} are none of this template" if self.skipped else ""
        return f"The preset configurations were evaluated{skipped}."

    def _repeated(self) -> Generator[Verb, Any, None]:
        """Further measurements of the best, where times are measured."""
        best = self.best()
        if best is None or best in self.known or self.writer.problem.device_kind != "measured":
            return
        self.repeats = [self.ms[best]]
        for _ in range(self.options.repeats):
            if self.writer.stop:
                return
            ms = yield from self.evaluator.again(best)
            if ms is not None:
                self.repeats.append(ms)

    def report(self, why: str) -> Generator[Verb, Any, list[str]]:
        """Show what was found; the same in lines for the plan."""
        effects, best, default = main_effects(self.space, self.ms), self.best(), self.ms[self.space.default]
        spread_of_best = spread(self.repeats)
        facts = {
            "round": self.evaluator.number, "why": why, "effects": effects, "evaluated": self.evaluator.evaluated,
            "known": len(self.known), "rejected": self.evaluator.rejected,
            "failed": sum(ms is None for ms in self.ms.values()),
            "default": self.space.named(self.space.default), "default_ms": default,
            "best": None if best is None else self.space.named(best),
            "best_ms": None if best is None else self.ms[best],
            "trial": self.evaluator.trials[best].number if best is not None else None,
            "repeats": self.repeats, "spread": spread_of_best, "no_spread": "" if spread_of_best else self._no_spread(),
            "kind": self.writer.problem.device_kind,
        }  # fmt: skip
        self.writer.state = yield Show("effects", facts)
        written = [why, *lines(effects)]
        if best is not None and default:
            gain = f"{default / self.ms[best]:.3f}x the default instance"
            written.append(f"best: {words(self.space, best)}: {self.ms[best]:.4g} ms, {gain}")
        if self.evaluator.rejected:
            written.append(f"{count(self.evaluator.rejected, 'configuration')} broke a rule of the language")
        return written

    def best(self) -> Config | None:
        """The fastest configuration that was evaluated here."""
        timed = [c for c, ms in self.ms.items() if ms is not None and c in self.evaluator.trials]
        return min(timed, key=lambda c: self.ms[c], default=None)

    def _no_spread(self) -> str:
        if self.writer.problem.device_kind != "measured":
            return "Times are predicted, and a prediction does not vary."
        if self.best() is None:
            return "No configuration has a time."
        if self.best() in self.known:
            return "The best configuration is one of an earlier round, which repeated its own best."
        return self.writer.stop or "The best configuration was measured once."


def time_of(trial: Finished) -> float | None:
    """The time of a right trial."""
    return trial.ms if trial.clean and not trial.failed else None


def words(space: Space, config: Config) -> str:
    """`tile_m 128, stages 3`, in one line."""
    return ", ".join(f"{name} {value}" for name, value in space.named(config).items())[:200]


def _resources(trial: Finished) -> dict[str, int]:
    """What the compiler says that the largest kernel takes."""
    rows = [r for r in trial.resources if isinstance(r.get("registers"), int)]
    return {
        "registers": max(r["registers"] for r in rows),
        "spills": sum(r.get("spill_bytes") or 0 for r in rows),
    } if rows else {}  # fmt: skip


def _sent(walk: Generator[Step, float | None, None], answer: float | None) -> Step | None:
    """The next step; None at the end."""
    try:
        return walk.send(answer)
    except StopIteration:
        return None


__all__ = ["Evaluator", "Search", "time_of", "words"]
