"""What a strategy is: a script of verbs. What a script may ask, and what it is given back.

    class Mine(Strategy):
        def run(self, problem):
            trial = yield Try(Candidate(text, "tf32", backend="cute"), change="...", why="...")
            if trial.state.stop:
                return trial.state.stop
            ...
            return "why the search is over"

A script is a generator: it yields a verb and is sent the answer. The runner (engine.session.script.search) logs each
answer under the verb's path (`3`, and `3.1` for a member of Together) with the digest of what was asked. After a lost
engine the script is played again from its start, and each verb that has an answer in the log is given that answer. So a
script may depend on nothing but its problem, the answers, `problem.rng` and `problem.memory`: not on the clock, not on
files, not on what the log says later. Each answer carries `state`, the session as it was when the answer was given.

This module and engine.strategies.state import nothing else of the engine, so that devices and the web process may read
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.strategies.state import Diagnosis, Finished, State

FORMS = ("program", "kernel")
LANGUAGES = ("cuda", "python")


# ---- what is tried ----


@dataclass(frozen=True)
class Candidate:
    """What a trial tries. `form` says which of the other fields apply.

    program   `text` is a program of the language and `backend` (cute | cpp) builds it
    kernel    `text` is a source in `language`: `cuda` (CUDA C++; `entry` names the one function that the judge calls)
              or `python` (`entry` names the class that replaces the module; empty: ModelNew)
    """

    text: str
    cls: str  # precision class that the candidate stands in: f32 | tf32 | f16 | bf16 | fp8
    backend: str = ""
    form: str = "program"
    language: str = ""
    entry: str = ""

    def asked(self) -> list[str]:
        """What makes two candidates the same one."""
        return [self.form, self.text, self.cls, self.backend, self.language, self.entry]


@dataclass(frozen=True)
class KernelTrial:
    """A candidate of the form `kernel` in its trial: what `build`, `validate` and `measure` of a device take in place
    of engine.devices.Candidate. Nothing is generated for a kernel, so the log has no TrialGenerated of it."""

    trial: int
    text: str
    cls: str
    language: str
    entry: str = ""
    form: ClassVar[str] = "kernel"


# ---- verbs ----


@dataclass(frozen=True)
class Verb:
    """One request of a script. `asked()` is what its answer depends on, as JSON values: reasons for a person and hints
    are no part of it."""

    name: ClassVar[str] = ""

    def asked(self) -> Any:
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """SHA-256 of what is asked, in hex."""
        text = json.dumps([self.name, self.asked()], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Try(Verb):
    """A candidate as a trial, from its checks to its verdict. Answer: Finished.

    `change`: one line, what differs from the trial `parent`; `why`: one line; `predicted_ms`: of the whole module;
    `upcoming`: what probably comes next, the nearest first, to be built ahead.
    """

    candidate: Candidate
    change: str = ""
    why: str = ""
    parent: int | None = None
    predicted_ms: float | None = None
    upcoming: tuple[Candidate, ...] = field(default=(), compare=False)
    name: ClassVar[str] = "try"

    def asked(self) -> Any:
        return [self.candidate.asked(), self.parent]

    @property
    def text(self) -> str:
        return self.candidate.text

    @property
    def cls(self) -> str:
        return self.candidate.cls

    @property
    def backend(self) -> str:
        return self.candidate.backend


@dataclass(frozen=True)
class Screen(Verb):
    """Quick times of several candidates, to choose which to try. Nothing is verified, so no time is a result. Answer:
    Screened. Where the device takes no quick times (`problem.screens`) every time is None."""

    candidates: tuple[Candidate, ...]
    name: ClassVar[str] = "screen"

    def asked(self) -> Any:
        return [c.asked() for c in self.candidates]


@dataclass(frozen=True)
class Receive(Verb):
    """Wait for the next candidate that the owner or an agent hands in. Answer: Received. A strategy that uses it
    declares `receives`."""

    name: ClassVar[str] = "receive"

    def asked(self) -> Any:
        return []


@dataclass(frozen=True)
class Ask(Verb):
    """One turn of a model. Answer: Reply. `expects`: the model of a reply in JSON; None: any text."""

    role: str
    prompt: str
    expects: type[BaseModel] | None = None
    name: ClassVar[str] = "ask"

    def asked(self) -> Any:
        return [self.role, self.prompt, self.expects.model_json_schema() if self.expects else None]

    def parsed(self, text: str) -> tuple[BaseModel | None, str]:
        """The reply as `expects`, and what is wrong with it."""
        if self.expects is None:
            return None, ""
        try:
            return self.expects.model_validate_json(text), ""
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the reply"
            return None, f"{where}: {first['msg']}"


@dataclass(frozen=True)
class Profile(Verb):
    """A profile of trial number `trial`. Answer: Reply, its text JSON."""

    trial: int
    name: ClassVar[str] = "profile"

    def asked(self) -> Any:
        return self.trial


@dataclass(frozen=True)
class Together(Verb):
    """Several verbs at once, as many at a time as there are lanes. Answer: the members' answers in the order of
    `members`, all with the state after the last of them. Members are Try, Screen, Ask and Profile."""

    members: tuple[Verb, ...]
    name: ClassVar[str] = "together"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        for member in self.members:
            if not isinstance(member, Try | Screen | Ask | Profile):
                raise TypeError(f"Together takes Try, Screen, Ask and Profile; it was given {type(member).__name__}")

    def asked(self) -> Any:
        return [m.digest for m in self.members]


# ---- answers ----


@dataclass(frozen=True)
class Screened:
    """`ms`: one time a candidate, in the order asked; None where it did not run."""

    ms: tuple[float | None, ...]
    state: State = field(default_factory=State, compare=False, repr=False)


@dataclass(frozen=True)
class Received:
    """`by`: who handed the candidate in; `words`: what came with it."""

    candidate: Candidate
    by: str = "owner"
    words: str = ""
    state: State = field(default_factory=State, compare=False, repr=False)


@dataclass(frozen=True)
class Reply:
    """The answer to Ask and Profile. `refusal` is "" or a stable code, with `reason` for a person: no_model,
    no_profiler, refused, timeout, broken, lost (the engine was lost twice while this was under way), stopped, or schema
    (the text does not fit what was expected). `value`: the text as `expects`. `tokens`: in, out, cached, reasoning."""

    text: str = ""
    value: BaseModel | None = None
    refusal: str = ""
    reason: str = ""
    model: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    seconds: float = 0.0
    finish: str = ""
    state: State = field(default_factory=State, compare=False, repr=False)


Answer = Finished | Screened | Received | Reply | list[Any]
Script = Generator[Verb, Any, str]


# ---- a strategy ----


class Unsuitable(Exception):
    """The strategy cannot work on this problem, or not with these options: the session is refused."""

    def __init__(self, code: str, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, reason


class Options(BaseModel):
    """Options of one strategy, each with a default and a description. The page, the API and the command line read them
    from here."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Strategy:
    """Base of all strategies. The registry (engine.strategies.registry) finds one in each module or package of
    engine/strategies that names it as `STRATEGY`; importing that module must cost little, so what is heavy is imported
    in `run`.

    Declared abilities: `forms`, the forms of candidates that it tries; `programs`: it needs a problem whose work, or
    some part of it, is a program of the language (a session on another problem is refused); `remembers`: it reads and
    writes memory of other problems; `receives`: the owner's tries wait for its Receive.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""  # one sentence for the page that offers it
    Options: ClassVar[type[Options]] = Options
    forms: ClassVar[tuple[str, ...]] = ("program",)
    programs: ClassVar[bool] = True
    remembers: ClassVar[bool] = False
    receives: ClassVar[bool] = False

    def __init__(self, options: Options | None = None):
        self.options = options if options is not None else self.Options()

    def run(self, problem: Any) -> Script:
        """The script; `problem` is an engine.strategies.problem.Prepared. Returns why it ended, in words."""
        raise NotImplementedError

    def ahead(self, problem: Any) -> Sequence[Candidate]:
        """What the script will probably try first, to be built while PyTorch is timed. A hint."""
        return ()

    def recall(self, problem: Any) -> str:
        """Memory of other problems as a text, read when a session begins; a resumed session has it from its log."""
        return ""

    def lesson(self, problem: Any, trials: Sequence[Finished]) -> str:
        """What these trials teach other problems, as a text; "" where nothing."""
        return ""

    def keep(self, problem: Any, lesson: str) -> None:
        """Add a lesson to what `recall` reads; a lesson that was kept before changes nothing."""


__all__ = [
    "FORMS",
    "LANGUAGES",
    "Answer",
    "Ask",
    "Candidate",
    "Diagnosis",
    "Finished",
    "KernelTrial",
    "Options",
    "Profile",
    "Receive",
    "Received",
    "Reply",
    "Screen",
    "Screened",
    "Script",
    "State",
    "Strategy",
    "Together",
    "Try",
    "Unsuitable",
    "Verb",
]
