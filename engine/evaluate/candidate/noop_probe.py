"""A generated program whose kernels do nothing: what it then leaves in its outputs tells who made the result.

`cute` modules name their stages as globals, which `run` looks up at every call; `cpp` bindings call one function of the
library that they load. Both are replaced for the length of the probe and counted; everything else of the program runs.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any


class Launches:
    """`names` of the launches that were left out, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def stub(self, name: str) -> Callable[..., int]:
        def nothing(*arguments: Any, **named: Any) -> int:
            self.names.append(name)
            return 0

        return nothing


@contextlib.contextmanager
def silenced(module: Any, artifact: str | None) -> Iterator[tuple[Callable, Launches]]:
    """(run, launches): a second `run` of the module, with memory of its own, whose kernels do nothing inside of the
    `with`. The first one is untouched. Raises LookupError where the module has no kernel that could be left out."""
    launches = Launches()
    names = vars(module)
    held: dict[str, Any] = {}
    stages = {id(value[0]): name for name, value in (names.get("STAGES") or {}).items()}
    for name, value in list(names.items()):
        if id(value) in stages and name != "STAGES":
            held[name] = value
            names[name] = launches.stub(stages[id(value)])
    if not held and isinstance(names.get("NAMESPACE"), str) and names.get("ctypes") is ctypes:
        held["ctypes"] = ctypes
        names["ctypes"] = _Ctypes(launches)
    if not held:
        raise LookupError("the program names no kernel")
    try:
        yield module.load(artifact), launches
    finally:
        names.update(held)


class _Ctypes:
    """ctypes, whose libraries do not run."""

    def __init__(self, launches: Launches):
        self._launches = launches

    def __getattr__(self, name: str) -> Any:
        return getattr(ctypes, name)

    def CDLL(self, path: str) -> _Library:
        return _Library(ctypes.CDLL(path), self._launches)


class _Library:
    """`NAMESPACE_run` does nothing; the other functions (how much workspace, which message) are the library's."""

    def __init__(self, real: ctypes.CDLL, launches: Launches):
        self._real, self._launches = real, launches

    def __getitem__(self, name: str) -> Any:
        return self._launches.stub(name) if name.endswith("_run") else self._real[name]
