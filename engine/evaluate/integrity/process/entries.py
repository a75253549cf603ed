"""Make functions of libraries do nothing but count their calls, however they were reached; and copy what functions
that do nothing were given.

By ctypes, by dlsym, by a linker, or by a pointer that native code computed: the first bytes of each function are
replaced while the context is open. What a library calls of itself does nothing either, and does not count.

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
import struct
from collections.abc import Iterator
from typing import Any

from engine.evaluate.integrity.probes import exported
from engine.evaluate.shared_tensors import tensor_at

LIBRARY = re.compile(r"torch|c10|mkl|blas|lapack|dnnl|numpy|multiarray|cudart|cublas|cudnn|libipp|svml|fftw|sleef")
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
_SIZE = 16  # bytes of a function that are watched, or saved while another code stands there
_STEP = 64  # bytes of the code that counts one function's calls
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS = 0x22
_REAL_CDLL = ctypes.CDLL  # before native_calls.Native replaces it


def _jump(to: int) -> bytes:
    """mov rax, to; jmp rax"""
    return b"\x48\xb8" + to.to_bytes(8, "little") + b"\xff\xe0"


_STUB = struct.Struct(f"<6sQ5sQ7sQ{_STEP - 42}s")


def _stub(counter: int, low: int, size: int) -> bytes:
    """Count a call unless it comes from the library itself, at low..low + size, and return 0 and 0.0.

    mov rax, [rsp]; mov r11, low; sub rax, r11; mov r11, size; cmp rax, r11; jb over the next two;
    mov rax, counter; lock inc qword [rax]; xor eax, eax; xorps xmm0, xmm0; ret
    """
    return _STUB.pack(
        b"\x48\x8b\x04\x24\x49\xbb", low, b"\x4c\x29\xd8\x49\xbb", size, b"\x4c\x39\xd8\x72\x0e\x48\xb8", counter,
        b"\xf0\x48\xff\x00\x31\xc0\x0f\x57\xc0\xc3".ljust(_STEP - 42, b"\xcc"),
    )  # fmt: skip


class Entries:
    """The functions of these names in loaded libraries of numbers. `with entries:` they do nothing; `counts` is then
    the calls from outside of their library by name and library, those that were called."""

    def __init__(self, names: tuple[str, ...] | re.Pattern[str]):
        self.places: dict[int, str] = {}
        self.counts: dict[str, int] = {}
        self._saved: dict[int, bytes] = {}
        self._ranges: dict[int, tuple[int, int]] = {}
        self._code = 0
        if platform.machine() not in ("x86_64", "AMD64"):
            return
        for path in _libraries():
            ranges, library = exported.ranges(path), os.path.basename(path)
            for name, at in exported.functions(path, names):
                self.places[at] = f"{name} of {library}"
                self._ranges[at] = ranges
        last = 0
        for at in sorted(self.places):  # two names of one function, or functions that are shorter than a jump
            if at - last < _SIZE:
                del self.places[at]
            else:
                last = at
        self._libc = _REAL_CDLL(None)
        self._counters = (ctypes.c_uint64 * max(1, len(self.places)))()

    def __enter__(self) -> Entries:
        if not self.places or not (code := self._counting_code()):
            return self
        pages = self._pages()
        for low, high in pages:
            self._protect(low, high, _READ | _WRITE | _EXECUTE)
        jumps = {at: _jump(code + _STEP * i) for i, at in enumerate(self.places)}
        self._saved = self._exchanged(pages, jumps)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._saved:
            pages = self._pages()
            self._exchanged(pages, self._saved)
            for low, high in pages:
                self._protect(low, high, _READ | _EXECUTE)
        self._saved = {}
        # The code that counts stays: a thread may stand in it.
        self.counts = {name: int(self._counters[i]) for i, name in enumerate(self.places.values()) if self._counters[i]}

    def _counting_code(self) -> int:
        """The address of the functions that count, one behind the other, in the order of the places."""
        if not self._code:
            counters = ctypes.addressof(self._counters)
            code = b"".join(_stub(counters + 8 * i, *self._ranges[at]) for i, at in enumerate(self.places))
            self._libc.mmap.restype = ctypes.c_void_p
            at = self._libc.mmap(None, ctypes.c_size_t(len(code)), _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
            if at in (None, ctypes.c_void_p(-1).value):
                return 0
            ctypes.memmove(at, code, len(code))
            self._protect(at, at + len(code), _READ | _EXECUTE)
            self._code = at
        return self._code

    def _pages(self) -> list[tuple[int, int]]:
        """From the first to the last place of each library, which lie in one mapping of its code."""
        spans: dict[tuple[int, int], list[int]] = {}
        for at, library in self._ranges.items():
            span = spans.setdefault(library, [at, at])
            span[:] = min(span[0], at), max(span[1], at)
        return [(low, high + _SIZE) for low, high in spans.values()]

    @staticmethod
    def _exchanged(pages: list[tuple[int, int]], codes: dict[int, bytes]) -> dict[int, bytes]:
        """Write each code at its address, in these spans. Return what stood there: _SIZE bytes each."""
        was = {}
        for low, high in pages:
            memory = memoryview((ctypes.c_char * (high - low)).from_address(low)).cast("B")
            for at, code in codes.items():
                if low <= at < high:
                    place = at - low
                    was[at] = bytes(memory[place : place + _SIZE])
                    memory[place : place + len(code)] = code
        return was

    def _protect(self, low: int, high: int, what: int) -> None:
        low &= -mmap.PAGESIZE
        if self._libc.mprotect(ctypes.c_void_p(low), ctypes.c_size_t(high - low), what) != 0:
            raise OSError("the code of a library cannot be changed")


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


def read_tables(names: tuple[str, ...] | re.Pattern[str]) -> None:
    """Read the tables of the libraries that are loaded now, so that later searches take no time."""
    for path in _libraries():
        exported.functions(path, names)


def _mapped() -> list[str]:
    paths = {}
    with open("/proc/self/maps") as f:
        for line in f:
            parts = line.split(maxsplit=5)
            if len(parts) == 6 and "x" in parts[1] and ".so" in parts[5]:
                paths[parts[5].rstrip("\n")] = None
    return list(paths)


def foreign(path: str) -> str:
    """The file name of a library of numbers that is not the candidate's own build; "" for any other."""
    name = os.path.basename(path)
    own = os.path.realpath(path).startswith(os.getcwd() + "/")
    return name if LIBRARY.search(name) and not own else ""
