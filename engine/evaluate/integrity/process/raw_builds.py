"""Built libraries of raw CUDA candidates, in the machine's build cache by content: nvcc runs once a text.

A library is built in a sandbox of its own, where the text is compiled and never run, so that no candidate can put
something else into the cache than what nvcc made of it. Here it is bytes alone: read, kept, and handed to the
candidate's sandbox, the only place where it is loaded.
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

PRELOAD = ("engine.evaluate.integrity.process.building",)
SECONDS = 120.0
MOST = 2 << 20  # bytes of a library that a request has room for (sandbox.channel.MAX_REQUEST); a larger one is not kept
MOST_LOG = 16_000  # characters of nvcc's errors
MOST_KERNELS = 64


def key(source: str, arch: str, entry: str = "") -> str:
    """Of one text for one architecture: the declarations before it and the compiler's version count too."""
    return content_key("raw cuda 2", PRELUDE, source, toolchain.find().fingerprint("cpp"), arch, entry)


class NotBuilt(Exception):
    """The text did not become a library. `code`, `reason` and `line` as the sandbox told them; `log`: nvcc's errors."""

    def __init__(self, code: str, reason: str, line: int | None = None, log: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.line, self.log = code, reason, line, log


@dataclass(frozen=True)
class Library:
    """What nvcc made of a text. `base64`: the shared library, None of one that is too large to keep; `resources`:
    [{kernel, registers, shared_bytes, spill_bytes}]; `seconds`: of this build, near 0 where it was `cached`."""

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
    """The library, built now or earlier; None where there is no compiler. Raises NotBuilt.

    `entry`: the function that must be there, where it is not `run`. `gpu`: build where the candidate will run (a
    toolkit outside of Python's packages is shown there alone)."""
    began = time.monotonic()
    name = key(source, arch, entry)
    kept = _read(cache.get(name))
    if kept is not None:
        return Library(*kept, time.monotonic() - began, True)
    told = compiler.find()
    if told is None:
        return None  # the candidate's own process says what is missing
    try:
        with sandbox.take(gpu=gpu, local_user=local_user, preload=PRELOAD, cancelled=cancelled) as box:
            message = {"entry": PRELOAD[0], "source": source, "compiler": told, "arch": arch, "name": entry}
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
    data = data if len(data) <= MOST else b""  # an empty one says that it is too large
    cache.put(name, {"library.so": data, "resources.json": json.dumps(resources).encode()})
    return Library(base64.b64encode(data).decode() or None, resources, time.monotonic() - began, False)


def _read(folder: Path | None) -> tuple[str | None, list[dict[str, Any]]] | None:
    """(library in base64, resources) of an earlier build; None where there is none, whole."""
    try:
        data = (folder / "library.so").read_bytes() if folder is not None else None
        resources = json.loads((folder / "resources.json").read_text()) if folder is not None else None
    except (OSError, ValueError):
        return None
    return None if data is None else (base64.b64encode(data).decode() or None, resources)
