"""Count the calls of a candidate's native functions, in its process, and make them do nothing on request."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from engine.evaluate.integrity.process.entries import Arguments, foreign

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
    """Counts calls of native code that the candidate loads and, on request, makes them do nothing but return what the
    same function returned before: a kernel that looks at it goes its ordinary way.

    Libraries of ctypes and cffi, extension modules of its own, Triton kernels, and what CuTe DSL compiles.
    """

    def __init__(self) -> None:
        self.calls, self.silent, self.inside = 0, False, False
        self.arguments: Arguments | None = None
        self.foreign: set[str] = set()  # functions of libraries that were called
        self._returned: dict[Any, Callable[[], Any]] = {}  # by function: makes what it returned last
        self._left: dict[Any, list[bytes | None]] = {}  # by function: what small arguments of ctypes held after it
        native = self

        class Function:
            """A foreign function that counts; argtypes and the like are those of the real one."""

            def __init__(self, real: Any, origin: str = "", key: Any = None):
                object.__setattr__(self, "_real", real)
                object.__setattr__(self, "_key", key or _key(real))
                object.__setattr__(self, "_as_parameter_", real)
                object.__setattr__(self, "_origin", origin)

            def __call__(self, *arguments: Any, **named: Any) -> Any:
                native.count(self._origin)
                return native.call(self._key, self._real, arguments, named)

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

        def prototypes(prototype: Callable[..., type]) -> Callable[..., type]:
            def FUNCTYPE(*types: Any, **flags: Any) -> type:
                """A type of functions at an address. Calls of Python's own functions through it count, too."""

                real = prototype(*types, **flags)

                def call(self: Any, *arguments: Any, **named: Any) -> Any:
                    native.count("")
                    return native.call(_key(self), partial(real.__call__, self), arguments, named)

                members = {name: getattr(real, name) for name in ("_flags_", "_restype_", "_argtypes_")}
                return type(real)("Counted", (real,), {**members, "__call__": call})

            return FUNCTYPE

        ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE = prototypes(ctypes.CFUNCTYPE), prototypes(ctypes.PYFUNCTYPE)
        self._watch_own_modules()

    def count(self, origin: str) -> None:
        """Note one call of a native function. `origin`: its name and library, if that is a library of numbers. Calls
        within a counted one are a part of it."""
        self.calls += not self.inside
        if origin:
            self.foreign.add(origin)

    def call(self, key: Any, real: Callable[..., Any], arguments: tuple, named: dict) -> Any:
        """Call a native function; or, while they do nothing, note what it was given and return what it returned last.
        `key`: names the function."""
        small = [a for a in arguments if isinstance(getattr(a, "_obj", a), _SMALL)]
        if self.silent:
            if self.arguments is not None:
                self.arguments.note(arguments)
            for a, content in zip(small, self._left.get(key, ()), strict=False):
                _write(a, content)
            return self._returned[key]() if key in self._returned else 0
        result = real(*arguments, **named)
        if len(self._returned) < _MOST or key in self._returned:
            self._returned[key] = _again(result)
            self._left[key] = [_read(a) for a in small]
        return result

    def _watch_own_modules(self) -> None:
        """Count functions of extension modules that the candidate built, and of libraries that cffi opens."""
        load, native = importlib.machinery.ExtensionFileLoader.exec_module, self

        def exec_module(self: Any, module: Any) -> None:
            load(self, module)
            if _own_build(str(getattr(self, "path", ""))):
                native.count_within(module)

        importlib.machinery.ExtensionFileLoader.exec_module = exec_module

    def watch_cffi(self) -> None:
        """Count functions of the libraries that cffi opens from now on."""
        with contextlib.suppress(ImportError):
            import cffi

            dlopen, native = cffi.FFI.dlopen, self

            def opened(self: Any, name: Any, *flags: Any) -> Any:
                library = dlopen(self, name, *flags)
                return _Counted(library, native._function, foreign(os.path.realpath(str(name))) if name else "libc")

            cffi.FFI.dlopen = opened

    def count_within(self, module: Any) -> None:
        """Count the functions of an extension module, and of the library within one that cffi compiled."""
        for name, value in list(vars(module).items()):
            if type(value).__name__ in ("Lib", "CompiledLib"):
                setattr(module, name, _Counted(value, self._function))
            elif callable(value) and not isinstance(value, (type, self._function)) and not name.startswith("__"):
                setattr(module, name, self._function(value, key=(module.__name__, name)))

    def watch_extensions(self) -> None:
        """Count functions of extensions that PyTorch builds."""
        import torch.utils.cpp_extension as extension

        for name in ("load_inline", "load"):
            real = getattr(extension, name)
            setattr(extension, name, lambda *a, _real=real, **k: self.wrap(_real(*a, **k)))

    def wrap(self, module: Any) -> Any:
        """An extension module whose functions are counted; anything else (a path, of operators) as it is."""
        if not isinstance(module, types.ModuleType):
            return module
        wrapped = types.SimpleNamespace()
        for name in dir(module):
            value = getattr(module, name)
            counted = callable(value) and not name.startswith("__") and not isinstance(value, self._function)
            setattr(wrapped, name, self._function(value, key=(module.__name__, name)) if counted else value)
        return wrapped

    def watch_triton(self) -> None:
        """Count Triton's launches too, once Triton is loaded."""
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


