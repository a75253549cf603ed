"""Observe a candidate in its process: functions and settings replaced, processes started, keys of tensors.

All of it runs in the candidate's process, which could deceive them; see candidate_main for their value.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import os
import signal
import threading
import time
from typing import Any

from engine.evaluate.integrity.process.entries import Code
from engine.evaluate.integrity.process.outside import FAULTS

# Seconds in which threads that have nothing to do may still end: of one call, and of all.
ENDING, ENDING_IN_ALL = 0.5, 3.0
IDLE = 0.0015  # seconds of a core: to wait and end takes a thread 0.2 ms, more on a busy machine

BY_CHANCE = 2  # calls after which threads may be late because the machine is busy

_patience = ENDING_IN_ALL
_sightings = 0
_THREAD_CLOCK = 6  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of Linux, beside a thread's number
_LIBC = ctypes.CDLL(None)

OPERATORS = (
    "aten::copy_",
    "aten::_to_copy",
    "aten::clone",
    "aten::detach",
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::fill_.Scalar",
    "aten::view",
    "aten::as_strided",
    "aten::slice.Tensor",
    "aten::matmul",
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::linear",
    "aten::softmax.int",
    "aten::_softmax",
    "aten::relu",
    "aten::add.Tensor",
    "aten::mul.Tensor",
    "aten::eq.Tensor",
    "aten::contiguous",
    "aten::to.dtype",
    "aten::convolution",
)

WATCHED = (
    "time.perf_counter", "time.time", "time.monotonic", "time.sleep", "time.perf_counter_ns", "json.dumps", "os.write",
    "os.read", "builtins.print", "builtins.isinstance", "builtins.len", "builtins.id", "builtins.hash", "builtins.open",
    "builtins.getattr", "builtins.type", "builtins.max", "builtins.sum", "builtins.abs", "random.random", "sys.stdout",
    "sys.modules", "sys._getframe", "threading.active_count", "threading.Thread.start",
    "torch.Tensor", "torch.Tensor.copy_", "torch.Tensor.clone", "torch.Tensor.to", "torch.Tensor.cpu",
    "torch.Tensor.fill_", "torch.Tensor.view", "torch.Tensor.data_ptr", "torch.Tensor.__eq__", "torch.equal",
    "torch.allclose", "torch.isclose", "torch.randn", "torch.rand", "torch.empty", "torch.matmul",
    "torch.mm", "torch.nn.functional.linear", "torch.nn.functional.softmax", "torch.nn.Module.__call__",
    "torch.cuda.synchronize", "torch.cuda.Event", "torch.cuda.Event.record", "torch.cuda.Event.elapsed_time",
    "torch.cuda.Event.synchronize", "torch.cuda.Stream", "torch.cuda.current_stream", "torch.cuda.default_stream",
    "torch.cuda._sleep", "torch.profiler.profile",
    "engine.sandbox.channel.encode", "engine.sandbox.channel.write_all", "engine.evaluate.shared_tensors.tensor_at",
    "engine.evaluate.integrity.process.candidate_main.serve",
    "engine.evaluate.integrity.process.candidate_main.Held._lay_down",
    "engine.evaluate.integrity.process.candidate_main.Held.do_call",
    "engine.evaluate.integrity.process.candidate_main.Held.call_into",
    "engine.evaluate.timing.outside.runner.Runner.open", "engine.evaluate.timing.outside.runner.Runner.serve",
    "engine.evaluate.timing.outside.runner.Runner.batch",
    "engine.evaluate.timing.outside.plan.Page.wait", "engine.evaluate.timing.outside.plan.Page.__setitem__",
    "engine.evaluate.integrity.process.candidate_main.Held.do_kernels",
    "engine.evaluate.timing.cupti.record", "engine.evaluate.timing.cupti.kernels", "torch.cuda.Event.query",
    "engine.evaluate.timing.cupti_activity.record", "engine.evaluate.timing.cupti_activity.Cupti.record",
    "engine.evaluate.integrity.process.candidate_main.Held._about", "engine.evaluate.integrity.probes.results.about",
    "engine.evaluate.integrity.probes.results.bare", "engine.evaluate.integrity.probes.results.copy",
    "engine.evaluate.integrity.probes.operations.OpLog.__init__",
    "engine.evaluate.integrity.probes.operations.OpLog.__enter__",
    "engine.evaluate.integrity.probes.operations.OpLog.__exit__",
    "engine.evaluate.integrity.probes.native_calls.Native.call",
    "engine.evaluate.integrity.process.entries.Entries.__enter__",
    "engine.evaluate.integrity.process.entries.Entries.__exit__",
    "torch.Tensor.detach", "torch.autograd._enable_record_function", "torch.autograd.profiler.profile",
    "engine.evaluate.integrity.process.tracing.Snapshot.changed",
    "engine.evaluate.candidate.guarded_outputs.Guarded.intact",
)  # fmt: skip


def _resolve(name: str) -> Any:
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        try:
            for part in parts[n:]:
                value = getattr(value, part) if not isinstance(value, type) else _attribute(value, part)
        except AttributeError:
            return None
        return value
    return None


def _attribute(cls: type, name: str) -> Any:
    """A class's attribute without a new bound object at each access."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(name)


