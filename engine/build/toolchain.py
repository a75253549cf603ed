"""The installed build tools, found without importing them, and how to install those that are missing.

The GPU toolchain is an extra (requirements-gpu.txt): NVIDIA's wheels have NVIDIA's licence terms. Without it,
programs are still checked and generated.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
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
    "flash_attn": f"flash-attn-4, which attention stages need, is not installed: {_EXTRA}",
    "torch": "PyTorch is not installed: pip install -r requirements.txt",
    "nvcc": f"no nvcc on PATH and none from wheels: {_EXTRA}",
    "cutlass_headers": f"CUTLASS's headers (the nvidia-cutlass wheel) are not installed: {_EXTRA}",
    "gxx": "no g++ on PATH: install it with the system's packages (apt-get install g++)",
}
SWITCHED_OFF = "compilers are switched off here by UCUTLASS_COMPILERS=none"


@dataclass(frozen=True)
class Tool:
    """One tool. If it is not installed, `version` and `path` are None and `missing` says how to install it."""

    name: str
    version: str | None
    path: Path | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Toolchain:
    """The tools of all builds by name: torch, cute_dsl, quack, flash_attn, nvcc, cutlass_headers, gxx."""

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
        """g++ can check a `cpp` kernel: static assertions, stages, shared memory, can_implement."""
        return self.has("cutlass_headers", "gxx")

    def missing(self, *names: str) -> list[str]:
        """One sentence for each missing tool of `names` (default: all) on how to install it."""
        return [self.tools[n].missing for n in (names or self.tools) if self.tools[n].missing]

    def versions(self) -> dict[str, str | None]:
        return {t.name: t.version for t in self.tools.values()}

    def fingerprint(self, backend: str) -> str:
        """A hash of the versions of the tools that build `backend`, for cache keys."""
        names = (
            ("torch", "cute_dsl", "quack", "flash_attn") if backend == "cute" else ("nvcc", "cutlass_headers", "gxx")
        )
        text = ";".join(f"{n}={self.tools[n].version}" for n in names) + f";python={sys.version_info[:2]}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def find() -> Toolchain:
    """Find the tools, once per process. Takes about 10 ms: package metadata, PATH, and `--version` of the compilers.

    With UCUTLASS_COMPILERS=none no compiler is found, so that a process without a GPU only generates and checks; it
    needs 0.6 GB less, and starts without the 9 s that CuTe DSL takes to import."""
    return _find(os.environ.get("UCUTLASS_COMPILERS") == "none")


@functools.cache
def _find(switched_off: bool) -> Toolchain:
    if switched_off:
        off = {name: Tool(name, None, None, SWITCHED_OFF) for name in _MISSING}
        return Toolchain(off | {"torch": _package("torch", "torch", "torch")})
    headers = cuda_toolchain.find_toolchain()
    compiler = headers.nvcc if headers else None
    tools = [
        _package("torch", "torch", "torch"),
        _package("cute_dsl", "nvidia-cutlass-dsl", "nvidia_cutlass_dsl"),
        _package("quack", "quack-kernels", "quack"),
        _package("flash_attn", "flash-attn-4", "flash_attn"),
        _tool("nvcc", _printed(compiler, r"V(\d+\.\d+\.\d+)") if compiler else None, compiler),
        _package("cutlass_headers", "nvidia-cutlass", "cutlass_library"),
        _gxx(),
    ]
    return Toolchain({t.name: t for t in tools})


def _tool(name: str, version: str | None, path: Path | None) -> Tool:
    return Tool(name, version, path) if version else Tool(name, None, None, _MISSING[name])


def _package(name: str, distribution: str, module: str) -> Tool:
    """A Python package: its version from metadata, or `unknown` if it has none."""
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
    gxx = shutil.which("g++")
    path = Path(gxx) if gxx else None
    return _tool("gxx", _printed(path, r"(\d+\.\d+\.\d+)") if path else None, path)


def _printed(program: Path, pattern: str) -> str | None:
    """The version that a compiler prints; None if it does not run."""
    try:
        output = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if output.returncode:
        return None
    version = re.search(pattern, output.stdout)
    return version[1] if version else "unknown"
