"""A folder of PyTorch modules, such as KernelBench's levels: one problem a Python file, in any folders below.

A problem is named by its path without the suffix (`level3/9_ResNet18`). Its id is that of KernelBench where the path
says it (`L3/9`), as in the suite, which has problems of the same ids; every other problem has the id `folder`.
"""

from __future__ import annotations

import re
from pathlib import Path

OTHER = "folder"  # the id of a problem without a level and a number
_QUOTED = re.compile(r", `[^`]*`,(?= )")  # the text of a line, which a refusal quotes after its number
_NUMBERED = re.compile(r"(?:.*/)?level(\d)/(\d+)_[^/]*")


def problems(folder: Path) -> dict[str, Path]:
    """{level3/9_ResNet18: its file}, in the order of the numbers in their names."""
    paths = (p for p in folder.rglob("*.py") if not p.name.startswith("_"))
    named = {p.relative_to(folder).with_suffix("").as_posix(): p for p in paths}
    return {name: named[name] for name in sorted(named, key=natural)}


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts the numbers in a name as numbers."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def pid(name: str) -> str:
    """L3/9 of level3/9_ResNet18; `folder` for a name without a level and a number."""
    numbered = _NUMBERED.fullmatch(name)
    return f"L{numbered[1]}/{int(numbered[2])}" if numbered else OTHER


def unquoted(reason: str) -> str:
    """A reason without the line of a module that it quotes: results of other people's modules hold no line of them."""
    return _QUOTED.sub("", reason)


def chosen(names: list[str], words: tuple[str, ...]) -> list[str]:
    """The names that have one of the words, in order; all of them without words. A word that is a whole name means
    that one alone."""
    whole = {word for word in words if word in names}
    parts = [word for word in words if word not in whole]
    return [name for name in names if not words or name in whole or any(part in name for part in parts)]


def module_set(folder: Path, only: tuple[str, ...] = ()) -> dict[str, str]:
    """{name: id} of a folder's problems, or of those whose name has a word of `only`. Raises ValueError for a folder
    without modules, and for words that no name has."""
    names = list(problems(folder))
    if not names:
        raise ValueError(f"{folder} has no Python file; name a folder of PyTorch modules, one a file")
    some = chosen(names, only)
    if not some:
        raise ValueError(f"no module below {folder} has {' or '.join(only)} in its name; the first is {names[0]}")
    return {name: pid(name) for name in some}
