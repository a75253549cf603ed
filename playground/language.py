"""The language as a service of the page: check as one types, compile both back ends."""

from __future__ import annotations

from typing import Any

from playground.requests import Refused


def check(text: str) -> dict[str, Any]:
    raise Refused(503, "The language is not here yet.", "Come back in some minutes.")


def compile_(text: str) -> dict[str, Any]:
    raise Refused(503, "The language is not here yet.", "Come back in some minutes.")
