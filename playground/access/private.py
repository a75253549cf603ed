"""Keep the folder UCUTLASS_VAR from the machine's other users: folders 0700, files 0600."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

SUFFIXES = ("", "-wal", "-shm", "-journal")  # of SQLite's files; new ones get the mode of the database


def folder(path: Path) -> None:
    """Make a folder that only we may enter, or close one of ours to others. One with a sticky bit (/tmp) stays."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.stat().st_mode & stat.S_ISVTX:
        close(path, 0o700)


def database(path: Path) -> None:
    """Make SQLite's file before SQLite does, which would let others read it, and close an older one."""
    with contextlib.suppress(FileExistsError, PermissionError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for suffix in SUFFIXES:
        close(path.with_name(path.name + suffix), 0o600)


def tree(top: Path) -> None:
    """Close everything in a folder."""
    for at, _, names in os.walk(top):
        close(Path(at), 0o700)
        for name in names:
            close(Path(at, name), 0o600)


def close(path: Path, most: int = 0o600) -> None:
    """Take away the permissions beyond `most`. Another user's file is theirs to close, and a link is not followed."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & ~most:
            path.chmod(stat.S_IMODE(mode) & most)
