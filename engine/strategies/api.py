"""The interface of a strategy: a script of verbs, what it may request, and the answers.

    class Mine(Strategy):
        def run(self, problem):
            trial = yield Try(Candidate(text, "tf32", backend="cute"), change="...", why="...")
            if trial.state.stop:
                return trial.state.stop
            ...
            return "why the search is over"

A script is a generator: it yields a verb and is sent the answer. The runner (engine.session.script.search) logs each
answer under the verb's path (`3`, and `3.1` for a member of Together) with the digest of the request. After the loss of
an engine, the script is replayed from its start, and each verb with an answer in the log gets that answer. So a script
may depend only on its problem, the answers, `problem.rng` and `problem.memory`: not on the clock, files or later events
of the log. Each answer carries `state`, the session at the time of the answer.

This module imports only engine.strategies.state and engine.llm.reader of the engine, which import nothing of it, so
devices and the web process may import it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from engine.llm import reader
from engine.strategies.state import Diagnosis, Finished, State

FORMS = ("program", "kernel")
LANGUAGES = ("cuda", "python")


# ---- candidates ----


@dataclass(frozen=True)
class Candidate:
    """The subject of a trial. `form` says which of the other fields apply.

    program   `text` is a program of the language, and `backend` (cute | cpp) builds it; with `rest` inductor, what
              stays PyTorch beside the programs of a module's regions is compiled (on a device that `compiles_rest`)
    kernel    `text` is a source in `language`: `cuda` (CUDA C++; `entry` names the one function that the judge calls)
              or `python` (`entry` names the class that replaces the module; empty: ModelNew)
    """

    text: str
    cls: str  # precision class of the candidate: f32 | tf32 | f16 | bf16 | fp8
    backend: str = ""
    form: str = "program"
    language: str = ""
    entry: str = ""
    rest: str = ""

    def asked(self) -> list[str]:
        """The values that identify a candidate."""
        plain = [self.form, self.text, self.cls, self.backend, self.language, self.entry]
        return [*plain, self.rest] if self.rest else plain


@dataclass(frozen=True)
class KernelTrial:
    """A candidate of the form `kernel` in its trial: the argument of a device's `build`, `validate` and `measure` in
    place of engine.devices.Candidate. Nothing is generated for a kernel, so the log has no TrialGenerated for it."""

    trial: int
    text: str
    cls: str
    language: str
    entry: str = ""
    form: ClassVar[str] = "kernel"


# ---- verbs ----


@dataclass(frozen=True)
class Verb:
    """One request of a script. `asked()` returns what the answer depends on, as JSON values, without reasons for a
    person and hints."""

    name: ClassVar[str] = ""

    def asked(self) -> Any:
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """SHA-256 of the request, in hex."""
        text = json.dumps([self.name, self.asked()], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Try(Verb):
    """Run a candidate as a trial, from its checks to its verdict. Answer: Finished.

    `change`: one line, the difference from the trial `parent`; `why`: one line; `predicted_ms`: of the whole module;
    `upcoming`: the probable next candidates, nearest first, to be built ahead; `structure` and `settings`: as in
    engine.session.events.TrialProposed.
    """

    candidate: Candidate
    change: str = ""
    why: str = ""
    parent: int | None = None
    predicted_ms: float | None = None
    upcoming: tuple[Candidate, ...] = field(default=(), compare=False)
    structure: str = ""
    settings: str = ""
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
    """Quick times of several candidates, to choose which to try. They are unverified, so no time is a result. Answer:
    Screened. On a device without quick times (`problem.screens`) every time is None."""

    candidates: tuple[Candidate, ...]
    name: ClassVar[str] = "screen"

    def asked(self) -> Any:
        return [c.asked() for c in self.candidates]


@dataclass(frozen=True)
class Receive(Verb):
    """Wait for the next candidate of the owner or an agent. Answer: Received. A strategy that uses it declares
    `receives`."""

    name: ClassVar[str] = "receive"

    def asked(self) -> Any:
        return []


@lru_cache(64)
def _schema(expects: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a reply: pydantic takes 2 ms for it, and each step of a replay compares several digests."""
    return expects.model_json_schema()


@dataclass(frozen=True)
class Ask(Verb):
    """One turn of a model. Answer: Reply. `expects`: the pydantic model of a JSON reply; None: any text."""

    role: str
    prompt: str
    expects: type[BaseModel] | None = None
    name: ClassVar[str] = "ask"

    def asked(self) -> Any:
        return [self.role, self.prompt, _schema(self.expects) if self.expects else None]

    def parsed(self, text: str) -> tuple[BaseModel | None, str]:
        """The reply as `expects` (engine.llm.reader), and its first error or ""."""
        return (None, "") if self.expects is None else reader.read(text, self.expects)


@dataclass(frozen=True)
class Profile(Verb):
    """A profile of trial number `trial`. Answer: Reply, whose text is JSON."""

    trial: int
    name: ClassVar[str] = "profile"

    def asked(self) -> Any:
        return self.trial


