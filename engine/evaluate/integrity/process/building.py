"""The confined process that only compiles raw CUDA. Its answer is nvcc's, because the text never runs here. See
raw_builds."""

from __future__ import annotations

import base64
import os

from engine.evaluate.integrity.process.nvcc_unit import NvccFailed, check_entry, nvcc_library, resources
from engine.trace.load import Bad


def serve(message: dict) -> dict:
    """{library: base64, resources} of `source`, or an error with nvcc's first error, its line and its log."""
    path = os.path.abspath("built.so")
    try:
        log = nvcc_library(message["source"], path, message["compiler"], message["arch"])
        check_entry(path, message["source"], message["name"])
    except NvccFailed as e:
        return {"error": {"code": e.code, "reason": e.reason[:2000], "line": e.line, "log": e.log}}
    except Bad as e:
        return {"error": {"code": e.code, "reason": e.reason[:2000], "line": e.line}}
    with open(path, "rb") as f:
        library = base64.b64encode(f.read()).decode()
    return {"ok": {"library": library, "resources": resources(log)}}
