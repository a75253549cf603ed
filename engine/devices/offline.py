"""Building without a GPU: machine code where CuTe DSL is installed, CUTLASS's own checks where its headers are.

A trial on a modelled device shows what the toolchain says when there is one, and else says in one sentence what
would have to be installed; it never fails for want of a compiler.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine import events
from engine.build import host_check
from engine.build.nvcc import BuildError, find_toolchain
from engine.devices import Candidate, TrialError

MISSING = "{what} not installed here (make run adds requirements-gpu.txt on a machine with an NVIDIA GPU)"


def build(candidate: Candidate, cancelled: Callable[[], bool]) -> events.TrialCompiled:
    """Raises TrialError("compile", ...) when a compiler refuses the program."""
    started = time.perf_counter()
    if candidate.backend == "cpp":
        return _host_check(candidate, cancelled)
    return events.TrialCompiled(
        candidate.trial, "cute", "not compiled", time.perf_counter() - started, note=MISSING.format(what="CuTe DSL is")
    )


def _host_check(candidate: Candidate, cancelled: Callable[[], bool]) -> events.TrialCompiled:
    toolchain = find_toolchain()
    if toolchain is None or toolchain.libraries is None:
        note = MISSING.format(what="CUTLASS's and CUDA's headers are")
        return events.TrialCompiled(candidate.trial, "cpp", "not compiled", 0.0, note=note)
    with tempfile.TemporaryDirectory(prefix="ucutlass-") as folder:
        try:
            done = host_check.check(candidate.sources["cpp"], Path(folder), toolchain, cancelled=cancelled)
        except BuildError as e:
            raise TrialError("compile", e.code, e.reason, e.log or None) from None
    resources = [
        {
            "kernel": k.get("kind", ""),
            "stage": k.get("stage", ""),
            "registers": None,
            "shared_bytes": k.get("smem"),
            "spill_bytes": None,
            "stages": k.get("stages"),
            "threads": k.get("threads"),
        }
        for k in done.kernels
    ]
    note = "g++ tried every static assertion of CUTLASS and its can_implement; registers are known to nvcc alone"
    return events.TrialCompiled(candidate.trial, "cpp", "host check", done.seconds, False, resources, note)