@dataclass(frozen=True)
class Show(Verb):
    """Log facts of the search for a person. `topic`: phase | triage | hypothesis | lessons | refinement |
    opinion; of two_stage: template | space | search | effects | feedback; of optiml: mixture | rules | node |
    guardrail | path; of cutegen: workload | depth | debug | profile_revealed; `facts`: JSON values. Answer: the
    State."""

    topic: str
    facts: dict[str, Any]
    name: ClassVar[str] = "show"

    def asked(self) -> Any:
        return [self.topic, self.facts]


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
                raise TypeError(f"Together takes Try, Screen, Ask and Profile; not {type(member).__name__}")

    def asked(self) -> Any:
        return [m.digest for m in self.members]


# ---- answers ----


@dataclass(frozen=True)
class Screened:
    """`ms`: one time per candidate, in the order of the request; None if it did not run."""

    ms: tuple[float | None, ...]
    state: State = field(default_factory=State, compare=False, repr=False)


@dataclass(frozen=True)
class Received:
    """`by`: the sender of the candidate; `words`: the message with it."""

    candidate: Candidate
    by: str = "owner"
    words: str = ""
    state: State = field(default_factory=State, compare=False, repr=False)


@dataclass(frozen=True)
class Reply:
    """The answer to Ask and Profile. `refusal` is "" or a stable code, with `reason` for a person:

    no_model, no_profiler   nobody answers such turns here, or the operator set no model for this role
    refused       the model or its endpoint declined, or the model called a tool that nobody offered
    key_refused   the endpoint does not accept the key
    rate_limited  the endpoint asked to wait, longer or more often than the engine waits
    timeout       no connection, a silence, or no end within the time of a call
    broken        the connection or the reply broke off, or the endpoint failed
    too_long      the reply reached the limit of a call; `text` is its beginning
    empty         the reply has no text
    over_budget   the tokens of the session or of the day are used up; nothing was sent
    schema        the text does not fit `expects`
    lost          the engine was lost twice during the turn
    stopped       the session was stopped during the turn

    `value`: the text as `expects`. `model`: as the endpoint returned it. `tokens`: in, out, cached, reasoning;
    `estimated`: they are estimates by the length of the texts. `cost`: in US dollars by the operator's prices of the
    date `prices`. `retries`: calls that failed before this one. `finish`: the endpoint's reason for the end.

    `counts`: what a profiler counted over all kernels of the trial: `memory` (bytes to and from device memory),
    `occupancy` (achieved, a share), `instructions` (those that warps executed); {} without a profiler."""

    text: str = ""
    value: BaseModel | None = None
    refusal: str = ""
    reason: str = ""
    model: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    seconds: float = 0.0
    finish: str = ""
    retries: int = 0
    estimated: bool = False
    prices: str = ""
    counts: dict[str, float] = field(default_factory=dict)
    state: State = field(default_factory=State, compare=False, repr=False)


Answer = Finished | Screened | Received | Reply | State | list[Any]
Script = Generator[Verb, Any, str]


# ---- a strategy ----


class Unsuitable(Exception):
    """The strategy cannot work on this problem, or not with these options; the session is refused."""

    def __init__(self, code: str, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, reason


class Options(BaseModel):
    """Options of one strategy, each with a default and a description, which the page, the API and the command line
    show."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def logged(self) -> dict[str, Any]:
        """The options as the log has them, without long texts."""
        return self.model_dump(mode="json")


class Strategy:
    """Base of all strategies. The registry (engine.strategies.registry) finds one in each module or package of
    engine/strategies that names it as `STRATEGY`. Importing that module must be cheap, so `run` imports what is heavy.

    Declared abilities: `forms`, the forms of its candidates; `programs`: it needs a problem that is, at least in part,
    a program of the language (a session on another problem is refused); `remembers`: it reads and writes memory of
    other problems; `receives`: the owner's tries wait for its Receive; `asks`: it needs a model; `by_hand`: a
    person may choose it from the list of strategies; `searches`: what it found best may be tried once more, by the
    session itself (engine.session.script.last_trials).
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""  # one sentence for the page
    Options: ClassVar[type[Options]] = Options
    forms: ClassVar[tuple[str, ...]] = ("program",)
    programs: ClassVar[bool] = True
    remembers: ClassVar[bool] = False
    receives: ClassVar[bool] = False
    asks: ClassVar[bool] = False
    by_hand: ClassVar[bool] = True
    searches: ClassVar[bool] = True

    def __init__(self, options: Options | None = None):
        self.options = options if options is not None else self.Options()

    def run(self, problem: Any) -> Script:
        """The script; `problem` is an engine.strategies.problem.Prepared. Returns why it ended, in words."""
        raise NotImplementedError

    def ahead(self, problem: Any) -> Sequence[Candidate]:
        """The probable first candidates of the script, to be built while PyTorch is timed. A hint."""
        return ()

    def remarks(self, problem: Any) -> Sequence[tuple[str, str]]:
        """What a person should know before the first trial: (code, text) of engine.session.events.Noted."""
        return ()

    def recall(self, problem: Any) -> str:
        """Memory of other problems as a text, read when a session starts. A resumed session reads it from its log."""
        return ""

    def lesson(self, problem: Any, trials: Sequence[Finished]) -> str:
        """What these trials teach other problems, as a text; "" if nothing."""
        return ""

    def keep(self, problem: Any, lesson: str) -> None:
        """Add a lesson to what `recall` reads. A lesson that is already there changes nothing."""


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
    "Show",
    "State",
    "Strategy",
    "Together",
    "Try",
    "Unsuitable",
    "Verb",
]
