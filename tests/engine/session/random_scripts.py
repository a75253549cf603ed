"""Random scripts with the words that an owner says meanwhile, and the lives of engines that play them.

A `Plan` is drawn from a seed. Each candidate of its script is named by a digest of all that the script was given before
(answers and states), so that a script which is given anything else asks for something else. Words come after a point of
the log; a later life is told each word after the same event as the first one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from engine.session import events
from engine.session.script.turns import Turn
from engine.strategies.api import Ask, Candidate, Receive, Reply, Screen, Together, Try, Verb
from engine.strategies.state import Finished, State
from tests.engine.counting import PROGRAM
from tests.engine.session.scripted import KernelDevice, Scripted, Searching, kernel, number

LANES = 3
TILES = ("128x128x64", "64x64x64", "128x64x64", "64x128x64", "128x256x64")
ENDS = (events.TrialJudged, events.TrialUntimed, events.TrialFailed)

Word = tuple[str, dict[str, Any]]
Row = tuple[str, str]  # kind and data of an event, as JSON


class Tile(BaseModel):
    tile: int


# ---- what is drawn ----


@dataclass(frozen=True)
class Plan:
    """`steps`: (try | program | screen | ask | receive, salt) or (together, members); `heeds`: whether the script ends
    itself where its budget is spent; `words`: (events in the log before it is said, the word), in order; `jitter`:
    seconds at most of a step of the device."""

    seed: int
    steps: tuple[tuple[str, Any], ...]
    words: tuple[tuple[int, Word], ...]
    trials: int
    heeds: bool
    jitter: float


def plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    receives = rng.random() < 0.08
    kinds = ["try"] * 4 + ["together"] * 4 + ["screen", "ask", "program"] + ["receive"] * (3 * receives)
    steps = tuple(_step(rng, rng.choice(kinds)) for _ in range(rng.randint(1, 4)))
    waits = sum(kind == "receive" for kind, _ in steps)
    places = sorted(rng.randint(0, 10 * len(steps)) for _ in range(rng.choice((0, 1, 1, 2, 3, 4))))
    words = [(place, word) for place in places for word in _words(rng)]
    words += [(10**6, _handed_in(rng)) for _ in range(waits)]  # a script that waits is never left waiting
    heeds, jitter = rng.random() < 0.5, rng.choice((0.0, 0.0, 0.001))
    return Plan(seed, steps, tuple(words), rng.randint(1, 9), heeds, jitter)


def _step(rng: random.Random, kind: str) -> tuple[str, Any]:
    if kind != "together":
        return kind, rng.randint(0, 99)
    members = rng.choices(("try", "screen", "ask", "program"), (12, 2, 2, 1), k=rng.randint(2, 5))
    return kind, tuple((member, rng.randint(0, 99)) for member in members)


def _words(rng: random.Random) -> list[Word]:
    """One word, or a pause with its end."""
    kind = rng.choices(("try", "budget", "pause", "profile"), (5, 4, 1, 2))[0]
    if kind == "pause":
        return [("pause", {}), ("resume", {})]
    if kind == "profile":
        return [("profile", {"trial": rng.randint(1, 5)})]
    return [_handed_in(rng) if kind == "try" else ("budget", {"trials": rng.randint(1, 12)})]


def _handed_in(rng: random.Random) -> Word:
    if rng.random() < 0.2:
        return "try", {"program": PROGRAM.replace(TILES[0], rng.choice(TILES))}
    fails = rng.choice(("", "", " fail"))
    return "try", {"program": f"mine {rng.randint(0, 999)}{fails}", "form": "kernel", "language": "cuda"}


# ---- the script ----


class Script:
    """A plan's script. `turns`: per verb its digest, the answer and the state that came with it."""

    def __init__(self, drawn: Plan):
        self.plan, self.turns = drawn, []
        self._digest = ""

    def __call__(self, problem: Any) -> Iterator[Verb]:
        state, last = problem.start, None
        self._take("", None, state, problem.rng.random())
        for kind, what in self.plan.steps:
            if self.plan.heeds and state.stop:
                return state.stop
            members = what if kind == "together" else ((kind, what),)
            verbs = tuple(self._verb(k, salt, place, last) for place, (k, salt) in enumerate(members))
            verb = Together(verbs) if kind == "together" else verbs[0]
            answer = yield verb
            answers = answer if kind == "together" else [answer]
            state = answers[0].state
            assert all(a.state == state for a in answers)
            last = next((a.number for a in answers if isinstance(a, Finished) and a.number), last)
            self._take(verb.digest, answers, state, problem.rng.random())
        return "The script is over."

    def _take(self, asked: str, answers: Any, state: State, drawn: float) -> None:
        self.turns.append((asked, answers, state))
        quick = sorted(state.quick.items())  # screens that run at once may end in any order
        text = repr((self._digest, asked, answers, replace(state, quick={}), quick, drawn))
        self._digest = hashlib.sha256(text.encode()).hexdigest()

    def _verb(self, kind: str, salt: int, place: int, parent: int | None) -> Verb:
        text = f"{self._digest[:12]} {salt} {place}"
        tiles = TILES[number(text) % 3 :]
        match kind:
            case "try":
                return Try(kernel(text + " fail" * (number(text, "fails") % 6 == 0)), text, parent=parent)
            case "program":
                return Try(Candidate(PROGRAM.replace(TILES[0], tiles[0]), "f16", "cute"), text, parent=parent)
            case "screen":
                return Screen(tuple(Candidate(PROGRAM.replace(TILES[0], t), "f16", "cute") for t in tiles[:2]))
            case "ask":
                return Ask("plan", text, Tile if salt % 2 else None)
        return Receive()


