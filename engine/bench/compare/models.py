"""Who answers the turns of a comparison: the rehearsal in this process, or the model of the environment.

The rehearsal answers by the same rules as `python -m engine rehearse`, without the way over HTTP. Each session has a
player of its own, so a reply depends on the prompt, the skill and the seed, and on no other session. Its tokens are
estimates by length, as the server's are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.llm.handler import Models
from engine.llm.rehearse import MODEL
from engine.llm.rehearse.player import Player
from engine.llm.request import Call
from engine.llm.settings import Settings, load
from engine.strategies.api import Reply

CHARACTERS_A_TOKEN = 4
PLENTY = 10**12


def rehearsal(folder: Path) -> Settings:
    """Settings for the rehearsal. `folder`: of the day's account of tokens, which it does not limit."""
    return load({
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "none", "UCUTLASS_MODEL": MODEL,
        "UCUTLASS_VAR": str(folder), "UCUTLASS_TOKENS_A_DAY": str(PLENTY), "UCUTLASS_TOKENS_AN_ADDRESS": str(PLENTY),
    })  # fmt: skip


def handlers(settings: Settings, tokens: int, skill: float | None, seed: int) -> Mapping[str, Any]:
    """The handlers of one session. `skill`: of the rehearsal; None asks the model of the settings."""
    limited = settings.model_copy(update={"tokens_a_session": tokens})
    return {"ask": Models(limited, via=None if skill is None else _played(Player(skill, seed)))}


def _played(player: Player) -> Callable[..., Reply]:
    """The rehearsal's reply as that of a call (engine.llm.client.complete)."""

    def complete(endpoint: Any, call: Call, cancelled: Any, say: Callable[[str], None], patience: Any) -> Reply:
        began = time.monotonic()
        prompt = "\n".join(m["content"] for m in call.messages)
        text = player.reply(prompt)
        say(text)
        tokens = {"in": len(prompt) // CHARACTERS_A_TOKEN, "out": len(text) // CHARACTERS_A_TOKEN + 1}
        return Reply(
            text=text, model=MODEL, tokens=tokens, seconds=time.monotonic() - began, finish="stop", estimated=True
        )

    return complete
