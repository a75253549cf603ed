"""The script of `two_stage`: rounds of a template that is verified and a search of its parameters.

Each part logs one `Show`, from which the page is drawn: `shapes` (why there is no general configuration), `template`
(an attempt at a template, and its trial), `space` (parameters and limits with their counts), `search` (one evaluated
configuration), `effects` (what the search found) and `feedback` (what went back to the plan). Each is of bounded size.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dsl.printer import to_text
from engine.llm.prompts import facts as prompt_facts
from engine.strategies.api import Candidate, Finished, Reply, Script, Show, Try, Verb
from engine.strategies.two_stage import shapes
from engine.strategies.two_stage.forms import (
    Findings,
    KernelTemplate,
    ProgramTemplate,
    Template,
    TemplatePlan,
    Tuning,
)
from engine.strategies.two_stage.options import TwoStageOptions, read_preset
from engine.strategies.two_stage.search import Evaluator, Search
from engine.strategies.two_stage.space import MOST, BadTemplate, Space, limits_of
from engine.strategies.writing import Over, Writer
from engine.words import all_of, count

if TYPE_CHECKING:
    from engine.strategies.problem import Prepared

MOST_SHOWN = 20_000  # characters of a template in the log
MOST_WORDS = 600
RIGHT = ("clean", "minor")


@dataclass
class Tested:
    """A template whose default instance is right."""

    space: Space
    trial: Finished
    testing: Findings | None = None


class Stages:
    """One session's rounds."""

    def __init__(self, writer: Writer, options: TwoStageOptions):
        self.writer, self.options = writer, options
        self.preset = read_preset(options.preset)
        self.mistake: dict[str, Any] | None = None  # the last template that was not right
        self.searched: list[str] = []  # the templates of earlier rounds, a line each
        self.broken: set[str] = set()  # instances that the language rejects

    def run(self) -> Script:
        w, o, plan = self.writer, self.options, None
        preset = self.preset.template if self.preset else None
        w.state = yield Show("shapes", shapes.facts(w.problem.task.source, w.problem.device_kind))
        if preset is None:
            plan = yield from self._plan(None)
        rounds = 1 if self.preset else o.rounds
        for number in range(1, rounds + 1):
            earlier = {t.number for t in w.state.trials}
            tested = yield from (self._preset(preset, number) if preset else self._template(number, plan))
            if isinstance(tested, str):
                return tested
            lines = yield from self._tune(number, tested, earlier)
            self.searched.append(_line(tested.space))
            plan = yield from self._feedback(number, number == rounds, lines)
            if w.stop:
                return w.stop
            if plan is not None and plan.decision == "stop":
                return f"The plan ends after round {number}: {plan.why or plan.structure}"
        return w.stop or all_of(rounds, "round")

    # ---- stage one ----

    def _plan(self, feedback: list[str] | None) -> Generator[Verb, Any, TemplatePlan | None]:
        profile = yield from self.writer.look()
        reply = yield from self.writer.ask(
            "two_stage/plan", TemplatePlan,
            **self._facts(profile=profile, feedback=feedback, original=_original(self.writer)),
        )  # fmt: skip
        return reply.value if isinstance(reply.value, TemplatePlan) else None

    def _template(self, number: int, plan: TemplatePlan | None) -> Generator[Verb, Any, Tested | str]:
        """A template whose default instance is right, or why there is none."""
        w = self.writer
        for attempt in range(1, self.options.templates + 1):
            if w.stop:
                return w.stop
            spaces: dict[str, Space] = {}
            reply = yield from w.ask(
                "two_stage/generate", ProgramTemplate if w.form == "program" else KernelTemplate,
                lambda reply, spaces=spaces: self._objection(reply, spaces),
                **self._facts(
                    plan=plan, original=_original(w), failed=self.mistake, most=MOST, searched=self.searched,
                    limits=limits_of(w.problem.hardware),
                ),
            )  # fmt: skip
            space = spaces.get(reply.text)
            if space is None:
                objection = self._objection(reply, {})
                trial = yield from w.tried(w.candidate(replace(reply, reason=reply.reason or objection)))
                self.mistake = {"text": reply.text[: prompt_facts.MOST_TEXT], "words": prompt_facts.words(trial)}
                words = (reply.reason or objection or prompt_facts.words(trial))[:MOST_WORDS]
                w.state = yield Show("template", self._attempt(number, attempt, trial, False, words))
                continue
            if number > 1 and self._repeats(space):
                return (yield from self._repeated(number, attempt, space))
            tested = yield from self._held(number, attempt, space)
            if not isinstance(tested, Tested) or tested.testing is not None:
                return tested
        return w.stop or f"None of the {count(self.options.templates, 'template')} of round {number} was right."

    def _held(self, number: int, attempt: int, space: Space) -> Generator[Verb, Any, Tested | str]:
        """Hold the default instance against the module. A template that is not right has no `testing`."""
        w = self.writer
        verb = self._try(space, space.default, space.template.change, space.template.why, _first(w))
        same = [t for t in w.state.trials if (t.text, t.cls) == (verb.text, verb.cls) and not _lost(t)]
        trial = same[0] if same else (yield from w.tried(verb))
        right, undecided = _right(trial), _undecided(trial)
        testing = None
        if not w.stop and not undecided and trial.number:
            facts = self._facts(
                space=space, template=_shown(space), right=right, words=prompt_facts.words(trial),
                log=trial.log[-prompt_facts.MOST_LOG :],
            )  # fmt: skip
            try:
                reply = yield from w.ask("two_stage/test", Findings, **facts)
            except Over:  # the template was tried, whatever ended the session in the role's turn
                w.state = yield Show("template", self._template_facts(number, attempt, space, trial, right, ""))
                raise
            testing = reply.value if isinstance(reply.value, Findings) else None
        mistake = testing.mistake if testing is not None and not right else ""
        w.state = yield Show("template", self._template_facts(number, attempt, space, trial, right, mistake))
        if undecided:
            return f"The template cannot be verified on this machine, so nothing is tuned: {trial.reason.rstrip('.')}."
        if right:
            self.mistake = None
            return Tested(space, trial, testing or Findings(corners=[]))
        fix = testing.fix if testing is not None else ""
        self.mistake = {
            "text": space.template.text[: prompt_facts.MOST_TEXT],
            "words": " ".join(filter(None, (prompt_facts.words(trial), mistake, fix)))[:1500],
        }
        return Tested(space, trial)

    def _repeats(self, space: Space) -> bool:
        """Whether earlier rounds evaluated every configuration of a template. Instances are compared by their texts, so
        that a parameter with another name is no other template."""
        if len(space.allowed) > len(self.writer.state.trials) + len(self.broken):
            return False
        known = self._known(space)
        return space.default in known and all(c in known or space.text(c) in self.broken for c in space.allowed)

    def _repeated(self, number: int, attempt: int, space: Space) -> Generator[Verb, Any, str]:
        """Show a template that has nothing new; why the session ends."""
        every = len(space.allowed)
        its = f"all {every} configurations" if every > 1 else "the one configuration"
        why = (
            f"Round {number} ended before it tried anything: earlier rounds evaluated {its} of its template, so there "
            "was nothing to search."
        )
        trial = self._known(space)[space.default]
        facts = self._template_facts(number, attempt, space, trial, _right(trial), "")
        self.writer.state = yield Show("template", facts | {"repeated": why})
        return why

    def _known(self, space: Space) -> dict[tuple, Finished]:
        """The configurations whose instance is a trial that ended."""
        if not self.writer.state.trials:
            return {}
        ended = {(t.text, t.cls): t for t in reversed(self.writer.state.trials) if not _lost(t)}
        tried = ((c, self._try(space, c, "", "", None)) for c in space.allowed)
        return {c: ended[verb.text, verb.cls] for c, verb in tried if (verb.text, verb.cls) in ended}

    def _preset(self, template: Template, number: int) -> Generator[Verb, Any, Tested | str]:
        """A template of another session, without turns."""
        try:
            space = Space(template, self.writer.problem.hardware)
        except BadTemplate as e:
            return f"The preset template is no template: {e}."
        trial = yield from self.writer.tried(
            self._try(space, space.default, template.change, "the template of another session", _first(self.writer))
        )
        right = _right(trial)
        self.writer.state = yield Show("template", self._template_facts(number, 1, space, trial, right, ""))
        return Tested(space, trial, Findings(corners=[])) if right else (
            f"The preset template is not right here: {prompt_facts.words(trial)}"
        )  # fmt: skip

    def _objection(self, reply: Reply, spaces: dict[str, Space]) -> str:
        """The mistake in a template before anything is tried; "" if there is none."""
        if not isinstance(reply.value, ProgramTemplate | KernelTemplate):
            return ""
        try:
            space = Space(reply.value, self.writer.problem.hardware)
        except BadTemplate as e:
            return f"The template is not one: {e}."
        verb = self._try(space, space.default, "", "", None)
        before = next((t for t in self.writer.state.trials if (t.text, t.cls) == (verb.text, verb.cls)), None)
        if before is not None and not _right(before) and not _lost(before):
            return f"Its default instance is trial {before.number} again, which was not right. Write another one."
        spaces[reply.text] = space
        return ""

    # ---- stage two ----

    def _tune(self, number: int, tested: Tested, earlier: set[int]) -> Generator[Verb, Any, list[str]]:
        """Search the parameters; what was found, in lines for the plan. `earlier`: the trials of earlier rounds."""
        w, space = self.writer, tested.space
        w.state = yield Show("space", {"round": number, **_space_facts(space)})
        before = {c: t for c, t in (self._known(space) if number > 1 else {}).items() if t.number in earlier}
        search = Search(
            Evaluator(w, space, number, self._try, broken=self.broken), self.options, tested.trial,
            None if self.preset is None else self.preset.configurations, before,
        )  # fmt: skip
        if tested.trial.ms is None:
            why = f"Nothing was searched: this device takes no time of the template ({tested.trial.reason})"
            return (yield from search.report(why))
        tuning = None
        if self.preset is None and not w.stop and len(space.allowed) > 1:
            profile = yield from w.look()
            reply = yield from w.ask(
                "two_stage/tune", Tuning,
                **self._facts(space=space, template=_shown(space), profile=profile,
                              words=prompt_facts.words(tested.trial)),
            )  # fmt: skip
            tuning = reply.value if isinstance(reply.value, Tuning) else None
        corners = tested.testing.corners if tested.testing is not None else []
        return (yield from search.run(corners, tuning))

    def _feedback(
        self, number: int, last: bool, lines: list[str]
    ) -> Generator[Verb, Any, TemplatePlan | None]:  # fmt: skip
        """What the search found goes back to the plan, whose next template is the next round's."""
        w, plan = self.writer, None
        facts: dict[str, Any] = {"round": number, "lines": lines, "why": ""}
        if last or w.stop:
            facts["why"] = f"Nothing went back: {w.stop or 'this was the last round.'}"[:MOST_WORDS]
        else:
            plan = yield from self._plan(lines)
            facts["why"] = "" if plan is not None else "The plan gave no usable reply; the last plan stands."
        if plan is not None:
            facts |= {
                "decision": plan.decision, "structure": plan.structure, "reason": plan.why,
                "parameters": [p.name for p in plan.parameters],
            }  # fmt: skip
        w.state = yield Show("feedback", facts)
        return plan

    # ---- helpers ----

    def _facts(self, **more: Any) -> dict[str, Any]:
        blank = {"plan": None, "feedback": None, "failed": None, "searched": (), "log": ""}
        return self.writer.facts(**{**blank, **more})

    def _try(self, space: Space, config: tuple, change: str, why: str, parent: int | None) -> Try:
        return Try(_candidate(self.writer.problem, space, config), change, why, parent)

    def _template_facts(
        self, number: int, attempt: int, space: Space, trial: Finished, right: bool, mistake: str
    ) -> dict[str, Any]:
        text = space.template.text[:MOST_SHOWN]
        words = prompt_facts.words(trial)[:MOST_WORDS]
        return {
            **self._attempt(number, attempt, trial, right, words), **_shown(space), "text": text,
            "mistake": mistake[:MOST_WORDS], "undecided": _undecided(trial),
        }  # fmt: skip

    def _attempt(self, number: int, attempt: int, trial: Finished, right: bool, words: str) -> dict[str, Any]:
        """An attempt at a template. Without a usable reply it has no text and no parameters."""
        original = _original(self.writer)
        return {
            "round": number, "attempt": attempt, "text": "", "language": "", "cls": trial.cls, "change": "",
            "parameters": [], "trial": trial.number or None, "right": right, "undecided": False, "words": words,
            "mistake": "",
            "original": {"what": original["what"], "trial": original["trial"], "words": original["words"][:MOST_WORDS]},
        }  # fmt: skip


