"""Build CUDA C++ to a shared library, once on each machine, with nvcc and CUTLASS's headers of wheels or the system."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

FLAGS = (
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "--expt-relaxed-constexpr",
    "-shared",
    "-Xcompiler",
    "-fPIC",
    "-cudart",
    "none",
)
SECONDS = 600


def build(unit, arch):
    """The library of a .cu file for an architecture such as sm_90a. Raises RuntimeError that says what to do."""
    nvcc, libraries = _nvcc()
    version = arch.removeprefix("sm_")
    code = f"-gencode=arch=compute_{version},code=sm_{version}"
    args = [str(nvcc), *FLAGS, code, *(f"-I{path}" for path in _cutlass())]
    if libraries:
        args += [f"-L{libraries}", "-Xlinker", f"-rpath={libraries}"]
    args.append(_runtime(libraries))
    key = hashlib.sha256("\0".join([*args, unit.read_text(encoding="utf-8")]).encode()).hexdigest()[:24]
    folder = Path(os.environ.get("UCUTLASS_CACHE") or Path.home() / ".cache" / "ucutlass") / "exported"
    target = folder / f"{unit.parent.name}-{key}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.part")
    print(f"building {unit.name} with {nvcc} (about a minute, once)", flush=True)
    try:
        done = subprocess.run([*args, str(unit), "-o", str(partial)], capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            lines = [x for x in (done.stdout + done.stderr).splitlines() if "error" in x.lower()][:20]
            raise RuntimeError(f"nvcc failed on {unit}:\n" + "\n".join(lines or [done.stderr[-2000:]]))
        os.replace(partial, target)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"nvcc took longer than {SECONDS} s on {unit} and was ended") from None
    finally:
        partial.unlink(missing_ok=True)
    return target


def _package(name):
    """The folder of an installed package, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _nvcc():
    """(nvcc, folder of libcudart)"""
    wheel = _package("nvidia.cu13")
    if wheel and (wheel / "bin/nvcc").exists():
        return wheel / "bin/nvcc", wheel / "lib"
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    nvcc = str(Path(home) / "bin/nvcc") if home and (Path(home) / "bin/nvcc").exists() else shutil.which("nvcc")
    if not nvcc:
        raise RuntimeError("no nvcc: pip install --no-deps -r requirements.txt, or put CUDA 13's nvcc on PATH")
    root = Path(nvcc).resolve().parent.parent
    places = (root / name for name in ("lib64", "targets/x86_64-linux/lib", "lib"))
    return Path(nvcc), next((place for place in places if place.exists()), None)


def _cutlass():
    root = os.environ.get("CUTLASS_PATH")
    library = _package("cutlass_library")
    source = Path(root) if root else library / "source" if library else None
    if source is None or not (source / "include/cutlass/cutlass.h").exists():
        raise RuntimeError("no CUTLASS headers: pip install --no-deps nvidia-cutlass==4.2.0.0, or set CUTLASS_PATH")
    return source / "include", source / "tools/util/include"


def _runtime(libraries):
    """The linker's argument for the shared runtime: wheels contain libcudart.so.13 and no plain libcudart.so."""
    names = [p.name for p in libraries.glob("libcudart.so.*")] if libraries else []
    exact = sorted(name for name in names if re.fullmatch(r"libcudart\.so\.\d+", name))
    return f"-l:{exact[0]}" if exact else "-lcudart"
