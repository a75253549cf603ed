"""Observe a candidate in its process: native functions called, library routines called, functions replaced.

All three run in the candidate's process, which could deceive them; see candidate_main for their value.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import os
import signal
from typing import Any

from engine.evaluate.integrity.process.entries import Arguments, Code, foreign
from engine.evaluate.integrity.process.outside import FAULTS

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

# Of the operators that PyTorch brings.
NAMESPACES = (
    "aten::", "mkldnn::", "onednn::", "quantized::", "_quantized::", "mkldnn_prepacked::", "prepacked::", "xnnpack::",
    "fbgemm::", "sparse::", "inductor::", "mkl::", "prims::",
)  # fmt: skip

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
    "engine.evaluate.integrity.process.candidate_main.Held._about",
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


# Where CuTe DSL passes a compiled function to the driver: directly, and over tvm-ffi.
_CUTE_CALLS = (
    ("cutlass.base_dsl.jit_executor", "JitCompiledFunction", "__call__"),
    ("cutlass.base_dsl.jit_executor", "JitCompiledFunction", "run_compiled_program"),
    ("cutlass.base_dsl.jit_executor", "JitExecutor", "run_compiled_program"),
    ("cutlass.cutlass_dsl.tvm_ffi_provider", "TVMFFIJitCompiledFunctionBase", "run_compiled_program"),
    ("cutlass.cutlass_dsl.tvm_ffi_provider", "TVMFFIJitCompiledFunction", "__call__"),
    ("cutlass.cutlass_dsl.tvm_ffi_provider", "TVMFFIJitCompiledFunctionWithKwargs", "__call__"),
)


class Native:
    """Counts calls of native code that the candidate loads and, on request, makes them do nothing.

    ctypes libraries, the extensions that torch.utils.cpp_extension returns, Triton kernels, and what CuTe DSL compiles.
    """

    def __init__(self) -> None:
        self.calls, self.silent, self.inside = 0, False, False
        self.arguments: Arguments | None = None
        self.foreign: set[str] = set()  # functions of libraries that were called
        native = self

        class Function:
            """A foreign function that counts; argtypes and the like are those of the real one."""

            def __init__(self, real: Any, origin: str = ""):
                object.__setattr__(self, "_real", real)
                object.__setattr__(self, "_as_parameter_", real)
                object.__setattr__(self, "_origin", origin)

            def __call__(self, *arguments: Any, **named: Any) -> Any:
                native.count(self._origin)
                return native.leave_out(arguments) if native.silent else self._real(*arguments, **named)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._real, name)

            def __setattr__(self, name: str, value: Any) -> None:
                setattr(self._real, name, value)

        def counting(real: type) -> type:
            class Library(real):
                def __getitem__(self, name: Any) -> Any:  # the way of attributes, too
                    function = super().__getitem__(name)
                    library = foreign(str(self._name or ""))
                    return Function(function, f"{name} of {library}" if library else "")

            Library.__name__ = Library.__qualname__ = real.__name__
            return Library

        self._function = Function
        ctypes.CDLL, ctypes.PyDLL = counting(ctypes.CDLL), counting(ctypes.PyDLL)
        ctypes.cdll._dlltype, ctypes.pydll._dlltype = ctypes.CDLL, ctypes.PyDLL
        prototype = ctypes.CFUNCTYPE

        def CFUNCTYPE(*types: Any, **flags: Any) -> type:
            """A type of functions at an address. Calls of Python's own functions through it count, too."""

            real = prototype(*types, **flags)

            def call(self: Any, *arguments: Any, **named: Any) -> Any:
                native.count("")
                return native.leave_out(arguments) if native.silent else real.__call__(self, *arguments, **named)

            members = {name: getattr(real, name) for name in ("_flags_", "_restype_", "_argtypes_")}
            return type(real)("Counted", (real,), {**members, "__call__": call})

        ctypes.CFUNCTYPE = CFUNCTYPE

    def count(self, origin: str) -> None:
        """Note one call of a native function. `origin`: its name and library, if that is a library of numbers. Calls
        within a counted one are a part of it."""
        self.calls += not self.inside
        if origin:
            self.foreign.add(origin)

    def leave_out(self, arguments: tuple) -> int:
        """Do nothing in the place of a native function, and note what it was given."""
        if self.arguments is not None:
            self.arguments.note(arguments)
        return 0

    def watch_extensions(self) -> None:
        """Count functions of extensions that PyTorch builds."""
        import torch.utils.cpp_extension as extension

        for name in ("load_inline", "load"):
            real = getattr(extension, name)
            setattr(extension, name, lambda *a, _real=real, **k: self.wrap(_real(*a, **k)))

    def wrap(self, module: Any) -> Any:
        """An extension module whose functions are counted; anything else (a path, of operators) as it is."""
        import types

        if not isinstance(module, types.ModuleType):
            return module
        wrapped = types.SimpleNamespace()
        for name in dir(module):
            value = getattr(module, name)
            setattr(wrapped, name, self._function(value) if callable(value) and not name.startswith("__") else value)
        return wrapped

    def watch_triton(self) -> None:
        """Count Triton's launches too, once Triton is loaded."""
        import sys

        jit = sys.modules.get("triton.runtime.jit")
        if jit is None or hasattr(jit.JITFunction, "_counted"):
            return
        real, native = jit.JITFunction.run, self

        def run(self: Any, *arguments: Any, **named: Any) -> Any:
            native.calls += 1
            return None if native.silent else real(self, *arguments, **named)

        jit.JITFunction.run, jit.JITFunction._counted = run, True

    def watch_cute(self) -> None:
        """Count calls of CuTe DSL's compiled functions too, once it is loaded, on each of their paths."""
        import sys

        for module, name, method in _CUTE_CALLS:
            cls = getattr(sys.modules.get(module), name, None)
            if cls is not None and method in vars(cls) and not hasattr(vars(cls)[method], "_counted"):
                setattr(cls, method, self._counting(vars(cls)[method]))

    def _counting(self, real: Any) -> Any:
        """Count `real` once, however many of these methods it passes through."""
        native = self

        def run(self: Any, *arguments: Any, **named: Any) -> Any:
            if native.inside:
                return real(self, *arguments, **named)
            native.calls += 1
            if native.silent:
                return None
            native.inside = True
            try:
                return real(self, *arguments, **named)
            finally:
                native.inside = False

        run._counted = True
        return run


