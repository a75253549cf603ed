"""The API with its OpenAPI description, which names the limits of this server (playground.conf) and every event."""

from __future__ import annotations

import json
from typing import Any

from ninja import NinjaAPI

from playground.access import requests
from playground.openapi import event_schemas


class Described(NinjaAPI):
    """Its description is made once, and again where a limit changes."""

    _described: tuple[Any, Any] = (None, None)  # (what it depends on, the last description)

    def get_openapi_schema(self, **more: Any) -> Any:
        """The description, made once: it takes a third of a second of a core. Nobody may change it."""
        key = (json.dumps(more, sort_keys=True, default=str), requests.most_trials())
        if self._described[0] != key:
            self._described = (key, self._describe(key[1], **more))
        return self._described[1]

    def _describe(self, most: int, **more: Any) -> Any:
        schema = super().get_openapi_schema(**more)
        for name in ("SpecFields", "BudgetIn"):
            about = f"Trials of the strategy at most: a whole number from 1 to {most}"
            trials = schema["components"]["schemas"][name]["properties"]["trials"]
            for number in [s for s in (trials, *trials.get("anyOf", ())) if s.get("type") == "integer"]:
                number |= {"minimum": 1, "maximum": most}
            trials |= {"description": about} | ({"allowed": about.partition(": ")[2]} if "allowed" in trials else {})
        event_schemas.describe(schema)
        return schema
