"""What a kernel's compilers built in the process that was checked, for the process that is timed.

    builds = checked.builds()                       # after the rounds; None if there are none
    timed.open(text, seconds, entry, builds)        # the same text in a fresh process

CuTe DSL (over quack's cache), Triton and torch.utils.cpp_extension compile when a kernel is first called, and keep the
result in a folder below HOME, which is the sandbox's own scratch folder. Without its files the timed process compiles
all of it again: 3.5 s of a CuTe kernel's trial on an H100, and 20 s or more of a C++ extension's.

The kernel can write whatever it likes into these folders, so nothing in them is believed:

 - They reach one process: the timed one of the same text, language and entry in the same trial (`Builds.key`). The
   engine keeps them in memory, writes them to no disk and opens none of them. No other kernel, trial or session, and
   none of our own processes, reads them.
 - They come after the judge's process has measured what a batch takes beside its calls, and after the snapshot of the
   harness's functions, as the text does. So they can change nothing that the text could not change.
 - They tell the timed process that it is timed. It knows that anyway: its calls are captured in a graph.
 - They bring no results: each timed call has inputs that are drawn afterwards from a seed that no candidate sees.
 - They may be other code than what was checked. So may be what the text compiles anew. The rounds do not say that a
   timed result is right; the judge compares results of timed calls that it chooses after they ran (README.md, "The
   clock").
 - Their number and size are bounded here, where they are unpacked: plain files below FOLDERS, no links. What is over a
   limit, or is no such file, is not carried, and the kernel compiles again.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.build.cache import content_key

# Below HOME, where no variable says otherwise: of quack, CuTe DSL, Triton and torch.utils.cpp_extension.
FOLDERS = ("sandbox/quack_cache", "sandbox/cutlass_python_cache", ".triton/cache", ".cache/torch_extensions")
MOST = 2 << 20  # bytes that are carried, compressed: they fit in a request (engine.sandbox.channel.MAX_REQUEST)
MOST_BYTES, MOST_FILES = 32 << 20, 512  # of the files
SECONDS = 10.0  # for the checked process to pack them
_PART = re.compile(r"[\w.+=,-]{1,200}", re.ASCII)


@dataclass(frozen=True)
class Builds:
    """The packed files (base64, as the checked process wrote them) and the `key` of the only text that may get them."""

    key: str
    data: str

    def for_text(self, key: str) -> str | None:
        """The packed files if they are those of this text."""
        return self.data if key == self.key else None


def key(text: str, kind: str, entry: str) -> str:
    """The identity of a text for `Builds`."""
    return content_key("own builds", text, kind, entry)


def read(key: str, answer: Any) -> Builds | None:
    """The builds in the answer of a candidate's process, which may have written anything there."""
    good = isinstance(answer, str) and 0 < len(answer) <= base64_bytes(MOST) and answer.isascii()
    return Builds(key, answer) if good else None


def base64_bytes(size: int) -> int:
    """Characters of base64 for so many bytes."""
    return -(-size // 3) * 4


# ---- in the candidates' processes ----


def pack(home: str) -> str:
    """The files below FOLDERS in base64; "" if there are none, or too many, or too large ones."""
    about, contents, size = [], [], 0
    for path in _files(home):
        with contextlib.suppress(OSError), open(os.path.join(home, path), "rb") as f:
            s = os.fstat(f.fileno())
            size += s.st_size
            if size > MOST_BYTES or len(about) >= MOST_FILES:
                return ""
            contents.append(f.read(MOST_BYTES))
            # ninja builds again what is older than its sources, to the nanosecond.
            about.append([path, len(contents[-1]), stat.S_IMODE(s.st_mode), s.st_mtime_ns])
    packed = zlib.compress(json.dumps(about).encode() + b"\n" + b"".join(contents), 1) if about else b""
    return base64.b64encode(packed).decode() if len(packed) <= MOST else ""


def _files(home: str) -> Iterator[str]:
    """Paths of the plain files, relative to `home`."""
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(home, folder)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(at, name), home)
                if allowed(path) and stat.S_ISREG(os.lstat(os.path.join(home, path)).st_mode):
                    yield path


def allowed(path: str) -> bool:
    """Return True if a relative path lies in one of FOLDERS and has only usual characters."""
    parts = path.split("/")
    usual = all(_PART.fullmatch(part) and part.strip(".") for part in parts)
    return usual and any(path.startswith(folder + "/") for folder in FOLDERS)


def unpack(home: str, data: str) -> int:
    """Write packed files below `home`, before the text is loaded. Returns their number; 0, with nothing written, for
    anything but what `pack` makes."""
    try:
        whole = _decompressed(base64.b64decode(data, validate=True))
        first, _, contents = whole.partition(b"\n")
        files = [(str(path), int(size), int(mode), int(mtime)) for path, size, mode, mtime in json.loads(first)]
    except (ValueError, TypeError, zlib.error, RecursionError):
        return 0
    sizes = [size for _, size, _, _ in files]
    distinct = len({path for path, *_ in files}) == len(files) <= MOST_FILES
    if not distinct or min(sizes, default=-1) < 0 or sum(sizes) != len(contents):
        return 0
    if not all(allowed(path) for path, *_ in files):
        return 0
    start = 0
    for path, size, mode, mtime in files:
        with contextlib.suppress(OSError, OverflowError):  # e.g. a file where another one needs a folder
            _write(os.path.join(home, path), contents[start : start + size], mode & 0o700 | 0o600, mtime)
        start += size
    return len(files)


def _decompressed(packed: bytes) -> bytes:
    """Raises ValueError if it is larger than what may be carried."""
    one = zlib.decompressobj()
    whole = one.decompress(packed, MOST_BYTES + (1 << 20))
    if one.unconsumed_tail or not one.eof:
        raise ValueError("more than may be carried")
    return whole


def _write(path: str, content: bytes, mode: int, mtime: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "wb") as f:
        f.write(content)
    os.utime(path, ns=(mtime, mtime))
