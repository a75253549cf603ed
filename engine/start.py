"""The start of our processes: their imports, without the garbage collector.

    python -m engine.start MODULE ARGUMENT...    imports the module and calls its `main()`

The collector would visit each of the million objects of torch or CuTe DSL again and again while they are imported, a
quarter to a half of the time, and free nothing. They are not visited later either, so copies of a process share them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import modules inside."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def command(module: str, *arguments: str) -> list[str]:
    """The command line of a process that runs the `main` of one of our modules."""
    return [sys.executable, "-m", "engine.start", module, *arguments]


def module_of(command: list[str]) -> list[str]:
    """The module and its arguments in what `command` returned."""
    return command[command.index("engine.start") + 1 :]


if __name__ == "__main__":
    del sys.argv[0]
    with importing():
        started = importlib.import_module(sys.argv[0])
    started.main()
