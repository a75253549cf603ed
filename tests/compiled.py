"""Texts that compiled before, so that a test run compiles only what is new.

`compiled.json` holds a digest for each text that some test compiled without an error: of the generated text and of the
versions of every tool that compiled it. The same text and the same tools give the same machine code, so compiling them
again says nothing. A test still compiles whatever has another digest, and tests/dsl/test_matrix.py one text of each
back end in any case, to see that the tools are there and work. COMPILE=new adds what was new to the list, COMPILE=all
compiles everything, and COMPILE=record also adds all of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from engine.build import toolchain

PATH = Path(__file__).with_name("compiled.json")


def digest(backend: str, text: str) -> str:
    """Of a generated text and of the tools that compile it (backend: cute | cpp)."""
    return hashlib.sha256(f"{toolchain.find().fingerprint(backend)}\n{text}".encode()).hexdigest()[:24]


def wanted(backend: str, texts: Mapping[str, str], always: int = 1) -> list[str]:
    """The names of the texts to compile: the first `always` of them, and those that are not in the list."""
    everything = os.environ.get("COMPILE") in ("all", "record")
    known = set(json.loads(PATH.read_text())) if PATH.exists() and not everything else set()
    names = list(texts)
    new = [name for name in names if digest(backend, texts[name]) not in known]
    if new and not os.environ.get("COMPILE"):
        warnings.warn(
            f"{len(new)} texts for {backend} are not in {PATH.name} and compile in every run ({', '.join(new)}): "
            "COMPILE=new adds them",
            stacklevel=2,
        )
    return [name for place, name in enumerate(names) if place < always or name in new]


def compiled(backend: str, *texts: str) -> None:
    """Add texts that compiled without an error to the list, if COMPILE=new or COMPILE=record."""
    if os.environ.get("COMPILE") not in ("new", "record"):
        return
    with PATH.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = set(json.loads(PATH.read_text())) if PATH.exists() else set()
        known |= {digest(backend, text) for text in texts}
        PATH.write_text(json.dumps(sorted(known), indent=0) + "\n")
    PATH.with_suffix(".lock").unlink(missing_ok=True)
