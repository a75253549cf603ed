"""Plotly figures of a session, made from its log."""

from __future__ import annotations

from typing import Any

from playground.models import Session
from playground.requests import Refused


def of(session: Session) -> dict[str, Any]:
    raise Refused(503, "The figures are not here yet.", "Come back in some minutes.")
