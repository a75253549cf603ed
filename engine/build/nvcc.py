"""CUDA C++ of the `cpp` back end to a shared library, by nvcc: 36 to 43 s a unit, nearly all of it templates.

Flags are those that reference measurements found best: `-DNDEBUG -O3`, no split compile, no fast math (the
epilogue's functions must stay PyTorch's). The library links the shared runtime, 950 KB less than the static one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsl.lower import Source
from engine.build import limited

CODE = ("-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-Xptxas", "-v")
WHOLE = ("-shared", "-Xcompiler", "-fPIC", "-cudart", "none")
SECONDS = 120.0
MEMORY = 6 << 30  # resident bytes over all passes; a plain sm_90a unit peaks at 3.4 GB, tf32 through registers at 4.0
LOG_LINES = 24


class BuildError(Exception):
    """The unit did not become a library. `code`: compile_failed | timeout | memory | cancelled | no_toolchain;
    `reason` one sentence for a person, `log` the lines of the compiler's output that matter."""

    def __init__(self, code: str, reason: str, log: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.log = code, reason, log


@dataclass(frozen=True)
class Toolchain:
    """nvcc (None where only the headers are installed), folders of headers, and the folder of libcudart."""

    nvcc: Path | None
    includes: tuple[Path, ...]
    libraries: Path | None


@dataclass(frozen=True)
class Built:
    """A library and what the compiler said of it.

    kernels  a dict a stage: stage, kind, registers a thread, stack / spill_stores / spill_loads in bytes, static
             shared memory in bytes; for a gemm also smem (dynamic, bytes a block), stages, threads, can_implement.
    """

    path: Path
    seconds: float
    peak_bytes: int
    kernels: tuple[dict, ...]
    log: str


def flags(arch: str) -> tuple[str, ...]:
    """What nvcc is told about code for an architecture such as sm_90a: machine code for it alone."""
    number = arch.removeprefix("sm_")
    return (*CODE, f"-gencode=arch=compute_{number},code=sm_{number}")


def _package(name: str) -> Path | None:
    """The folder of an installed package, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def on_path() -> str | None:
    """The nvcc of an installed CUDA toolkit: on PATH, or where NVIDIA's installer puts one."""
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def find_toolchain() -> Toolchain | None:
    """CUTLASS's headers from the nvidia-cutlass wheel, CUDA from the nvidia wheels or else from a toolkit (`on_path`).

    None where the headers of either are missing.
    """
    library = _package("cutlass_library")
    if library is None:
        return None
    source = library / "source"
    cutlass = (source / "include", source / "tools/util/include")
    wheel = _package("nvidia.cu13")
    headers = wheel and (wheel / "include/cuda_runtime.h").exists()
    system = on_path()
    if headers and ((wheel / "bin/nvcc").exists() or not system):  # a torch wheel may bring headers without nvcc
        nvcc = wheel / "bin/nvcc"
        cuda = (wheel / "include", wheel / "include/cccl")
        return Toolchain(nvcc if nvcc.exists() else None, (*cutlass, *cuda), wheel / "lib")
    if not system:
        return None
    root = Path(system).resolve().parent.parent
    if not (root / "include/cuda_runtime.h").exists():  # /usr/local/cuda/bin may be a link of its own
        root = Path(system).parent.parent
    places = (root / d for d in ("lib64", "targets/x86_64-linux/lib", "lib"))
    libraries = next((place for place in places if place.exists()), None)
    return Toolchain(Path(system), (*cutlass, root / "include", root / "include/cccl"), libraries)


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
    """Compile a `cpp` Source into `folder`/<namespace>.so (written whole or not at all). Raises BuildError.

    `halves` builds the kernels and the host code at the same time by two compilers (see engine.build.halves): about
    half the wait. `seconds` holds for each compiler, `memory` (bytes) for all that one of them starts.
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
            from engine.build.halves import build_halves

            ended = build_halves(source, folder, partial, toolchain, limits)
        else:
            args = [str(toolchain.nvcc), *flags(source.arch), *WHOLE, *(f"-I{path}" for path in toolchain.includes[:2])]
            if toolchain.libraries:
                args += [f"-L{toolchain.libraries}", "-Xlinker", f"-rpath={toolchain.libraries}"]
            ended = limits.run([*args, runtime(toolchain), unit.name, "-o", partial.name], folder)
        kernels = _merge(resources(ended.log), facts(partial, source.namespace))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return Built(target, ended.seconds, ended.peak_bytes, kernels, trim(ended.log))


@dataclass(frozen=True)
class Limits:
    """What a compiler may take, and who may stop it."""

    seconds: float = SECONDS
    memory: int = MEMORY
    cancelled: Callable[[], bool] = lambda: False

    def run(self, args: list[str], folder: Path) -> limited.Ended:
        """Run a compiler in `folder`. Raises BuildError unless it succeeds."""
        name = Path(args[0]).name
        ended = limited.run(args, cwd=folder, seconds=self.seconds, memory=self.memory, cancelled=self.cancelled)
        log = trim(ended.log)
        if ended.why == "timeout":
            raise BuildError("timeout", f"{name} took longer than {self.seconds:.0f} s and was ended", log)
        if ended.why == "memory":
            raise BuildError(
                "memory", f"{name} needed more than {self.memory >> 20:,} MiB of memory and was ended", log
            )
        if ended.why == "cancelled":
            raise BuildError("cancelled", "the build was stopped on request", log)
        if ended.code:
            first = next((line for line in log.splitlines() if "error" in line.lower()), f"exit status {ended.code}")
            raise BuildError("compile_failed", f"{name} failed: {first}", log)
        return ended


def runtime(toolchain: Toolchain) -> str:
    """The linker's word for the shared runtime, by its full name: wheels carry no plain libcudart.so."""
    names = [p.name for p in toolchain.libraries.glob("libcudart.so.*")] if toolchain.libraries else []
    exact = sorted(name for name in names if re.fullmatch(r"libcudart\.so\.\d+", name))
    return f"-l:{exact[0]}" if exact else "-lcudart"


_WORTH = re.compile(r"error|fatal|static assertion|\(C75\d\d\)|Killed|No space|cannot find", re.IGNORECASE)
_PATH = re.compile(r"(?:/[\w.+-]+)+/([\w.+-]+\.(?:cu|cpp|hpp|h|inl|cuh))")


def trim(log: str) -> str:
    """The lines a person needs, paths cut to file names, each once, the long C++ names of kernels shortened."""
    kept: dict[str, None] = {}
    for line in log.splitlines():
        if _WORTH.search(line) and "Function properties" not in line and "errors detected" not in line:
            kept[_PATH.sub(r"\1", line.strip())[:400]] = None
    return "\n".join(list(kept)[:LOG_LINES])


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_STATIC = re.compile(r"(\d+) bytes smem")
_STAGE = re.compile(r"uc_[0-9a-f]+_stage_(\w+)$")


def resources(log: str) -> tuple[dict, ...]:
    """Registers, stack and spills of every kernel in `ptxas -v` output, in the order of the log."""
    found: list[dict] = []
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            stage = _STAGE.search(entry[1])
            found.append({"stage": stage[1] if stage else entry[1][:80]})
        elif found and (stack := _STACK.search(line)):
            found[-1] |= dict(zip(("stack", "spill_stores", "spill_loads"), map(int, stack.groups()), strict=True))
        elif found and (used := _USED.search(line)):
            static = _STATIC.search(line)
            found[-1] |= {"registers": int(used[1]), "smem_static": int(static[1]) if static else 0}
    return tuple(found)


_ASK = "import ctypes, sys; f = ctypes.CDLL(sys.argv[1])[sys.argv[2]]; f.restype = ctypes.c_char_p; print(f().decode())"


def facts(library: Path, namespace: str) -> tuple[dict, ...]:
    """What the library says of its stages. Asked in a child: the engine loads no CUDA code itself."""
    asked = subprocess.run(
        [sys.executable, "-c", _ASK, str(library.resolve()), f"{namespace}_facts"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if asked.returncode:
        reason = asked.stderr.strip().splitlines()[-1:] or ["no answer"]
        raise BuildError("compile_failed", f"the built library does not load: {reason[0]}", asked.stderr[-2000:])
    return tuple(json.loads(asked.stdout))


def _merge(compiled: tuple[dict, ...], said: tuple[dict, ...]) -> tuple[dict, ...]:
    by_stage = {kernel["stage"]: kernel for kernel in compiled}
    return tuple({**stage, **by_stage.get(stage["stage"], {})} for stage in said)
