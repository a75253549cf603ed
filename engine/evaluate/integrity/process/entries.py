"""Make functions of libraries do nothing but count their calls, however they were reached; and copy what functions
that do nothing were given.

By ctypes, by dlsym, by a linker, or by a pointer that native code computed: the first bytes of each function are
replaced while the context is open.

It runs in the candidate's process, which could deceive it; see candidate_main for its value. Only on x86-64; elsewhere
no function counts.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import platform
import re
from collections.abc import Iterator
from typing import Any

from engine.evaluate.shared_tensors import tensor_at

LIBRARY = re.compile(r"torch|c10|mkl|blas|lapack|dnnl|numpy|multiarray|cudart|cublas|cudnn")
_VARIANTS = (
    "cblas_{}", "{}", "{}_", "{}_64", "{}_64_", "cblas_{}64_", "cblas_{}_64", "scipy_cblas_{}64_", "scipy_{}_64_",
    "mkl_blas__{}", "mkl_blas_{}", "mkl_blas_x{}",
)  # fmt: skip
_BASES = (
    "sgemm", "dgemm", "sgemv", "dgemv", "sgemmt", "ssymm", "strmm", "sgemm_batch", "sgemm_batch_strided",
    "sgemm_compute",
)  # fmt: skip
PRODUCTS = (
    *(v.format(b) for b in _BASES for v in (*_VARIANTS, "{}_direct")), *(b.upper() for b in _BASES),
    "dnnl_sgemm", "dnnl_primitive_execute", "dnnl_gemm_u8s8s32",
)  # fmt: skip
LAUNCHES = (
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "__cudaLaunchKernel",
    "cudaLaunchKernel_ptsz", "__cudaLaunchKernel_ptsz", "cudaGraphLaunch",
)  # fmt: skip
WATCHED_CODE = {
    "libc.so": ("clock_gettime", "nanosleep", "clock_nanosleep", "read", "write", "memcpy", "mmap"),
    "libcudart": (
        "cudaEventElapsedTime", "cudaEventRecord", "cudaEventRecordWithFlags", "cudaEventSynchronize", "cudaEventQuery",
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaStreamWaitEvent", "cudaMemcpyAsync",
        "cudaLaunchKernel",
    ),
    "libcuda.so": ("cuEventElapsedTime", "cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize"),
}  # fmt: skip
_WATCHED_LIBRARY = re.compile(r"^(?:libc\.so|libcudart|libcuda\.so)")
_SIZE = 16
_READ, _WRITE, _EXECUTE = 1, 2, 4
_REAL_CDLL = ctypes.CDLL  # before tracing.Native replaces it


def _stub(counter: int) -> bytes:
    """mov rax, counter; inc qword [rax]; xor eax, eax; ret"""
    return b"\x48\xb8" + counter.to_bytes(8, "little") + b"\x48\xff\x00" + b"\x31\xc0" + b"\xc3"


class Entries:
    """The functions of these names in loaded libraries. `with entries:` they do nothing; `counts` is then the calls by
    name and library, those that were called."""

    def __init__(self, names: tuple[str, ...]):
        self.places: dict[int, str] = {}
        self.counts: dict[str, int] = {}
        if platform.machine() not in ("x86_64", "AMD64"):
            return
        for path in _libraries():
            library = _REAL_CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            for name in names:
                try:
                    at = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                except AttributeError:
                    continue
                # dlsym also looks into the libraries that this one needs.
                if at and all(abs(at - other) >= _SIZE for other in self.places):
                    self.places[at] = f"{name} of {_owner(at) or os.path.basename(path)}"
        self._libc = _REAL_CDLL(None)
        self._counters = (ctypes.c_uint64 * max(1, len(self.places)))()
        self._saved: dict[int, bytes] = {}

    def __enter__(self) -> Entries:
        for i, at in enumerate(self.places):
            if self._protect(at, _READ | _WRITE | _EXECUTE):
                self._saved[at] = ctypes.string_at(at, _SIZE)
                counter = ctypes.addressof(self._counters) + 8 * i
                self._counters[i] = 0
                ctypes.memmove(at, _stub(counter), _SIZE)
        return self

    def __exit__(self, *_: Any) -> None:
        for at, was in self._saved.items():
            ctypes.memmove(at, was, _SIZE)
        for at in self._saved:  # after all of them, because several may share a page
            self._protect(at, _READ | _EXECUTE)
        self._saved = {}
        self.counts = {name: int(self._counters[i]) for i, name in enumerate(self.places.values()) if self._counters[i]}

    def _protect(self, at: int, what: int) -> bool:
        page = at & -mmap.PAGESIZE
        return self._libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(at + _SIZE - page), what) == 0


class Code:
    """The first bytes of functions that clocks, pipes and streams depend on, to detect that they were overwritten."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        for path in _mapped():
            if (match := _WATCHED_LIBRARY.search(os.path.basename(path))) is not None:
                library = _REAL_CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
                for name in WATCHED_CODE[match[0]]:
                    if hasattr(library, name):
                        self._at[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        self._was = self._now()

    def _now(self) -> dict[str, bytes]:
        return {name: ctypes.string_at(at, _SIZE) for name, at in self._at.items()}

    def changed(self) -> list[str]:
        """Names of functions whose code is not what it was."""
        return [name for name, code in self._now().items() if code != self._was[name]]


class Arguments:
    """Copies of the memory at the addresses that native functions were given while they did nothing: results that
    somebody else had finished by then. `owner`: the candidate; tensors of its inputs do not count."""

    MANY, BYTES = 8, 1 << 28  # copies, and what all of them may take

    def __init__(self, owner: Any, shapes: dict[str, list[int]]):
        name = owner.outputs[0]
        slot = owner.results[name]
        self.shape, self.dtype = shapes.get(name, list(slot.shape)), tensor_at(owner.result_map, slot).dtype
        self.size = math.prod(self.shape) * self.dtype.itemsize
        self.known = {x.data_ptr() for x in owner.tensors.values()}
        self.copies: list[bytearray] = []
        self.most = min(self.MANY, self.BYTES // self.size) if self.size else 0

    def note(self, arguments: tuple) -> None:
        """Copy what these arguments of a native function point to."""
        for at in (_address(part) for argument in arguments for part in _parts(argument)):
            if at and at not in self.known and len(self.copies) < self.most:
                self.known.add(at)
                with contextlib.suppress(OSError, OverflowError), open("/proc/self/mem", "rb", 0) as memory:
                    memory.seek(at)
                    data = memory.read(self.size)
                    self.copies += [bytearray(data)] if len(data) == self.size else []

    def tensor(self, at: int) -> Any:
        import torch

        return torch.frombuffer(self.copies[at], dtype=self.dtype).view(self.shape)


def _parts(argument: Any, depth: int = 2) -> Iterator[Any]:
    """The argument, and what a structure or an array holds that it is or points to."""
    yield argument
    inner = getattr(argument, "_obj", argument)  # of byref()
    if isinstance(inner, ctypes._Pointer) and inner and hasattr(type(inner)._type_, "_fields_"):
        inner = inner.contents
    parts: list[Any] = []
    if isinstance(inner, ctypes.Structure):
        parts = [getattr(inner, field[0]) for field in inner._fields_]
    elif isinstance(inner, ctypes.Array):
        parts = list(inner[: Arguments.MANY])
    for part in parts if depth else ():
        yield from _parts(part, depth - 1)


def _address(argument: Any) -> int:
    """The address that an argument of a native function is, or 0."""
    if isinstance(argument, int):
        return argument if argument > 4096 else 0
    try:
        if hasattr(argument, "data_ptr"):
            return int(argument.data_ptr())
        if hasattr(argument, "__array_interface__"):  # of NumPy
            return int(argument.__array_interface__["data"][0])
        return ctypes.cast(argument, ctypes.c_void_p).value or 0
    except (TypeError, ValueError, RuntimeError, ctypes.ArgumentError):
        return 0


def _libraries() -> list[str]:
    """Loaded libraries that are not the candidate's own builds."""
    scratch = os.getcwd() + "/"
    return [p for p in _mapped() if LIBRARY.search(os.path.basename(p)) and not p.startswith(scratch)]


def _mapped() -> list[str]:
    paths = {}
    with open("/proc/self/maps") as f:
        for line in f:
            parts = line.split(maxsplit=5)
            if len(parts) == 6 and "x" in parts[1] and ".so" in parts[5]:
                paths[parts[5].rstrip("\n")] = None
    return list(paths)


def _owner(at: int) -> str:
    """The file name of the library that holds an address."""
    with open("/proc/self/maps") as f:
        for line in f:
            parts = line.split(maxsplit=5)
            low, high = (int(x, 16) for x in parts[0].split("-"))
            if low <= at < high:
                return os.path.basename(parts[5].rstrip("\n")) if len(parts) == 6 else ""
    return ""


def foreign(path: str) -> str:
    """The file name of a library of numbers that is not the candidate's own build; "" for any other."""
    name = os.path.basename(path)
    own = os.path.realpath(path).startswith(os.getcwd() + "/")
    return name if LIBRARY.search(name) and not own else ""
