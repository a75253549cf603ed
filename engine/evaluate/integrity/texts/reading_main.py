"""The confined process that parses the texts of raw kernels: the engine's side is reading.TextReader."""

from __future__ import annotations

from engine.evaluate.integrity.texts.reading import read


def serve(message: dict) -> dict:
    """{ok: the report of the text as JSON}."""
    return {"ok": read(message["source"], message["kind"], message["cls"], message["name"]).to_json()}
