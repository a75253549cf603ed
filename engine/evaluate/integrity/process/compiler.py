"""Find the compiler of raw CUDA candidates in the engine, for use in the sandbox.

A sandboxed child has an empty environment and sees /usr, Python's folders and those of `confine.toolkit_folders`: not
our PATH, and not the links (/usr/local/cuda, over /etc/alternatives) to the machine's nvcc. So the engine, which is
trusted and sees everything, finds it and passes real paths.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from engine.build import nvcc


@functools.cache
def find() -> dict | None:
    """{nvcc, includes, libraries, runtime}: paths without links, and the linker's name of the shared runtime. None if
    there is no compiler. Searched once per process."""
    tools = nvcc.find_toolchain()
    if tools is None or tools.nvcc is None:
        return None
    includes = [os.path.realpath(p) for p in tools.includes]
    return {
        "nvcc": _real(tools.nvcc),
        "includes": [p for p in includes if os.path.isdir(p)],
        "libraries": os.path.realpath(tools.libraries) if tools.libraries else None,
        "runtime": nvcc.runtime(tools),
    }


def _real(program: Path) -> str:
    """The program by its folder's real path, because nvcc finds its parts beside the name that it is called by."""
    return os.path.join(os.path.realpath(program.parent), program.name)
