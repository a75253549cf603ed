"""The script of `cutegen`: one evolving kernel, depth after depth.

A depth writes a candidate and tries it. A candidate that does not pass is fixed, with the step and the words of its
failure, and after the last fix the depth is written anew. A depth that passes gives the evolving kernel, faster or not;
one that does not leaves the kernel as it is. Each decision logs one `Show`, so the page draws what the script decided.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from engine.llm.prompts import clip
from engine.llm.prompts import facts as prompt_facts
from engine.llm.replies import Analysis
from engine.session.fold.view import COUNTING
from engine.strategies.api import Finished, Profile, Reply, Script, Show, Verb
from engine.strategies.cutegen.menu import MENUS, item
from engine.strategies.cutegen.workload import REVEAL, TITLES, workload
from engine.strategies.writing import PROFILE_TEXT, UNUSABLE, Over, Writer
from engine.words import all_of

if TYPE_CHECKING:
    from engine.strategies.cutegen.options import CutegenOptions

MOST_CHECKS = 4  # lines of evidence in a prompt of the role fix
WORDS = 300  # characters of a text that the page shows
NOTHING = "No candidate passed. Fixes: {}. Regenerations: {}."


def passes(trial: Finished) -> bool:
    """Whether a candidate is right and honest. A kernel may be so without a time, where nothing can time it."""
    if trial.failed:
        return False
    return trial.clean or (trial.untimed and trial.verdict in COUNTING)


class Evolution:
    """One session. `base`: the evolving kernel, the last candidate that passed."""

    def __init__(self, writer: Writer, options: CutegenOptions):
        self.writer, self.options = writer, options
        self.work = workload(writer.problem.graph)
        self.base: Finished | None = None
        self.fixes = self.regenerations = 0
        self._read: dict[int, tuple[dict[str, Any] | None, Analysis | None]] = {}  # trial -> its profile, what it shows

    @property
    def reveal(self) -> int | None:
        """The first depth whose prompt holds a profile; None: no depth has one."""
        return {"never": None, "always": 1}.get(self.options.profile, REVEAL[self.work.cls])

    def run(self) -> Script:
        o, w = self.options, self.writer
        yield from self._show("workload", self._workload())
        self.base = self._given()
        if self.base is not None:
            yield from self._ladder(0, None, None, "given", [], self.base)
        elif not (yield from self._depth(0)):
            return w.stop or NOTHING.format(self.fixes, self.regenerations)
        for depth in range(1, o.depths + 1):
            if w.stop:
                return w.stop
            yield from self._depth(depth)
        return w.stop or all_of(o.depths, "depth")

    # ---- a depth ----

    def _depth(self, depth: int) -> Generator[Verb, Any, bool]:
        """Write, try and mend the candidate of a depth; whether one passed. Raises Over."""
        base, numbers, trial = self.base, [], None
        yield from self._ladder(depth, base, None, "started", numbers, None)
        try:
            facts = (yield from self._profile(depth)) if depth else {}
            for regeneration in range(1 + self.options.regenerations):
                trial = yield from self._write(depth, regeneration, facts)
                numbers.append(trial.number)
                trial = yield from self._mend(depth, trial, numbers, regeneration)
                if passes(trial) or self.writer.stop:
                    break
        except Over:
            yield from self._ladder(depth, base, trial, "stopped", numbers, None)
            raise
        passing = trial is not None and passes(trial)
        if passing:
            self.base = trial
        state = "passed" if passing else "stopped" if self.writer.stop else "left out"
        yield from self._ladder(depth, base, trial, state, numbers, trial if passing else None)
        return passing

    def _write(self, depth: int, regeneration: int, facts: dict[str, Any]) -> Generator[Verb, Any, Finished]:
        o = self.options
        self.regenerations += bool(regeneration)
        facts = self._facts() | facts | {"regeneration": regeneration, "regenerations": o.regenerations}
        if not depth:
            return (yield from self._attempt("generate", None, facts))
        facts |= {"depth": depth, "depths": o.depths, "item": item(self.work.cls, depth), "base": self._shown()}
        return (yield from self._attempt("optimise", self.base, facts))

    def _attempt(self, role: str, parent: Finished | None, facts: dict[str, Any]) -> Generator[Verb, Any, Finished]:
        """A candidate that a role writes, tried. Raises Over."""
        w, number = self.writer, parent.number or None if parent else None
        _, verb, _ = yield from w.candidate_of(f"cutegen/{role}", w.expects, number, **w.facts(**facts))
        return (yield from w.tried(verb))

    def _mend(
        self, depth: int, trial: Finished, numbers: list[int], regeneration: int
    ) -> Generator[Verb, Any, Finished]:
        """The candidate after its fixes. A reply without a candidate has nothing to fix."""
        o = self.options
        for fix in range(1, o.fixes + 1):
            if passes(trial) or self.writer.stop or self.writer.changes.get(trial.number) == UNUSABLE:
                break
            yield from self._debug(depth, trial, "fix", fix, regeneration)
            self.fixes += 1
            facts = self._facts() | {
                "failed": _failure(trial), "fix": fix, "fixes": o.fixes,
                "item": item(self.work.cls, depth) if depth else None,
            }  # fmt: skip
            trial = yield from self._attempt("fix", trial, facts)
            numbers.append(trial.number)
        if not passes(trial) and not self.writer.stop:
            step = "regenerate" if regeneration < o.regenerations else "leave out"
            yield from self._debug(depth, trial, step, None, regeneration)
        return trial

    # ---- the profile ----

    def _profile(self, depth: int) -> Generator[Verb, Any, dict[str, Any]]:
        """The facts of the evolving kernel's profile for a prompt; none before the depth that reveals it."""
        if self.reveal is None or depth < self.reveal:
            return {}
        number = self.base.number
        if number not in self._read:
            self._read[number] = yield from self._look(depth)
        profile, derived = self._read[number]
        return {"profile": profile, "derived": derived}

    def _look(self, depth: int) -> Generator[Verb, Any, tuple[dict[str, Any] | None, Analysis | None]]:
        """Take the profile, have the role `derive` write down what it shows, and log both."""
        number, derived, why = self.base.number, None, ""
        reply: Reply = yield Profile(number)
        self.writer.state = reply.state
        profile = None if reply.refusal or not reply.text else {"number": number, "text": reply.text[:PROFILE_TEXT]}
        if profile is None:
            why = reply.reason or "The profiler wrote nothing."
        else:
            facts = self._facts() | {
                "profile": profile, "base": self._shown(), "depth": depth, "item": item(self.work.cls, depth),
            }  # fmt: skip
            reply = yield from self.writer.ask("cutegen/derive", Analysis, **self.writer.facts(**facts))
            derived = reply.value if isinstance(reply.value, Analysis) else None
            why = "" if derived else reply.reason
        yield from self._show(
            "profile_revealed",
            {
                "depth": depth, "trial": number, "first": not self._read, "words": clip(why, WORDS),
                "profile": profile is not None,
                "bottleneck": clip(derived.bottleneck, WORDS) if derived else "",
                "observations": [clip(line, WORDS) for line in derived.observations] if derived else [],
            },
        )  # fmt: skip
        return profile, derived

    # ---- facts of prompts ----

    def _given(self) -> Finished | None:
        """The candidate that the session's owner handed in before the script began, where it passed."""
        handed = [t for t in self.writer.state.trials if t.by == "owner" and t.form == self.writer.form and passes(t)]
        return handed[-1] if handed else None

    def _facts(self) -> dict[str, Any]:
        return {
            "workload": {"title": TITLES[self.work.cls], "why": self.work.why}, "base": None, "failed": None,
            "item": None, "derived": None, "depth": 0, "regeneration": 0,
        }  # fmt: skip

    def _shown(self) -> dict[str, Any]:
        """The evolving kernel for a prompt."""
        t = self.base
        return {"number": t.number, "words": prompt_facts.words(t), "text": t.text[: prompt_facts.MOST_TEXT]}

    # ---- what the page shows ----

    def _show(self, topic: str, facts: dict[str, Any]) -> Generator[Verb, Any, None]:
        self.writer.state = yield Show(topic, facts)

    def _workload(self) -> dict[str, Any]:
        o = self.options
        return {
            "class": TITLES[self.work.cls], "why": clip(self.work.why, WORDS), "form": self.writer.form,
            "depths": o.depths, "fixes": o.fixes, "regenerations": o.regenerations, "profile": o.profile,
            "reveal": self.reveal, "menu": [one.title for one in MENUS[self.work.cls]],
        }  # fmt: skip

    def _ladder(
        self, depth: int, base: Finished | None, last: Finished | None, state: str, numbers: list[int],
        passing: Finished | None,
    ) -> Generator[Verb, Any, None]:  # fmt: skip
        """A rung of the ladder, when its depth starts and when it ends. `base`: the kernel that it starts from;
        `passing`: its result; `last`: its last trial. Its best is that of the class of the kernel that evolves."""
        evolving, ended = passing or base, passing or last
        best = self.writer.state.best(evolving.cls) if evolving else self.writer.best()
        step = item(self.work.cls, depth) if depth else None
        yield from self._show(
            "depth",
            {
                "depth": depth, "state": state, "item": step.title if step else "first kernel",
                "what": step.what if step else "A right kernel to start from.",
                "base": base.number if base else None, "base_ms": base.ms if base else None,
                "trials": [n for n in numbers if n], "trial": passing.number if passing else None,
                "ms": passing.ms if passing else None, "kind": passing.kind if passing else "",
                "speedup": passing.speedup if passing else None,
                "words": clip(prompt_facts.words(ended), WORDS) if ended else "",
                "best": best.number if best else None, "best_ms": best.ms if best else None,
                "fixes": self.fixes, "regenerations": self.regenerations,
            },
        )  # fmt: skip

    def _debug(
        self, depth: int, trial: Finished, then: str, fix: int | None, regeneration: int
    ) -> Generator[Verb, Any, None]:
        """What a candidate failed at, and what follows: fix | regenerate | leave out."""
        yield from self._show(
            "debug",
            {
                "depth": depth, "trial": trial.number or None, "step": _step(trial), "then": then, "fix": fix,
                "regeneration": regeneration, "words": clip(prompt_facts.words(trial), WORDS),
            },
        )  # fmt: skip


def _step(trial: Finished) -> str:
    """The step at which a candidate did not pass; `integrity` for one that ran and does not count."""
    return trial.failed or "integrity"


def _failure(trial: Finished) -> dict[str, Any]:
    """What the role fix is told of a candidate: its step, the words, the compiler's log and the failing checks."""
    checks = [str(line["said"]) for line in trial.evidence if line.get("verdict") not in COUNTING and line.get("said")]
    return prompt_facts.failure(trial) | {"step": _step(trial), "checks": checks[:MOST_CHECKS]}


__all__ = ["Evolution", "passes"]
