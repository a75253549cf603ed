"""What strategies led by a model share: ask for a candidate, try it, and say what was wrong with a reply. `Led` is
their base.

A reply that fits no form is asked for again with the mistake named, at most twice. After that the attempt is a failed
trial, so that a model that writes nothing usable ends with its budget and not later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.llm.replies import Form, Kernel, Program
from engine.strategies import opinion
from engine.strategies.api import (
    Ask,
    Candidate,
    Finished,
    Profile,
    Reply,
    Script,
    Show,
    State,
    Strategy,
    Try,
    Verb,
)
from engine.strategies.forms import form_on
from engine.words import all_of, count

if TYPE_CHECKING:
    from engine.strategies.planner.search.refining import Refiner
    from engine.strategies.problem import Prepared

AGAIN = 2  # further turns for a reply that fits no form
# Refusals of a turn that end the script: another turn would be refused alike.
FINAL = ("no_model", "over_budget", "stopped", "key_refused")
UNUSABLE = "no usable reply"  # the change of a trial whose reply held no candidate
PROFILE_TEXT = 6_000  # characters of a profile in a prompt
FIRST = "Write a candidate that is right and faster than PyTorch."
NEXT = "Write the next candidate: mend the mistake if the last one failed, else make the best one faster."
# Options that several strategies have.
FORM_ABOUT = (
    "What the model writes: programs of the language, or raw kernels (CUDA, Python), which get no time on a modelled "
    "device; auto: kernels on a GPU, programs on a modelled device"
)
FORM = Field("program", description=FORM_ABOUT)
PROFILE = Field(True, description="Show a profile of the best candidate to the model, where there is a profiler")
SEED = Field(False, description="Show the planner's program to the model as a start")
REFINE = Field(
    False, description="After the model's attempts, the planner's search refines the best program with the trials left"
)
RESERVE = Field(
    25, ge=0, le=90, description="Percent of the trials that the model leaves to `refine`, once a program is right"
)
OPINION = Field(
    False, description="A model gives its opinion of raw kernels and suspicious trials, beside the evidence"
)


# Remarks on the form, on a modelled device.
KERNELS = (
    "The candidates are raw kernels, and the {} is modelled here: CUDA is compiled and not run, Python is verified "
    'where it needs no GPU, and neither gets a time. Choose the form "program", or a device with a GPU'
)
PROGRAMS = (
    'The form "auto" is programs of the language here: the {} is modelled, and a raw kernel would get no time. For raw '
    "kernels choose a device with a GPU"
)


class Over(Exception):
    """The script ends; the message says why."""


@dataclass
class Writer:
    """A model's candidates on one problem. `form`: program | kernel; `with_report`: its prompts hold the speed-of-light
    report; `seed`: they hold the planner's program; `profile`: ask for a profile of the best candidate. `refiner`: the
    planner's search around the best program, for which `reserve` percent of the trials are kept."""

    problem: Prepared
    form: str = "program"
    with_report: bool = True
    seed: bool = False
    profile: bool = False
    reserve: int = 0
    refiner: Refiner | None = None
    opinion: bool = False  # ask for opinions (engine.strategies.opinion)
    parents: dict[int, int | None] = field(default_factory=dict)
    state: State = field(default_factory=State)
    changes: dict[int, str] = field(default_factory=dict)
    counts: dict[int, dict[str, float]] = field(default_factory=dict)  # trial -> what a profiler counted of it
    _profiles: dict[int, str] = field(default_factory=dict)
    _report: str | None = None

    def __post_init__(self) -> None:
        self.state = self.problem.start

    @property
    def classes(self) -> list[str]:
        return self.problem.classes if self.form == "program" else list(self.problem.allowed)

    @property
    def expects(self) -> type[Form]:
        """The form of a reply with a candidate."""
        return Program if self.form == "program" else Kernel

    @property
    def stop(self) -> str:
        """Why no further attempt of the model can run, or ""."""
        cancelled = "The session was stopped." if self.problem.cancelled() else ""
        return self.state.stop or cancelled or self._cannot_run() or self._closed() or self._kept()

    @property
    def share(self) -> int:
        """The trials that the model may use while there is a program to refine."""
        left = max(1, self.state.budget * self.reserve // 100) if self.reserve and self.refiner else 0
        return max(1, self.state.budget - left)

    def _cannot_run(self) -> str:
        """Why no kernel can run on this machine, or "": the next one would end like the last."""
        if self.form != "kernel":
            return ""
        last = next((t for t in reversed(self.state.trials) if t.by == "strategy"), None)
        if last is None or not last.cannot_run_here:
            return ""
        return (
            f"Trial {last.number} cannot run on this machine, and nor could another kernel: {last.reason.rstrip('.')}."
        )

    def _closed(self) -> str:
        """Why the session's stop rule (eps, window) ends the model's part, or "": each class has enough."""
        closed = self.state.closed
        if not self.problem.classes or any(cls not in closed for cls in self.problem.classes):
            return ""
        return f"{'; '.join(f'{cls}: {why}' for cls, why in closed.items())}."

    def _kept(self) -> str:
        """Why the trials that are left are the planner's, or ""."""
        used = sum(t.by == "strategy" for t in self.state.trials)
        if used < self.share or self.refiner is None or self.refiner.next(self.state) is None:
            return ""
        return f"The model used its {count(self.share, 'trial')} of {self.state.budget}."

    def facts(self, *, history: bool = True, **more: Any) -> dict[str, Any]:
        """The facts of a prompt (engine.llm.prompts.facts) and those of a role."""
        from engine.llm.prompts import facts

        if self._report is None:  # once: PyTorch's times do not change while a script runs
            self._report = facts.report_of(self.problem, self.state) if self.with_report else ""
        of = facts.of_problem(self.problem, self.state, form=self.form, report=self._report, seed=self.seed)
        of |= facts.of_history(self.state if history else State(), self.changes, self.classes)
        of["own"] = facts.of_own(self.own, of)
        return {"mistake": "", "profile": None, "lessons": (), "idea": None, "spoken": (), "turn": "", **of, **more}

    def best(self) -> Finished | None:
        from engine.llm.prompts import facts

        return facts.fastest(self.state, self.classes)

    @property
    def own(self) -> Finished | None:
        """The owner's candidate from before the script began, the last of several; None if there is none."""
        return next((t for t in reversed(self.problem.start.trials) if t.by == "owner"), None)

    def origin(self) -> int | None:
        """The trial that the next candidate starts from: the best, or else the owner's own."""
        start = self.best() or self.own
        return start.number if start else None

    def gap(self) -> float:
        """g of the best candidate, or of PyTorch where nothing is faster."""
        from engine.llm.prompts import facts

        return facts.gap(self.state, self.classes, self.problem.limits)

    # ---- turns ----

    def prompt(self, role: str, expects: type[Form], **facts: Any) -> Ask:
        """One turn of a role, whose prompt may lie in a folder: `optiml/edit` is the role `edit`."""
        from engine.llm.prompts import render

        return Ask(role.rpartition("/")[2], render(role, expects, **facts), expects)

    def ask(
        self, role: str, expects: type[Form], objection: Callable[[Reply], str] = lambda reply: "", **facts: Any
    ) -> Generator[Verb, Any, Reply]:
        """The reply to a turn; a bad one is asked for again, and so is one with an `objection`. Raises Over where no
        model answers."""
        mistake = ""
        for _ in range(1 + AGAIN):
            reply: Reply = yield self.prompt(role, expects, **{**facts, "mistake": mistake})
            self.state = reply.state
            if reply.refusal in FINAL:
                raise Over(reply.reason)
            if self.stop:
                raise Over(self.stop)
            mistake = reply.reason if reply.refusal else objection(reply)
            if not mistake:
                return reply
        return reply

    def look(self, trial: Finished | None = None) -> Generator[Verb, Any, dict[str, Any] | None]:
        """The profile of a trial, by default of the best candidate: {number, text}; None if there is none. Each trial
        is profiled once."""
        trial = (trial or self.best()) if self.profile else None
        if trial is None or trial.ms is None:
            return None
        if trial.number not in self._profiles:
            reply: Reply = yield Profile(trial.number)
            self.state = reply.state
            if reply.refusal == "no_profiler":
                self.profile = False
            self._profiles[trial.number] = "" if reply.refusal else reply.text[:PROFILE_TEXT]
            self.counts[trial.number] = dict(reply.counts)
        text = self._profiles[trial.number]
        return {"number": trial.number, "text": text} if text else None

    # ---- candidates ----

    def refined(self, why: str) -> Script:
        """Give the trials that are left to the planner's search around the best program. `why`: why the model's part
        ended. Returns why the session ends."""
        refiner, first, many, built = self.refiner, None, 0, 0.0
        while refiner is not None and not self.state.stop and not self.problem.cancelled():
            verb = refiner.next(self.state, built)
            if verb is None:
                break
            if first is None:
                first = verb.parent
                yield from self._show(f"{why} The planner refines trial {first}, the best program.", first)
            trial = yield from self.tried(verb)
            built += refiner.cost(verb)
            many += bool(trial.number)
        if first is None:
            nothing = f"Nothing was refined: {self._unrefined()}"
            yield from self._show(nothing, None)
            return self.state.stop or f"{why} {nothing}"
        return self.state.stop or f"{why} The planner tried {count(many, 'refinement')} of the best program."

    def _show(self, words: str, best: int | None) -> Generator[Verb, Any, None]:
        self.state = yield Show("refinement", {"words": words, "best": best})

    def _unrefined(self) -> str:
        """Why there was nothing to refine."""
        if self.refiner is None:
            return "the planner refines programs, and this session writes kernels."
        if not any(t.form == "program" and t.clean and t.ms is not None for t in self.state.trials):
            return "no program ran correctly."
        if self.state.stop or self.problem.cancelled():
            return "no trial is left."
        return "the best program has no configuration left to vary."

    def attempt(self, *, parent: int | None = None, **facts: Any) -> Generator[Verb, Any, Finished]:
        """One attempt: a model writes a candidate, and it is tried. Raises Over."""
        _, verb, _ = yield from self.candidate_of("implement", self.expects, parent, **facts)
        return (yield from self.tried(verb))

    def candidate_of(
        self, role: str, expects: type[Form], parent: int | None = None, **facts: Any
    ) -> Generator[Verb, Any, tuple[Reply, Try, int]]:
        """A candidate that a model writes in a role: the last reply, its trial, and the number of the earlier trial
        that it repeats in spite of the objection, or 0. Raises Over."""
        tries: dict[str, Try] = {}  # by the reply's text: a candidate is checked and generated once

        def repeated(reply: Reply) -> int:
            verb = tries[reply.text] = tries.get(reply.text) or self.candidate(reply, parent)
            c = verb.candidate
            return next((t.number for t in self.state.trials if (t.text, t.cls) == (c.text, c.cls)), 0)

        def objection(reply: Reply) -> str:
            before = repeated(reply)
            return f"This is trial {before} again. Write another candidate." if before else ""

        reply = yield from self.ask(role, expects, objection, **facts)
        verb = tries.get(reply.text) or self.candidate(reply, parent)
        return reply, verb, 0 if reply.refusal else repeated(reply)

    def refine(self, attempts: int, steer: str = "") -> Script:
        """One attempt after the other, each from the best candidate so far. `steer`: a sentence for every turn. Returns
        why it ended."""
        attempt = 0
        while attempt < attempts and not self.stop:
            attempt += 1
            profile = yield from self.look()
            turn = " ".join(filter(None, (NEXT if self.changes else FIRST, steer)))
            yield from self.attempt(parent=self.origin(), **self.facts(profile=profile, turn=turn))
        return self.used(attempt, "attempt")

    def used(self, many: int, what: str) -> str:
        """Why a script ended that has no attempt left, or that may run no further trial."""
        return self.stop or all_of(many, what, "tried" if what == "candidate" else "used")

    def tried(self, verb: Try, *, instance: bool = False) -> Generator[Verb, Any, Finished]:
        """The trial of a candidate. `instance`: of a template, whose default instance was tried before."""
        trial: Finished = yield verb
        self.state = trial.state
        if trial.number:
            self.changes[trial.number] = verb.change
            self.parents[trial.number] = verb.parent
        if self.opinion and opinion.wanted(trial, instance):
            yield from opinion.give(self, trial)
        return trial

    def candidate(self, reply: Reply, parent: int | None = None) -> Try:
        """The trial that a reply asks for. A reply without a candidate becomes a trial that fails its checks."""
        value = reply.value
        if isinstance(value, Program):
            candidate = self.problem.candidate(value.program, value.cls)
            if candidate.cls not in self.problem.classes:
                candidate = replace(candidate, cls=self.problem.classes[0])
        elif isinstance(value, Kernel):
            candidate = Candidate(value.source, value.cls, "", "kernel", value.language)
        else:
            why = reply.reason or "The reply held no candidate."
            language = "" if self.form == "program" else "python"
            nothing = Candidate(reply.text[:4000], self.classes[0], "cute" * (not language), self.form, language)
            return Try(nothing, UNUSABLE, why, parent)
        return Try(candidate, value.change, value.why, parent, value.predicted_ms)


class Led(Strategy):
    """Base of the strategies led by a model. Their options have `form`, `report`, `seed`, `refine`, `reserve` and
    perhaps `profile` and `opinion`. With `refine`, the planner's search gets the trials that the model leaves. The
    session's stop rule (eps, window) ends the model's part, once it holds for each class."""

    forms = ("program", "kernel")
    programs = False
    asks = True

    def form(self, problem: Prepared) -> str:
        """The form of the candidates on this problem's device: program | kernel."""
        form = form_on(self.options.form, problem.device_kind)
        return form if problem.parts or self.options.form != "auto" else "kernel"

    def remarks(self, problem: Prepared) -> Sequence[tuple[str, str]]:
        if problem.device_kind == "measured":
            return ()
        kernels = self.form(problem) == "kernel"
        if not kernels and self.options.form != "auto":
            return ()
        return (("form", (KERNELS if kernels else PROGRAMS).format(problem.hardware.title)),)

    def run(self, problem: Prepared) -> Script:
        o, form = self.options, self.form(problem)
        writer = Writer(problem, form, with_report=o.report, seed=o.seed, profile=getattr(o, "profile", False))
        writer.opinion = getattr(o, "opinion", False)
        if o.refine and form == "program":
            from engine.strategies.planner.search.refining import Refiner

            writer.refiner, writer.reserve = Refiner(problem), o.reserve
        try:
            why = yield from self.write(writer)
        except Over as e:
            why = str(e)
        return (yield from writer.refined(why)) if o.refine else why

    def write(self, writer: Writer) -> Script:
        """The script. It may raise Over."""
        raise NotImplementedError


__all__ = [
    "FINAL",
    "FIRST",
    "FORM",
    "FORM_ABOUT",
    "NEXT",
    "OPINION",
    "PROFILE",
    "REFINE",
    "RESERVE",
    "SEED",
    "Led",
    "Over",
    "Writer",
]
