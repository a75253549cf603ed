"""CUDA's compiler, headers and libraries on this machine, with the flags and queries that every CUTLASS build shares.

engine.build.nvcc (whole units), engine.build.halves and engine.build.host_check use it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.build.limited import BuildError

CODE = ("-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-Xptxas", "-v")


@dataclass(frozen=True)
class Toolchain:
    """nvcc (None where only the headers are installed), folders of headers, and the folder of libcudart."""

    nvcc: Path | None
    includes: tuple[Path, ...]
    libraries: Path | None


def flags(arch: str) -> tuple[str, ...]:
    """nvcc's flags for an architecture such as sm_90a: machine code for it alone."""
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

    None if the headers of either are missing.
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


def runtime(toolchain: Toolchain) -> str:
    """The linker's argument for the shared runtime by its full name: wheels contain no plain libcudart.so."""
    names = [p.name for p in toolchain.libraries.glob("libcudart.so.*")] if toolchain.libraries else []
    exact = sorted(name for name in names if re.fullmatch(r"libcudart\.so\.\d+", name))
    return f"-l:{exact[0]}" if exact else "-lcudart"


_ASK = "import ctypes, sys; f = ctypes.CDLL(sys.argv[1])[sys.argv[2]]; f.restype = ctypes.c_char_p; print(f().decode())"


def facts(library: Path, namespace: str) -> tuple[dict, ...]:
    """The stages of a built library, by its own function, called in a child: the engine loads no CUDA code itself."""
    query = subprocess.run(
        [sys.executable, "-c", _ASK, str(library.resolve()), f"{namespace}_facts"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if query.returncode:
        reason = query.stderr.strip().splitlines()[-1:] or ["no answer"]
        raise BuildError("compile_failed", f"the built library does not load: {reason[0]}", query.stderr[-2000:])
    return tuple(json.loads(query.stdout))
