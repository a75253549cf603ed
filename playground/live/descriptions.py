"""Descriptions that a model turns into modules: a visitor asks, an engine with a model answers (playground.live.desk).

The web process holds no key and asks no model.
"""

from __future__ import annotations

from typing import Any

from playground import engines
from playground.live import desk
from playground.models import Description

NO_ENGINE = "No engine is running, so no model can be asked."
START = "Start one with: manage.py engine"
AGAIN = "Press the button again to ask again."


def model() -> dict[str, str]:
    """{model, host} of the model that running engines ask for modules; else {missing, fix}."""
    known = [engine.device.get("words") or {} for engine in engines.alive()]
    ready = next((m for m in known if m.get("model")), None)
    if ready is not None:
        return ready
    missing = next((m["missing"] for m in known if m.get("missing")), "")
    return {"missing": missing or NO_ENGINE, "fix": "The rules still read your words." if missing else START}


def ask(origin: str, text: str) -> Description:
    """A new description of an address (limits.origin). Raises Refused."""
    return desk.ask("words", origin, text, "descriptions")


def look(row: Description) -> dict[str, Any]:
    """{state, ...} for the page: waiting, writing, done with {module, sentence, assumed, model}, or failed with {error,
    fix}. Notes that the page looked."""
    if row.answered is not None:
        answer = row.answer
        if answer.get("module"):
            return {"state": "done", **{k: answer[k] for k in ("module", "sentence", "assumed", "model")}}
        return {"state": "failed", "model": answer.get("model", ""), "error": answer["reason"], "fix": AGAIN}
    desk.looked(row)
    alive = engines.alive()
    if row.engine_id and row.engine_id not in {engine.id for engine in alive}:
        return {"state": "failed", "error": "The engine was lost while the model wrote.", "fix": AGAIN}
    if not row.engine_id and not any((e.device.get("words") or {}).get("model") for e in alive):
        return {"state": "failed", "error": "No engine with a model is running any more.", "fix": AGAIN}
    return {"state": "writing" if row.engine_id else "waiting"}
