"""Limits that a sandboxed process sets for itself before it loads untrusted code. Hard limits, so it cannot lift
them."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

PROCESSES = 64
FILE_BYTES = 64 << 20
OPEN_FILES = 512
STACK_BYTES = 64 << 20
RECURSION = 5000  # Python frames; 200 modules inside each other take 1,200 while they are exported, at most 10 kB each
RESERVED = (2 << 30) + (os.cpu_count() or 1) * (64 << 20)  # private addresses for stacks and heaps of threads


def apply(cpu_seconds: int) -> None:
    """Set the limits. RLIMIT_AS is not among them, because CUDA reserves more addresses than any machine has memory;
    the parent watches what the sandbox holds instead (engine.sandbox.holdings)."""
    # Threads count as processes, and torch and the CUDA driver start some for each core.
    processes = PROCESSES + 4 * (os.cpu_count() or 1) + _others()
    for what, value in (
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))
    # A deep module needs more frames than Python's 1,000, and they need a larger stack, which grows to its limit.
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
    if stack == STACK_BYTES:
        sys.setrecursionlimit(RECURSION)


def bound_memory(limit: int) -> None:
    """Bound the private memory of this process and of each that it starts, so that none takes gigabytes between two
    looks of the parent. Only without a GPU: CUDA reserves more. `limit`: bytes of resident memory."""
    with contextlib.suppress(ValueError, OSError):  # it has a lower one already
        resource.setrlimit(resource.RLIMIT_DATA, (limit + RESERVED, limit + RESERVED))


def _others() -> int:
    """Threads that already count against our user. Before Linux 5.14 a user name space has no count of its own, so all
    processes of the user count; a pid name space hides them, so this is a guess."""
    mode = os.environ.get("UCUTLASS_SANDBOX")
    release = tuple(int(p) for p in os.uname().release.split("-")[0].split(".")[:2])
    if mode in ("drop-first", "drop-inside") or (mode != "none" and release >= (5, 14)):
        return 0
    if mode != "none":
        return 4096
    mine = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                mine += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            continue
    return mine
