"""Built libraries of raw CUDA candidates, in the machine's build cache by content: nvcc runs once per text.

A library is built in its own sandbox, where the text is compiled and never run, so that no candidate can put anything
but nvcc's output into the cache. This module only handles bytes: it reads, stores and passes them to the candidate's
sandbox, the only place where a library is loaded.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import sandbox
from engine.build import toolchain
from engine.build.cache import Cache, content_key
from engine.evaluate.integrity.process import compiler
from engine.evaluate.integrity.process.nvcc_unit import PRELUDE
from engine.sandbox.process import SandboxEnded

BUILDING = "engine.evaluate.integrity.process.building"
SECONDS = 120.0
MOST = 2 << 20  # bytes of a library that fit in a request (sandbox.channel.MAX_REQUEST); a larger one is not stored
MOST_LOG = 16_000  # characters of nvcc's errors
MOST_KERNELS = 64


def preload(gpu: bool) -> tuple[str, ...]:
    """What a compiler's sandbox loads. One that sees a GPU loads torch anyway, and as a fork of the process that has
    done so it is ready 5 s sooner."""
    return ("torch", BUILDING) if gpu else (BUILDING,)


def key(source: str, arch: str, entry: str = "") -> str:
    """The key of one text for one architecture, with the prelude and the compiler's version."""
    return content_key("raw cuda 2", PRELUDE, source, toolchain.find().fingerprint("cpp"), arch, entry)


class NotBuilt(Exception):
    """The text did not compile. `code`, `reason` and `line` as the sandbox reported them; `log`: nvcc's errors."""

    def __init__(self, code: str, reason: str, line: int | None = None, log: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.line, self.log = code, reason, line, log


@dataclass(frozen=True)
class Library:
    """nvcc's result. `base64`: the shared library, None if it is too large to store; `resources`: [{kernel, registers,
    shared_bytes, spill_bytes}]; `seconds`: of this build, near 0 if it was `cached`."""

    base64: str | None
    resources: list[dict[str, Any]]
    seconds: float
    cached: bool


def library(
    source: str,
    arch: str,
    cache: Cache,
    entry: str = "",
    *,
    gpu: bool,
    local_user: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> Library | None:
    """The library, built now or earlier; None if there is no compiler. Raises NotBuilt.

    `entry`: the function that must exist, if it is not `run`. `gpu`: build where the candidate will run (only there is
    a toolkit outside Python's packages visible)."""
    began = time.monotonic()
    name = key(source, arch, entry)
    stored = _read(cache.get(name))
    if stored is not None:
        return Library(*stored, time.monotonic() - began, True)
    toolkit = compiler.find()
    if toolkit is None:
        return None  # the candidate's own process reports what is missing
    try:
        with sandbox.take(gpu=gpu, local_user=local_user, preload=preload(gpu), cancelled=cancelled) as box:
            message = {"entry": BUILDING, "source": source, "compiler": toolkit, "arch": arch, "name": entry}
            answer = box.request(message, timeout=SECONDS, cancelled=cancelled)
    except SandboxEnded as e:
        raise NotBuilt(e.code, e.reason, e.line) from None
    error = answer.get("error")
    if isinstance(error, dict):
        line = error.get("line")
        raise NotBuilt(
            str(error.get("code"))[:40], str(error.get("reason"))[:1000], line if isinstance(line, int) else None,
            str(error.get("log") or "")[:MOST_LOG],
        )  # fmt: skip
    try:
        data = base64.b64decode(answer["ok"]["library"], validate=True)
        resources = [dict(r) for r in answer["ok"]["resources"]][:MOST_KERNELS]
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise NotBuilt("garbled", "something else than a library came back from the compiler's sandbox") from None
    data = data if len(data) <= MOST else b""  # an empty one marks a library that is too large
    cache.put(name, {"library.so": data, "resources.json": json.dumps(resources).encode()})
    return Library(base64.b64encode(data).decode() or None, resources, time.monotonic() - began, False)


def _read(folder: Path | None) -> tuple[str | None, list[dict[str, Any]]] | None:
    """(library in base64, resources) of an earlier build; None if there is no complete one."""
    try:
        data = (folder / "library.so").read_bytes() if folder is not None else None
        resources = json.loads((folder / "resources.json").read_text()) if folder is not None else None
    except (OSError, ValueError):
        return None
    return None if data is None else (base64.b64encode(data).decode() or None, resources)
