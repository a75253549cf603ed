"""A generated program whose kernels do nothing: its outputs then show whether the kernels compute the result.

`cute` modules name their stages as globals, which `run` looks up at every call; `cpp` bindings call one function of the
library that they load. The probe replaces both while it runs and counts the calls; the rest of the program runs.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any


class Launches:
    """`names` of the skipped launches, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def stub(self, name: str) -> Callable[..., int]:
        def nothing(*arguments: Any, **named: Any) -> int:
            self.names.append(name)
            return 0

        return nothing


@contextlib.contextmanager
def silenced(module: Any, artifact: str | None) -> Iterator[tuple[Callable, Launches]]:
    """(run, launches): a second `run` of the module, with its own memory, whose kernels do nothing inside the `with`.
    The first `run` is unchanged. Raises LookupError if the module has no kernel that can be skipped."""
    launches = Launches()
    names = vars(module)
    originals: dict[str, Any] = {}
    stages = {id(value[0]): name for name, value in (names.get("STAGES") or {}).items()}
    for name, value in list(names.items()):
        if id(value) in stages and name != "STAGES":
            originals[name] = value
            names[name] = launches.stub(stages[id(value)])
    if not originals and isinstance(names.get("NAMESPACE"), str) and names.get("ctypes") is ctypes:
        originals["ctypes"] = ctypes
        names["ctypes"] = _Ctypes(launches)
    if not originals:
        raise LookupError("the program names no kernel")
    try:
        yield module.load(artifact), launches
    finally:
        names.update(originals)


class _Ctypes:
    """A ctypes whose libraries do not run."""

    def __init__(self, launches: Launches):
        self._launches = launches

    def __getattr__(self, name: str) -> Any:
        return getattr(ctypes, name)

    def CDLL(self, path: str) -> _Library:
        return _Library(ctypes.CDLL(path), self._launches)


class _Library:
    """`NAMESPACE_run` does nothing; the other functions (workspace size, messages) are the library's."""

    def __init__(self, real: ctypes.CDLL, launches: Launches):
        self._real, self._launches = real, launches

    def __getitem__(self, name: str) -> Any:
        return self._launches.stub(name) if name.endswith("_run") else self._real[name]
