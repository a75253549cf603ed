"""Where the compiler of raw CUDA candidates lies, found by the engine and told to the sandbox.

A sandboxed child has an empty environment and sees /usr, Python's folders and those of `confine.toolkit_folders`: no
PATH of ours, and not the links (/usr/local/cuda, over /etc/alternatives) by which a machine leads to its nvcc. So the
engine, which is trusted and sees everything, looks, and hands over real paths.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from engine.build import nvcc


@functools.cache
def find() -> dict | None:
    """{nvcc, includes, libraries, runtime}: paths without links, and the linker's word for the shared runtime. None
    where there is no compiler. Looked for once a process."""
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
    """The program by its folder's real path: nvcc finds its parts beside the name that it is called by."""
    return os.path.join(os.path.realpath(program.parent), program.name)