class OpLog:
    """PyTorch's operators in a call and their counts: [[name, count]] in `ops`, after the call. Those of ATen have no
    prefix. On a CPU those of all threads. On a GPU those of the calling one: the others take Kineto, which would be
    CUPTI's second user in this process.

    Uses PyTorch's own profiler, because a dispatch mode would import torch._dynamo, which takes seconds."""

    def __init__(self, device: str) -> None:
        import torch

        how: dict[str, Any] = {"use_kineto": False}
        if device == "cpu":
            config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
            how = {"use_kineto": True, "experimental_config": config}
        self._profile = torch.autograd.profiler.profile(**how)
        self.ops: list[list] = []

    def __enter__(self) -> OpLog:
        self._profile.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._profile.__exit__(*error)
        counts: dict[str, int] = {}
        for event in self._profile.function_events[:20_000]:
            if event.name.startswith(NAMESPACES):
                name = event.name.removeprefix("aten::")
                counts[name] = counts.get(name, 0) + 1
        self.ops = [[n, c] for n, c in list(counts.items())[:200]]


def children() -> int:
    """Live processes that this one started."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as f:
            return len(f.read().split())
    except OSError:
        return 0


def extra_keys(x: Any) -> str:
    """The dispatch keys that a tensor has and a fresh one of its device has not, as a lazy negation or conjugation."""
    import torch

    usual = torch._C._dispatch_keys(torch.empty(0, device=x.device))
    mine = torch._C._dispatch_keys(x)
    return str(mine - usual) if mine.raw_repr() & ~usual.raw_repr() and x.layout == torch.strided else ""
