"""Check a unit with g++ and CUTLASS's headers, without nvcc or a GPU: 4 to 8 s instead of 40.

g++ compiles the generated unit as host code, which evaluates every static assertion of CUTLASS. The resulting program
prints the shared memory, stages and threads of each kernel and whether CUTLASS accepts the problem (`can_implement`).
Registers and spills stay unknown, because ptxas decides them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsl.lower import Source
from engine.build import limited
from engine.build.cuda_toolchain import Toolchain, find_toolchain, runtime
from engine.build.limited import BuildError, trim

SECONDS = 180.0  # 4 to 8 s alone; a loaded machine of two cores has taken over 60
MEMORY = 2 << 30

# Definitions with which host code can include device headers: the built-in variables, and the version macros of nvcc
# 13. The macros come after cutlass/arch/wmma.h, so that the sm_90 builders are on and the WMMA paths are off.
PRELUDE = """\
#pragma once
#include <cuda_runtime.h>
static const uint3 threadIdx{}, blockIdx{};
static const dim3 blockDim{}, gridDim{};
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif
static inline void __syncthreads() {}
static inline void __syncwarp(unsigned = 0xffffffffu) {}
static inline int __syncthreads_and(int x) { return x; }
#include "cutlass/arch/wmma.h"
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
namespace cutlass { namespace arch { static inline int SmId() { return 0; } static inline int LaneId() { return 0; } } }
"""


@dataclass(frozen=True)
class Checked:
    """A passed check. `kernels`: as in nvcc.Built, without the facts from ptxas."""

    seconds: float
    kernels: tuple[dict, ...]


def check(
    source: Source,
    folder: Path,
    toolchain: Toolchain | None = None,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    cancelled: Callable[[], bool] = lambda: False,
) -> Checked:
    """Check a `cpp` Source in `folder`. Raises BuildError with the text of the static assertion, or with the stage that
    CUTLASS cannot implement."""
    toolchain = toolchain or find_toolchain()
    if toolchain is None or toolchain.libraries is None:
        raise BuildError("no_toolchain", "CUTLASS's and CUDA's headers are missing: install requirements-gpu.txt")
    folder.mkdir(parents=True, exist_ok=True)
    unit, prelude = folder / f"{source.namespace}.cu", write_prelude(folder)
    unit.write_text(source.text)
    program = folder / f"{source.namespace}.{os.getpid()}.check"
    args = ["g++", "-std=c++17", "-O0", "-fpermissive", "-w", "-DNDEBUG", "-DUCUTLASS_HOST_CHECK"]
    args += [*(f"-I{path}" for path in toolchain.includes), "-include", prelude.name, "-x", "c++", unit.name]
    args += ["-o", program.name, f"-L{toolchain.libraries}", runtime(toolchain)]
    args += [f"-Wl,-rpath,{toolchain.libraries}"]
    try:
        ended = limited.run(args, cwd=folder, seconds=seconds, memory=memory, cancelled=cancelled)
        if ended.why:
            raise BuildError(ended.why, f"the host check was ended: {ended.why}", trim(ended.log))
        if ended.code:
            raise BuildError("compile_failed", f"CUTLASS refuses the kernel: {_why(ended.log)}", trim(ended.log))
        output = subprocess.run([program.resolve()], capture_output=True, text=True, timeout=30, check=True)
    except FileNotFoundError as e:
        raise BuildError("no_toolchain", "g++ is missing: install build-essential") from e
    finally:
        program.unlink(missing_ok=True)
    kernels = tuple(json.loads(output.stdout))
    for kernel in kernels:
        if not kernel["can_implement"]:
            raise BuildError("compile_failed", f"CUTLASS cannot implement stage {kernel['stage']} at this size")
    return Checked(ended.seconds, kernels)


def write_prelude(folder: Path) -> Path:
    """Write the header with which g++ can compile a unit. It is renamed into place, since builds may share the
    folder."""
    path, aside = folder / "host_prelude.h", folder / f"host_prelude.{os.getpid()}.{threading.get_ident()}.h"
    aside.write_text(PRELUDE)
    os.replace(aside, path)
    return path


def _why(log: str) -> str:
    """The text of a static assertion, else the first error."""
    match = re.search(r"static assertion failed: (.+)", log) or re.search(r"error: (.+)", log)
    return match[1].strip() if match else "no reason given"
