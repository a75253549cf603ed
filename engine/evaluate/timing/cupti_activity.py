"""The records that CUPTI writes of each kernel, copy and fill, read from its own library.

PyTorch's profiler reads the same records, but its first use in a process takes 5 to 6 s (measured on an H100), because
it prepares far more than these; this takes 20 ms. Where the library or one of its answers is missing, `record` raises
Missing, and the caller uses the profiler. Needs a process that has loaded torch with CUDA.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

KERNEL, COPY, FILL = 10, 1, 2  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, _MEMCPY, _MEMSET
KINDS = (KERNEL, COPY, FILL)
# Where a record has its start and end (ns, 64 bit), its stream (32 bit) and a kernel's name, in bytes from its begin.
# CUPTI appends to its records: these places are the same in CUDA 12 and 13 (CUpti_ActivityKernel4 to 10, Memcpy3 to 6,
# Memset to 4).
START, END, KERNEL_STREAM, STREAM, NAME, COPY_KIND = 16, 24, 48, 40, 104, 4
COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
BUFFER = 1 << 20  # bytes that CUPTI fills at a time, about 7,000 records
# As they are when this is imported: in a raw kernel's process these names count its calls later.
_CDLL, _CFUNCTYPE = ctypes.CDLL, ctypes.CFUNCTYPE
FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: records of work that has ended come at once


class Missing(Exception):
    """CUPTI's library is not there, or answers otherwise than expected."""


@dataclass(frozen=True)
class Activity:
    """One piece of the device's work. `start`, `end`: nanoseconds; `name`: as C++ writes it, not as linkers do."""

    name: str
    start: int
    end: int
    stream: int


def record(call: Callable[[], object], settle: Callable[[], object]) -> list[Activity]:
    """The device's work during `call`, by its start; `settle` waits until the device has nothing to do. Raises Missing
    and what `call` raises."""
    return _cupti().record(call, settle)


class Cupti:
    """CUPTI's library in this process. Its callbacks stay registered as long as the process lives."""

    def __init__(self, path: str):
        try:
            self._library = _CDLL(path)
        except OSError as e:
            raise Missing(str(e)) from None
        self._buffers: dict[int, Any] = {}  # address -> memory that CUPTI has now
        self._records: list[Activity] = []
        size = ctypes.POINTER(ctypes.c_size_t)
        wanted = _CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), size, size)
        full = _CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
        self._callbacks = wanted(self._wanted), full(self._full)

    def record(self, call: Callable[[], object], settle: Callable[[], object]) -> list[Activity]:
        settle()
        # Every time anew: a profiler of the process may have put its own callbacks there.
        self._ask("cuptiActivityRegisterCallbacks", *self._callbacks)
        self._records = []
        enabled: list[int] = []
        try:
            for kind in KINDS:
                self._ask("cuptiActivityEnable", ctypes.c_uint32(kind))
                enabled.append(kind)
            call()
            settle()
            self._ask("cuptiActivityFlushAll", ctypes.c_uint32(FORCED))
        finally:
            for kind in enabled:
                self._library.cuptiActivityDisable(ctypes.c_uint32(kind))
        records, self._records = self._records, []
        return sorted(records, key=lambda a: a.start)

    def _ask(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise Missing(f"{name} answered {status}")

    # ---- called by CUPTI, perhaps from a thread of its own ----

    def _wanted(self, buffer: Any, size: Any, most: Any) -> None:
        memory = (ctypes.c_uint64 * (BUFFER // 8))()  # aligned to 8 bytes
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0], size[0], most[0] = address, BUFFER, 0

    def _full(self, context: int, stream: int, buffer: int, size: int, valid: int) -> None:
        self._records += activities(self._places(buffer, valid))
        self._buffers.pop(buffer, None)

    def _places(self, buffer: int, valid: int) -> Iterator[int]:
        """The address of each record in a buffer."""
        place = ctypes.c_void_p()
        while (
            self._library.cuptiActivityGetNextRecord(
                ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(place)
            )
            == 0
        ):
            yield place.value


def activities(places: Iterator[int]) -> list[Activity]:
    """What the records at these addresses say; other kinds than KINDS are left out."""
    read = []
    for place in places:
        kind = ctypes.c_uint32.from_address(place).value
        if kind not in KINDS:
            continue
        start, end = (ctypes.c_uint64.from_address(place + at).value for at in (START, END))
        stream = ctypes.c_uint32.from_address(place + (KERNEL_STREAM if kind == KERNEL else STREAM)).value
        read.append(Activity(_name(kind, place), start, end, stream))
    return read


def _name(kind: int, place: int) -> str:
    if kind == FILL:
        return "Memset (Device)"
    if kind == COPY:
        return f"Memcpy {COPIES.get(ctypes.c_uint8.from_address(place + COPY_KIND).value, '')}".strip()
    text = ctypes.c_void_p.from_address(place + NAME).value
    return demangled(ctypes.string_at(text)) if text else ""


@functools.lru_cache(maxsize=4096)
def demangled(name: bytes) -> str:
    """A linker's name as C++ writes it; the name itself where it is none or no C++ library is loaded."""
    plain = name.decode(errors="replace")
    demangle, free = _demangler()
    if demangle is None or not name.startswith(b"_Z"):
        return plain
    status = ctypes.c_int(-1)
    text = demangle(name, None, None, ctypes.byref(status))
    if not text:
        return plain
    try:
        return ctypes.string_at(text).decode(errors="replace") if status.value == 0 else plain
    finally:
        free(ctypes.c_void_p(text))


@functools.cache
def _demangler() -> tuple[Any, Any]:
    """(__cxa_demangle, free); (None, None) without a C++ library."""
    try:
        demangle, free = _CDLL("libstdc++.so.6").__cxa_demangle, _CDLL(None).free
    except (OSError, AttributeError):
        return None, None
    demangle.restype = ctypes.c_void_p
    return demangle, free


@functools.cache
def _cupti() -> Cupti:
    """The library that torch has loaded. Raises Missing."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        path = next((line.split()[-1] for line in lines if "/libcupti.so" in line), None)
    if path is None:
        raise Missing("this process has loaded no libcupti")
    return Cupti(path)
