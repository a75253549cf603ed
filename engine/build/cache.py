"""Finished builds by content hash, shared by all sessions, users and processes of this machine.

An entry is a folder, written elsewhere and renamed into place, so that a reader sees all of it or nothing. Its
modification time is its last use. When the cache exceeds its limit, the least recently used entries are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

LIMIT = 4 << 30  # bytes
_PRUNED = 0.8  # share of the limit that is left after pruning, so that the next one is not due at once
_CHECK = 32  # entries that this process adds between two checks of the size
_STALE = 3600.0  # seconds after which a half-written folder belongs to a process that died


def default_root() -> Path:
    """$UCUTLASS_CACHE, or `ucutlass` in the platform's folder for caches."""
    if folder := os.environ.get("UCUTLASS_CACHE"):
        return Path(folder)
    if sys.platform == "darwin":
        base = Path.home() / "Library/Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ucutlass"


def content_key(*parts: str | bytes) -> str:
    """SHA-256 of the parts, each with its length, in hex."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


class Cache:
    """Folders by key below `root`. Safe to share between threads and processes."""

    def __init__(self, root: Path | None = None, limit: int = LIMIT):
        self.root = Path(root) if root is not None else default_root()
        self.limit = limit
        self._added = 0
        self._entries.mkdir(parents=True, exist_ok=True)
        self._aside.mkdir(exist_ok=True)

    @property
    def _entries(self) -> Path:
        return self.root / "entries"

    @property
    def _aside(self) -> Path:
        return self.root / "aside"

    def folder(self, name: str) -> Path:
        """A folder that another tool fills and `prune` limits, for quack's objects."""
        path = self.root / "shared" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def get(self, key: str) -> Path | None:
        """The entry's folder, marked as used now; None if there is no entry."""
        path = self._path(key)
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        return path

    def put(self, key: str, files: Mapping[str, bytes | Path]) -> Path:
        """Store an entry: file name -> contents, or a file to copy. An existing entry is not replaced."""
        existing = self.get(key)
        if existing is not None:
            return existing
        aside = Path(tempfile.mkdtemp(dir=self._aside))
        try:
            for name, content in files.items():
                if isinstance(content, bytes):
                    (aside / name).write_bytes(content)
                else:
                    shutil.copy2(content, aside / name)
            target = self._path(key)
            target.parent.mkdir(exist_ok=True)
            try:
                aside.rename(target)
            except OSError:
                if not target.is_dir():  # another process was first: equal keys, equal contents
                    raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._added += 1
        if self._added % _CHECK == 0:
            self.prune()
        return target

    def drop(self, key: str) -> None:
        """Remove an entry: no reader sees it from now on, then its files are deleted."""
        self._remove(self._path(key))

    def size(self) -> int:
        """Bytes of everything below the root."""
        return sum(size for _, _, size in self._items())

    def prune(self) -> int:
        """If over the limit, remove the least recently used down to 80% of it; the number of items removed."""
        with self._lock():
            for path in self._aside.iterdir():
                if time.time() - _used(path) > _STALE:
                    shutil.rmtree(path, ignore_errors=True)
            items = sorted(self._items())
            total, removed = sum(size for _, _, size in items), 0
            if total <= self.limit:
                return 0
            for _, path, size in items:
                if total <= self.limit * _PRUNED:
                    break
                self._remove(Path(path))
                total, removed = total - size, removed + 1
            return removed

    def _path(self, key: str) -> Path:
        return self._entries / key[:2] / key

    def _items(self) -> Iterator[tuple[float, str, int]]:
        """(last use, path, bytes) of every entry, and of every single file of the shared folders."""
        for path in self._entries.glob("*/*"):
            with contextlib.suppress(OSError):  # removed meanwhile
                yield _used(path), str(path), sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        for path in (self.root / "shared").rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.suffix != ".lock":
                    yield _used(path), str(path), path.stat().st_size

    def _remove(self, path: Path) -> None:
        trash = Path(tempfile.mkdtemp(dir=self._aside))
        with contextlib.suppress(OSError):  # another process was first
            os.rename(path, trash / "entry")
        shutil.rmtree(trash, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """One pruner at a time; readers and writers never wait."""
        with open(self.root / "prune.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
