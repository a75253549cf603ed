"""The confined process that compiles raw CUDA and does nothing else: what it answers is nvcc's, for the text never runs
here. See raw_builds."""

from __future__ import annotations

import base64
import os

from engine.evaluate.integrity.process.loading import nvcc_library
from engine.trace.load import Bad


def serve(message: dict) -> dict:
    """{library: base64} of `source`, or an error with nvcc's first complaint."""
    path = os.path.abspath("built.so")
    try:
        nvcc_library(message["source"], path, message["compiler"], message["arch"])
    except Bad as e:
        return {"error": {"code": e.code, "reason": e.reason[:2000], "line": e.line}}
    with open(path, "rb") as f:
        return {"ok": {"library": base64.b64encode(f.read()).decode()}}
