"""Compile an untrusted CUDA unit with nvcc, in a confined process where its text never runs."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

from engine.build import nvcc
from engine.evaluate.integrity.texts.static_cuda import bad_include
from engine.evaluate.integrity.texts.symbols import plain_name
from engine.session.kernel_text import no_entry
from engine.trace.load import Bad

UNIT = "candidate.cu"
PRELUDE = """\
#pragma once
#include <cstdint>
#include <cuda_runtime.h>
// dtype: 0 f32, 1 f16, 2 bf16, 3 f64, 4 i32, 5 i64, 6 i8, 7 u8, 8 bool. Row-major and dense.
struct Tensor { void* data; int64_t shape[8]; int rank; int dtype; };
"""
NVCC_SECONDS = 110.0
HOW_TO_GET_NVCC = "pip install -r requirements-gpu.txt, or put CUDA's nvcc on PATH"
_N = r"[0-9]{1,7}"  # of a line or column; a text may print what looks like an error
_ERROR = re.compile(rf"^{re.escape(UNIT)}(?:\(({_N})\)|:({_N})(?::({_N}))?):? (?:catastrophic |fatal )?error:? *(.*)$")


class NvccFailed(Bad):
    """The unit does not compile. `line`: of the first error in the text; `log`: all errors, with file names without
    folders."""

    def __init__(self, reason: str, line: int | None, log: str):
        super().__init__("not_compiled", reason, line)
        self.log = log


def nvcc_library(source: str, path: str, compiler: dict | None, arch: str) -> str:
    """Write the shared library of a CUDA unit for `arch` (sm_90a) to `path`; return nvcc's output. Raises Bad."""
    if compiler is None:
        raise Bad("no_compiler", f"there is no nvcc to build it with: {HOW_TO_GET_NVCC}")
    if not os.path.isfile(compiler["nvcc"]):
        raise Bad("no_compiler", f"the sandbox does not see the engine's nvcc, {compiler['nvcc']}")
    if not os.access(compiler["nvcc"], os.X_OK):
        folder = os.path.dirname(os.path.dirname(compiler["nvcc"]))
        reason = f"the sandbox, another user, may not run the engine's nvcc: allow it with `chmod -R a+rX {folder}`"
        raise Bad("no_compiler", reason)
    if (bad := bad_include(source)) is not None:
        raise NvccFailed(f"line {bad[0]}: {bad[1]}", bad[0], f"{UNIT}({bad[0]}): error: {bad[1]}")
    for name, text in (("ucutlass.h", PRELUDE), (UNIT, source)):
        with open(name, "w") as f:
            f.write(text)
    args = [compiler["nvcc"], *nvcc.flags(arch), *nvcc.WHOLE, *(f"-I{p}" for p in compiler["includes"])]
    args += ["-include", "ucutlass.h"]
    if compiler["libraries"]:
        args += [f"-L{compiler['libraries']}", "-Xlinker", f"-rpath={compiler['libraries']}"]
    try:
        done = subprocess.run(
            [*args, compiler["runtime"], UNIT, "-o", path], capture_output=True, text=True,
            timeout=NVCC_SECONDS, env={"PATH": "/usr/bin:/bin", "HOME": os.getcwd(), "TMPDIR": os.getcwd()},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Bad("time_limit", f"nvcc took longer than {NVCC_SECONDS:.0f} s") from None
    if done.returncode:
        log = nvcc.trim(done.stdout + done.stderr)
        first = next(iter(errors(log)), None)
        if first is None:
            reason = next(iter(log.splitlines()), "") or f"exit status {done.returncode}"
            raise NvccFailed(f"nvcc: {reason}", None, log)
        raise NvccFailed(f"line {first['line']}: {first['message']}", first["line"], log)
    return done.stdout + done.stderr


def errors(log: str) -> list[dict[str, Any]]:
    """[{line, column, message}] of the unit's own lines, from the output of nvcc and g++; column None if unknown."""
    matches = (_ERROR.match(line.strip()) for line in log.splitlines())
    return [
        {"line": int(m[1] or m[2]), "column": int(m[3]) if m[3] else None, "message": m[4].strip()[:300]}
        for m in matches if m
    ]  # fmt: skip


def resources(log: str) -> list[dict[str, Any]]:
    """[{kernel, registers, shared_bytes, spill_bytes}] of each kernel, from ptxas' output."""
    return [
        {
            "kernel": plain_name(k["stage"])[:80], "registers": k.get("registers"),
            "shared_bytes": k.get("smem_static", 0),
            "spill_bytes": k.get("spill_stores", 0) + k.get("spill_loads", 0),
        }
        for k in nvcc.resources(log)
    ]  # fmt: skip


def check_entry(path: str, source: str, entry: str) -> None:
    """Raise Bad if the built library does not export the function that the judge calls. Its symbols are read, not
    loaded. Without `nm`, loading it in the candidate's process detects that."""
    try:
        done = subprocess.run(
            ["nm", "-D", "--defined-only", path], capture_output=True, text=True, timeout=20, env={"PATH": "/usr/bin"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    exported = {line.split()[-1] for line in done.stdout.splitlines() if " T " in line}
    if done.returncode == 0 and (entry or "run") not in exported:
        raise Bad("no_entry", no_entry(source, "cuda", entry).evidence)