def reply(verb: Ask, turn: Turn) -> Reply:
    """A model whose reply follows from the prompt: right, of another form, or none at all."""
    chosen = number(verb.prompt, "reply") % 5
    if chosen == 0:
        return Reply(refusal="timeout", reason="The model did not answer in time.")
    return Reply('{"tile": 64}' if chosen > 1 else "no JSON", model="m", tokens={"out": chosen})


# ---- the owner ----


@dataclass
class Words:
    """The owner. `waiting`: (when, word) in order; when: a number of events in the log, or the key of an event that
    must be there. `spoken`: (key of the newest event that has one, word) of each word that was said."""

    waiting: list[tuple[Any, Word]]
    spoken: list[tuple[str, Word]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read, self._keys, self._newest, self._asks = 0, {""}, "", False

    def __call__(self, log: Sequence[events.Event]) -> list[Word]:
        for event in log[self._read :]:
            self._newest = key(event) or self._newest
            self._keys.add(self._newest)
            if not isinstance(event, events.Controlled) or event.action == "try":
                self._asks = isinstance(event, events.Progress) and event.step == "receive"
        self._read, words = len(log), []
        while self.waiting and self._due(self.waiting[0][0], len(log), bool(words)):
            words.append(self.waiting.pop(0)[1])
            self.spoken.append((self._newest, words[-1]))
        return words

    def _due(self, when: int | str, length: int, some: bool) -> bool:
        if isinstance(when, str):
            return when in self._keys
        return length >= when or (self._asks and not some)


def key(event: events.Event) -> str:
    """Names an event in every life of a session; "" of those that depend on what ran at once."""
    match event:
        case events.Controlled() | events.TrialProfiled() | events.Progress(step="screen"):
            return ""
        case events.Progress():
            return f"{event.step} {event.text}"
        case events.Advanced() | events.Screened() | events.Answered() | events.Asked():
            return f"{event.KIND} {event.path}"
    return f"{event.KIND} {event.trial}"


# ---- lives ----


@dataclass
class Life:
    """What one engine did: the log when it was over, the blobs that came with each event of its own, what its script
    was given, why its search ended, and what it asked of the device ((step, trial) -> times)."""

    log: list[events.Event]
    blobs: list[dict[str, str]]
    turns: list[tuple[str, Any, State]]
    ending: tuple[str, str]
    spoken: list[tuple[str, Word]]
    asked: dict[tuple[str, int], int]


def live(
    drawn: Plan, past: Sequence[events.Event] = (), blobs: Sequence[dict[str, str]] = (),
    waiting: Sequence[tuple[Any, Word]] | None = None,
) -> Life:  # fmt: skip
    """Play a plan's script from the end of `past`, with the blobs of those events and with the words that `waiting`
    holds (None: the plan's own)."""
    script = Script(drawn)
    device = KernelDevice(LANES, jitter=drawn.jitter, salt=str(len(past)))
    texts = {name: text for some in blobs for name, text in some.items()}
    receives = any(kind == "receive" for kind, _ in drawn.steps)
    words = Words(list(drawn.words if waiting is None else waiting))
    searching = Searching(
        Scripted(script, receives), device, past, texts, lambda: words(searching.journal.log), {"ask": reply},
        trials=drawn.trials, seed=drawn.seed,
    )  # fmt: skip
    fresh = []
    for emitted in searching.events():
        searching.blobs |= emitted.blobs
        fresh.append(emitted.blobs)
    ending = (searching.code, searching.reason)
    return Life(searching.journal.log, fresh, script.turns, ending, words.spoken, dict(device.asked))


def reread(log: Sequence[events.Event]) -> list[events.Event]:
    """A log from its rows."""
    return [events.decode(e.KIND, json.loads(json.dumps(events.encode(e)))) for e in log]


# ---- what two lives must share ----


def stretches(log: Sequence[events.Event], rows: dict[int, Row]) -> list[tuple[list[Row], dict[int, list[str]]]]:
    """The log between one Advanced and the next: all events sorted, and per trial the order of its steps. `rows`: id of
    an event that lives on -> its row, if it was made before."""
    own = {e.trial for e in log if isinstance(e, events.TrialProposed) and e.by == "owner"}
    parts: list[tuple[list[Row], dict[int, list[str]]]] = [([], {})]
    for event in log:
        if isinstance(event, events.Progress):
            continue
        stretch, steps = parts[-1]
        stretch.append(rows.get(id(event)) or row(event, own))
        if event.KIND.startswith("trial."):
            steps.setdefault(event.trial, []).append(event.KIND)
        if isinstance(event, events.Advanced):
            parts.append(([], {}))
    for stretch, _ in parts:
        stretch.sort()
    return parts


def row(event: events.Event, own: Collection[int]) -> Row:
    """An event without what may differ where things run at once: seconds, the trial that a quick time precedes, and of
    a trial among `own`, the owner's, whether it was the best so far, which depends on what had ended when it began."""
    data = vars(event) | ({"seconds": 0.0} if hasattr(event, "seconds") else {})
    if isinstance(event, events.TrialJudged) and event.trial in own:
        data |= {"best": False, "standing": "", "text": ""}
    if isinstance(event, events.Screened):
        data |= {"trial": 0}
    return event.KIND, json.dumps(data, sort_keys=True, default=vars)


def bests(log: Sequence[events.Event]) -> list[tuple[int, bool, bool]]:
    """(trial, whether it was judged the best so far, whether it was faster than all that had ended before it was
    proposed and than PyTorch)."""
    begun, fastest, ends = {}, float("inf"), []
    for event in log:
        if isinstance(event, events.TrialProposed):
            begun[event.trial] = fastest
        elif isinstance(event, events.TrialJudged) and event.verdict in ("clean", "minor"):
            ends.append((event.trial, event.best, event.speedup > 1 and event.ms < begun[event.trial]))
            if event.speedup > 1:
                fastest = min(fastest, event.ms)
    return ends