_MOST = 4096  # functions whose results are noted
_BYTES = 64  # of an argument that is noted: a flag or a status, no data
_SMALL = (ctypes._SimpleCData, ctypes.Structure, ctypes.Array)


class _Counted:
    """A library of cffi whose functions are counted."""

    def __init__(self, real: Any, function: type, origin: str = ""):
        self.__dict__.update(_real=real, _function=function, _origin=origin)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        origin = f"{name} of {self._origin}" if self._origin else ""
        return self._function(value, origin, key=(id(self._real), name)) if callable(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def _key(function: Any) -> Any:
    """The address of a function of ctypes; else its identity."""
    try:
        return ctypes.cast(function, ctypes.c_void_p).value or id(function)
    except (TypeError, ctypes.ArgumentError):
        return id(function)


def _own_build(path: str) -> bool:
    """Return True for a file where the candidate may write."""
    real = os.path.realpath(path)
    roots = (os.getcwd(), os.environ.get("HOME", ""), "/tmp", "/dev/shm", "/var/tmp")
    return any(real.startswith(os.path.realpath(root) + os.sep) for root in roots if root)


def _again(result: Any) -> Callable[[], Any]:
    """A function that makes such a result. A tensor becomes another one that holds NaN, not the earlier result."""
    import torch

    if isinstance(result, torch.Tensor):
        like = {"dtype": result.dtype, "device": result.device}
        shape = tuple(result.shape)
        fill = float("nan") if result.is_floating_point() or result.is_complex() else 0
        return lambda: torch.full(shape, fill, **like)
    if isinstance(result, (tuple, list)) and any(isinstance(x, torch.Tensor) for x in result):
        parts, kind = [_again(x) for x in result], type(result)
        return lambda: kind([part() for part in parts])
    return lambda: result


def _read(argument: Any) -> bytes | None:
    """What a small argument of ctypes holds, or what byref() points to."""
    inner = getattr(argument, "_obj", argument)
    return ctypes.string_at(ctypes.addressof(inner), ctypes.sizeof(inner)) if ctypes.sizeof(inner) <= _BYTES else None


def _write(argument: Any, content: bytes | None) -> None:
    inner = getattr(argument, "_obj", argument)
    by_address = hasattr(argument, "_obj") or isinstance(inner, ctypes.Array)
    if by_address and content is not None and ctypes.sizeof(inner) == len(content) and not _holds_address(inner):
        ctypes.memmove(ctypes.addressof(inner), content, len(content))


def _holds_address(inner: Any) -> bool:
    """Return True for what may name the tensors of this call: their addresses must stay."""
    kinds = (ctypes.c_void_p, ctypes._Pointer, ctypes.c_uint64, ctypes.c_int64)
    if isinstance(inner, ctypes.Structure):
        return True
    kind = inner._type_ if isinstance(inner, ctypes.Array) else type(inner)
    return isinstance(kind, type) and issubclass(kind, (*kinds, ctypes.Structure, ctypes.Array))