def _candidate(problem: Prepared, space: Space, config: tuple) -> Candidate:
    template, text = space.template, space.text(config)
    if isinstance(template, KernelTemplate):
        return Candidate(text, template.cls, "", "kernel", template.language)
    candidate = problem.candidate(text, template.cls)
    cls = candidate.cls if candidate.cls in problem.classes else problem.classes[0]
    return Candidate(text, cls, candidate.backend)


def _right(trial: Finished) -> bool:
    """Verified, and nothing speaks against it; it may have no time."""
    return not trial.failed and trial.clean and (trial.ms is not None or trial.verdict in RIGHT)


def _undecided(trial: Finished) -> bool:
    """Nothing here can verify it: it is neither right nor wrong."""
    return not trial.failed and trial.verdict == "unverified"


def _lost(trial: Finished) -> bool:
    """One of our processes ended before it judged, which says nothing about the candidate: it may be tried again."""
    return trial.code in ("oracle_died", "worker_lost") or trial.code.startswith("reference_")


def _first(w: Writer) -> int | None:
    """The trial of the kernel that the owner handed in: the original; None if there is none."""
    return _original(w)["trial"]


def _original(w: Writer) -> dict[str, Any]:
    """What the template must mean: the owner's first candidate of this form, the planner's or the pasted program, or
    the module itself. `what`: in words; `text`: "" for the module, which every prompt shows."""
    own = next((t for t in w.state.trials if t.by == "owner" and t.form == w.form), None)
    if own is not None:
        words = prompt_facts.words(own)
        return {"what": f"the {own.form} of trial {own.number}", "trial": own.number, "text": own.text, "words": words}
    if w.form == "program" and w.problem.parts:
        pasted = w.problem.task.source_kind == "program"
        text = w.problem.task.source if pasted else to_text(w.problem.parts[0].base)
        what = "the pasted program" if pasted else "the planner's first program"
        return {"what": what, "trial": None, "text": text[: prompt_facts.MOST_TEXT], "words": "not tried by itself"}
    return {"what": "the module", "trial": None, "text": "", "words": "PyTorch runs it"}


