"""A small strategy that asks a model, a session that plays it, and an engine process that can be killed:

python -m tests.engine.llm.asking URL RECORDING FOLDER
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from engine.llm import handler
from engine.llm.client import Patience
from engine.llm.settings import Settings, load
from engine.session import recording
from engine.session.runner import run
from engine.session.script.steps import Emitted
from engine.strategies.api import Ask, Candidate, Strategy, Together, Try
from tests.engine.counting import PROGRAM, CountingDevice, spec
from tests.engine.llm.server import Exchange, Play, drip, says

KEY = "sk-secret-0123456789abcdef"
PROMPTS = ("Which tile?", "Why this one?", "And what next?")
REPLIES = dict(
    zip(PROMPTS, ('Here:\n```json\n{"tile": "64x64x64",}\n```', "because it fits " * 5, "nothing"), strict=True)
)


class Plan(BaseModel):
    tile: str


class Asking(Strategy):
    """Asks for a tile, tries it, and asks two things at once. A refused turn ends it with the reason."""

    name = "asking"

    def run(self, problem):
        reply = yield Ask("plan", PROMPTS[0], Plan)
        if reply.refusal:
            return f"{reply.refusal}: {reply.reason}"
        yield Try(Candidate(PROGRAM.replace("128x128x64", reply.value.tile), "f16", backend="cpp"), reply.value.tile)
        replies = yield Together(tuple(Ask("summarize", prompt) for prompt in PROMPTS[1:]))
        return " | ".join(r.refusal or r.text for r in replies)


def model(pause: float) -> Play:
    """Answers the prompts of Asking; the second one slowly."""

    def play(x: Exchange) -> None:
        prompt = x.body["messages"][-1]["content"]
        text = REPLIES[prompt]
        (drip(text, pause, 8) if prompt == PROMPTS[1] else says(text))(x)

    return play


def settings(url: str, folder: Path, **more: str) -> Settings:
    return load(
        {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, "UCUTLASS_MODEL": "scripted-1", "UCUTLASS_VAR": str(folder)}
        | more
    )


def session(settings: Settings, **more) -> Iterator[Emitted]:
    """The events of a session of Asking."""
    models = handler.Models(settings, patience=Patience(silence=5.0, total=20.0, retries=1, first_wait=0.01))
    options = {"device": CountingDevice(), "strategy": Asking(), "teaches": False, "memory": ""} | more
    return run(spec(trials=3), handlers={"ask": models}, **options)


def main(url: str, path: str, folder: str) -> None:
    with recording.Writer(path) as writer:
        for seq, emitted in enumerate(session(settings(url, Path(folder))), 1):
            writer.add(seq, emitted.t, emitted.event, emitted.blobs)


if __name__ == "__main__":
    main(*sys.argv[1:])
