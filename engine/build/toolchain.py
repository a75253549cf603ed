"""What is installed to build with, found without importing any of it, and how to get what is missing.

The GPU toolchain is an extra (requirements-gpu.txt): NVIDIA's wheels carry NVIDIA's own terms. Without it programs are
still checked and generated.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from engine.build import cuda_toolchain

_EXTRA = "pip install -r requirements-gpu.txt"
_MISSING = {
    "cute_dsl": f"CuTe DSL is not installed: {_EXTRA}",
    "quack": f"quack-kernels is not installed: {_EXTRA}",
    "torch": "PyTorch is not installed: pip install -r requirements.txt",
    "nvcc": f"no nvcc on PATH and none from wheels: {_EXTRA}",
    "cutlass_headers": f"CUTLASS's headers (the nvidia-cutlass wheel) are not installed: {_EXTRA}",
    "gxx": "no g++ on PATH: install it with the system's packages (apt-get install g++)",
}


@dataclass(frozen=True)
class Tool:
    """`version` and `path` are None where it is missing; `missing` then says in one sentence how to get it."""

    name: str
    version: str | None
    path: Path | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Toolchain:
    """Everything that builds need, by name: torch, cute_dsl, quack, nvcc, cutlass_headers, gxx."""

    tools: dict[str, Tool] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        return all(self.tools[n].version is not None for n in names)

    @property
    def cute(self) -> bool:
        """The `cute` back end can be compiled here (with or without a GPU)."""
        return self.has("torch", "cute_dsl", "quack")

    @property
    def cpp(self) -> bool:
        """The `cpp` back end can be compiled here."""
        return self.has("nvcc", "cutlass_headers", "gxx")

    @property
    def host_check(self) -> bool:
        """g++ alone can judge a `cpp` kernel: static assertions, stages, shared memory, can_implement."""
        return self.has("cutlass_headers", "gxx")

    def missing(self, *names: str) -> list[str]:
        """How to get what is not there, one sentence each; of everything where no name is given."""
        return [self.tools[n].missing for n in (names or self.tools) if self.tools[n].missing]

    def versions(self) -> dict[str, str | None]:
        return {t.name: t.version for t in self.tools.values()}

    def fingerprint(self, backend: str) -> str:
        """Changes whenever a tool does that takes part in a build of `backend`: part of every cache key."""
        names = ("torch", "cute_dsl", "quack") if backend == "cute" else ("nvcc", "cutlass_headers", "gxx")
        text = ";".join(f"{n}={self.tools[n].version}" for n in names) + f";python={sys.version_info[:2]}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def find() -> Toolchain:
    """Look once a process. About 10 ms: package metadata, PATH, and `--version` of the compilers found."""
    headers = cuda_toolchain.find_toolchain()
    compiler = headers.nvcc if headers else None
    found = [
        _package("torch", "torch", "torch"),
        _package("cute_dsl", "nvidia-cutlass-dsl", "nvidia_cutlass_dsl"),
        _package("quack", "quack-kernels", "quack"),
        _tool("nvcc", _printed(compiler, r"V(\d+\.\d+\.\d+)") if compiler else None, compiler),
        _package("cutlass_headers", "nvidia-cutlass", "cutlass_library"),
        _gxx(),
    ]
    return Toolchain({t.name: t for t in found})


def _tool(name: str, version: str | None, path: Path | None) -> Tool:
    return Tool(name, version, path) if version else Tool(name, None, None, _MISSING[name])


def _package(name: str, distribution: str, module: str) -> Tool:
    """A Python package: its version from metadata, or `unknown` where it lies on the path without any."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return _tool(name, None, None)
    places = list(spec.submodule_search_locations or ())
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return _tool(name, version, Path(places[0]) if places else None)


def _gxx() -> Tool:
    found = shutil.which("g++")
    path = Path(found) if found else None
    return _tool("gxx", _printed(path, r"(\d+\.\d+\.\d+)") if path else None, path)


def _printed(program: Path, pattern: str) -> str | None:
    """The version that a compiler prints of itself; None where it does not even run."""
    try:
        said = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if said.returncode:
        return None
    version = re.search(pattern, said.stdout)
    return version[1] if version else "unknown"
