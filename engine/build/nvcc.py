"""Compile CUDA C++ of the `cpp` back end to a shared library with nvcc: 36 to 43 s per unit, mostly for templates.

The flags were the fastest in reference measurements: `-DNDEBUG -O3`, no split compile. There is no fast math, because
the epilogue's functions must match PyTorch's. Linking the shared runtime makes the library 950 KB smaller.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsl.lower import Source
from engine.build.cuda_toolchain import Toolchain, facts, find_toolchain, flags, runtime
from engine.build.halves import build_halves
from engine.build.limited import MEMORY, SECONDS, BuildError, Limits, nvcc_place, trim

WHOLE = ("-shared", "-Xcompiler", "-fPIC", "-cudart", "none")


@dataclass(frozen=True)
class Built:
    """A library and the compiler's facts about it.

    kernels  one dict per stage: stage, kind, registers per thread, stack / spill_stores / spill_loads in bytes, static
             shared memory in bytes; for a gemm also smem (dynamic, bytes per block), stages, threads, can_implement.
    """

    path: Path
    seconds: float
    peak_bytes: int
    kernels: tuple[dict, ...]
    log: str


def build(
    source: Source,
    folder: Path,
    toolchain: Toolchain | None = None,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    cancelled: Callable[[], bool] = lambda: False,
    halves: bool = False,
) -> Built:
    """Compile a `cpp` Source into `folder`/<namespace>.so (renamed into place when complete). Raises BuildError.

    `halves` builds the kernels and the host code at the same time by two compilers (see engine.build.halves): about
    half the time. `seconds` is the limit of each compiler, `memory` (bytes) that of each with its child processes.
    """
    toolchain = toolchain or find_toolchain()
    if toolchain is None or toolchain.nvcc is None:
        raise BuildError("no_toolchain", "nvcc or CUTLASS's headers are missing: install requirements-gpu.txt")
    folder.mkdir(parents=True, exist_ok=True)
    unit, target = folder / f"{source.namespace}.cu", folder / f"{source.namespace}.so"
    unit.write_text(source.text)
    partial = folder / f"{source.namespace}.{os.getpid()}.part.so"
    limits = Limits(seconds, memory, cancelled)
    try:
        if halves:
            ended = build_halves(source, folder, partial, toolchain, limits)
        else:
            args = [str(toolchain.nvcc), *flags(source.arch), *WHOLE, *(f"-I{path}" for path in toolchain.includes[:2])]
            if toolchain.libraries:
                args += [f"-L{toolchain.libraries}", "-Xlinker", f"-rpath={toolchain.libraries}"]
            with nvcc_place(cancelled):
                ended = limits.run([*args, runtime(toolchain), unit.name, "-o", partial.name], folder)
        kernels = _merge(resources(ended.log), facts(partial, source.namespace))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return Built(target, ended.seconds, ended.peak_bytes, kernels, trim(ended.log))


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for")
_STACK = re.compile(r"(\d{1,9}) bytes stack frame, (\d{1,9}) bytes spill stores, (\d{1,9}) bytes spill loads")
_USED = re.compile(r"Used (\d{1,9}) registers")
_STATIC = re.compile(r"(\d{1,9}) bytes smem")
_STAGE = re.compile(r"uc_[0-9a-f]+_stage_(\w+)$")


def resources(log: str) -> tuple[dict, ...]:
    """Registers, stack and spills of every kernel in `ptxas -v` output, in the order of the log."""
    kernels: list[dict] = []
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            stage = _STAGE.search(entry[1])
            kernels.append({"stage": stage[1] if stage else entry[1][:80]})
        elif kernels and (stack := _STACK.search(line)):
            kernels[-1] |= dict(zip(("stack", "spill_stores", "spill_loads"), map(int, stack.groups()), strict=True))
        elif kernels and (used := _USED.search(line)):
            static = _STATIC.search(line)
            kernels[-1] |= {"registers": int(used[1]), "smem_static": int(static[1]) if static else 0}
    return tuple(kernels)


def _merge(compiled: tuple[dict, ...], stages: tuple[dict, ...]) -> tuple[dict, ...]:
    by_stage = {kernel["stage"]: kernel for kernel in compiled}
    return tuple({**stage, **by_stage.get(stage["stage"], {})} for stage in stages)