def _shown(space: Space) -> dict[str, Any]:
    """A template as prompts and the page show it."""
    template = space.template
    return {
        "text": template.text[: prompt_facts.MOST_TEXT], "language": getattr(template, "language", "program"),
        "cls": template.cls, "change": template.change,
        "parameters": [
            {"name": p.name, "values": list(p.values), "default": p.default, "meaning": p.meaning}
            for p in space.parameters
        ],
    }  # fmt: skip


def _line(space: Space) -> str:
    """A template that was searched, for the prompts of later rounds."""
    values = "; ".join(f"{p.name}: {', '.join(map(str, p.values))}" for p in space.parameters)
    return f"{space.template.change} [{space.template.cls}] {values}"[:MOST_WORDS]


def _space_facts(space: Space) -> dict[str, Any]:
    limits = [
        {
            "expression": limit.expression.text, "resource": limit.resource, "source": limit.source, "why": limit.why,
            "alone": limit.alone, "removed": limit.removed,
        }
        for limit in space.limits
    ]  # fmt: skip
    names = set().union(*(limit.expression.names for limit in space.limits), *(e.names for e in space.needs.values()))
    known: Mapping[str, int] = {n: v for n, v in space.hardware.items() if n in names}
    return {
        "total": space.total, "allowed": len(space.allowed), "limits": limits, "hardware": dict(known),
        "needs": {name: expression.text for name, expression in space.needs.items()},
    }  # fmt: skip


__all__ = ["Stages"]
