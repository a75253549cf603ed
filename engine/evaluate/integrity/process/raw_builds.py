"""Built libraries of raw CUDA candidates, in the machine's build cache by content: nvcc runs once a text.

A library is built in a sandbox of its own, where the text is compiled and never run, so that no candidate can put
something else into the cache than what nvcc made of it. Here it is bytes alone: read, kept, and handed to the
candidate's sandbox, the only place where it is loaded.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from engine import sandbox
from engine.build import toolchain
from engine.build.cache import Cache, content_key
from engine.evaluate.integrity.process import compiler
from engine.evaluate.integrity.process.loading import PRELUDE
from engine.sandbox.process import SandboxEnded

PRELOAD = ("engine.evaluate.integrity.process.building",)
SECONDS = 120.0
MOST = 2 << 20  # bytes of a library that a request has room for (sandbox.channel.MAX_REQUEST); a larger one is not kept


def key(source: str, arch: str) -> str:
    """Of one text for one architecture: the declarations before it and the compiler's version count too."""
    return content_key("raw cuda", PRELUDE, source, toolchain.find().fingerprint("cpp"), arch)


class NotBuilt(Exception):
    """The text did not become a library. `code`, `reason` and `line` as the sandbox told them."""

    def __init__(self, code: str, reason: str, line: int | None = None):
        super().__init__(reason)
        self.code, self.reason, self.line = code, reason, line


def library(
    source: str,
    arch: str,
    cache: Cache,
    *,
    gpu: bool,
    local_user: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> str | None:
    """The library in base64, built now or earlier; None for one that is too large to keep. Raises NotBuilt.

    `gpu`: build where the candidate will run (a toolkit outside of Python's packages is shown there alone)."""
    folder = cache.get(key(source, arch))
    if folder is not None:
        data = (folder / "library.so").read_bytes()
        return base64.b64encode(data).decode() if data else None
    told = compiler.find()
    if told is None:
        return None  # the candidate's own process says what is missing
    try:
        with sandbox.take(gpu=gpu, local_user=local_user, preload=PRELOAD, cancelled=cancelled) as box:
            message = {"entry": PRELOAD[0], "source": source, "compiler": told, "arch": arch}
            answer = box.request(message, timeout=SECONDS, cancelled=cancelled)
    except SandboxEnded as e:
        raise NotBuilt(e.code, e.reason, e.line) from None
    if isinstance(answer.get("error"), dict):
        error = answer["error"]
        raise NotBuilt(str(error.get("code"))[:40], str(error.get("reason"))[:1000])
    try:
        data = base64.b64decode(answer["ok"]["library"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise NotBuilt("garbled", "something else than a library came back from the compiler's sandbox") from None
    kept = data if len(data) <= MOST else b""  # an empty one says that it is too large
    cache.put(key(source, arch), {"library.so": kept})
    return base64.b64encode(kept).decode() if kept else None