def settle_handlers(source: str) -> None:
    """Load TVM's runtime, which CuTe DSL loads, before a snapshot: it handles SIGSEGV to print a stack."""
    if any(name in source for name in ("cutlass", "quack", "tvm_ffi")):
        with contextlib.suppress(ImportError):
            importlib.import_module("tvm_ffi")


class Snapshot:
    """The functions that harness and candidate both use, as they were before the candidate was loaded."""

    def __init__(self) -> None:
        self.real = {name: _resolve(name) for name in WATCHED}
        self._resolve, self._flags_now = _resolve, _flags
        self.flags, self._handlers_now = _flags(), _handlers
        self.handlers, self.code = _handlers(), Code()

    def changed(self) -> list[str]:
        """Names of replaced functions, and of changed settings and kernels of PyTorch."""
        changed = [n for n, was in self.real.items() if was is not None and self._resolve(n) is not was]
        now = self._flags_now()
        changed += [f"{n}={now[n]}" for n, was in self.flags.items() if now[n] != was]
        changed += [f"the code of {name}" for name in self.code.changed()]
        handled = self._handlers_now()
        return changed + [f"the handler of {n}" for n, was in self.handlers.items() if handled[n] != was]


def _handlers() -> dict[str, bytes]:
    """The functions that handle the signals by which a read of memory, or a clock, can start work."""
    action = ctypes.create_string_buffer(256)  # larger than struct sigaction, whose first member is the function
    handlers = {}
    for name in FAULTS:
        if _LIBC.sigaction(int(getattr(signal, name)), None, action) == 0:
            handlers[name] = action.raw[: ctypes.sizeof(ctypes.c_void_p)]
    return handlers


def _flags() -> dict[str, str]:
    import torch

    kernels = "".join(map(torch._C._dispatch_dump, OPERATORS))
    return {
        "torch's operators": hashlib.sha256(kernels.encode()).hexdigest()[:8],
        "torch.get_default_dtype": str(torch.get_default_dtype()),
        "torch.get_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "torch.backends.cudnn.allow_tf32": str(torch.backends.cudnn.allow_tf32),
        "torch.is_autocast_enabled": str(torch.is_autocast_enabled("cpu")),
    }


def children() -> int:
    """Live processes that this one started."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as f:
            return len(f.read().split())
    except OSError:
        return 0


def late_threads(before: int) -> int:
    """Threads of Python beyond `before` that live on after a call. Those of a pool that has just been ended do so for
    some milliseconds, without any work; work that goes on counts, also if it ends meanwhile. On a busy machine both
    take longer now and then, so the first sightings do not count: who works out of sight does it in many calls."""
    global _patience, _sightings
    late, libraries, worked = threading.active_count() - before, _of_libraries(), _by_others()
    if late <= 0:
        return 0
    began = time.monotonic()
    until = began + min(ENDING, _patience)
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.002)
    _patience -= time.monotonic() - began
    left = max(0, threading.active_count() - before)
    now = _of_libraries()
    spun = sum(now[task] - seconds for task, seconds in libraries.items() if task in now)
    seen = late if _by_others() - worked - spun > IDLE else left
    _sightings += seen > 0
    return seen if _sightings > BY_CHANCE else 0


def _by_others() -> float:
    """Seconds that the other threads of this process have computed."""
    return time.process_time() - time.thread_time()


def _of_libraries() -> dict[int, float]:
    """Seconds that each thread which is none of Python's has computed: those of OpenMP spin for some milliseconds after
    each of the harness's own operations. Linux adds what a thread computes just now to the sum of its process only
    when its own clock is read, so all are read."""
    python = {thread.native_id for thread in threading.enumerate()}
    seconds = {}
    with contextlib.suppress(OSError):  # elsewhere than on Linux
        for task in map(int, os.listdir("/proc/self/task")):
            with contextlib.suppress(OSError):  # of a thread that has ended
                seconds[task] = time.clock_gettime(~task << 3 | _THREAD_CLOCK)
    return {task: s for task, s in seconds.items() if task not in python}
