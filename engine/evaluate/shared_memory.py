"""Memory that two processes share by a descriptor: of the GPU, so that gigabytes need not cross the host.

    block = create(size, "cuda")        # in the process that owns it
    door.give(way, block.fd, SECONDS)   # the descriptor crosses a Unix socket, also into a sandbox
    block = adopt(take(door), size, "cuda")
    block.tensor(slot)                  # a torch tensor on the same bytes, in either process

On a GPU the memory is made by the driver's virtual memory functions (cuMemCreate), whose descriptors work across the
name spaces of a sandbox. Probed on an H200: 16 GiB in 1 ms, and a kernel reads and writes it as fast as its own; a
first copy of 4 GiB to fresh host memory takes 3.6 s beside that. On a CPU it is a memory file, for the tests.

Both processes may write at any time. So a block that an untrusted process shares holds only what that process decides
anyway.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import socket
from typing import Any

from engine.evaluate import cuda_driver
from engine.evaluate.shared_tensors import Slot

DOOR = "UCUTLASS_DOOR"  # the environment variable with the number of a worker's socket
SECONDS = 20.0
_PINNED, _DESCRIPTOR, _DEVICE, _READ_WRITE = 1, 1, 1, 3  # of the driver's enumerations


class NotShared(OSError):
    """This machine or this process cannot share such memory; the message says why."""


def create(size: int, device: str) -> Block:
    """A new block of at least `size` bytes. Raises NotShared."""
    return GpuBlock.new(size) if device == "cuda" else HostBlock.new(size)


def adopt(fd: int, size: int, device: str) -> Block:
    """The block behind a descriptor from `create` with the same size, which it closes. Raises NotShared."""
    try:
        block = GpuBlock.of(fd, size) if device == "cuda" else HostBlock(fd, size)
    finally:
        os.close(fd)
    block.fd = -1
    return block


def through(inside: int, size: int, device: str) -> Block:
    """The block whose descriptor lies in this process's door. Raises NotShared."""
    with door(inside) as way:
        return adopt(take(way), size, device)


class Block:
    """Bytes that processes share, until the last of them drops its block and the tensors on it. `fd`: to give away; the
    process that made the block closes it with `shared`."""

    fd: int

    def bytes(self) -> Any:
        """The block as a torch tensor of u8."""
        raise NotImplementedError

    def tensor(self, slot: Slot) -> Any:
        """A torch tensor on the slot's bytes, without a copy."""
        import torch

        from engine.evaluate.correctness.inputs import torch_dtype

        dtype, whole = torch_dtype(slot.dtype), self.bytes()
        if slot.bytes == 0:
            return torch.empty(slot.shape, dtype=dtype, device=whole.device)
        return whole[slot.offset : slot.offset + slot.bytes].view(dtype).reshape(slot.shape)

    def shared(self) -> None:
        """Close the descriptor, once it was given away."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class HostBlock(Block):
    def __init__(self, fd: int, size: int):
        self.fd = fd
        try:
            self.map = mmap.mmap(fd, max(size, mmap.PAGESIZE))
        except (OSError, ValueError) as e:
            raise NotShared(f"the memory file cannot be mapped: {e}") from None

    @classmethod
    def new(cls, size: int) -> HostBlock:
        fd = os.memfd_create("ucutlass-block", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, max(size, mmap.PAGESIZE))  # and nobody may shrink it under another process
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        return cls(fd, size)

    def bytes(self) -> Any:
        import torch

        return torch.frombuffer(self.map, dtype=torch.uint8)


class _Location(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int)]


class _Property(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [
        ("kind", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location), ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]  # fmt: skip


class _Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class GpuBlock(Block):
    """On the current device. The mapping lives as long as this object, which every tensor on it keeps alive."""

    def __init__(self, handle: int, size: int, fd: int = -1):
        self.fd, self._size = fd, size
        self._driver = cuda_driver.library()
        self._handle, self._pointer = ctypes.c_ulonglong(handle), ctypes.c_ulonglong()
        _checked("cuMemAddressReserve", ctypes.byref(self._pointer), _size(size), _size(0), _address(0), _address(0))
        _checked("cuMemMap", self._pointer, _size(size), _size(0), self._handle, _address(0))
        access = _Access(_Location(_DEVICE, _current()), _READ_WRITE)
        _checked("cuMemSetAccess", self._pointer, _size(size), ctypes.byref(access), _size(1))

    @classmethod
    def new(cls, size: int) -> GpuBlock:
        prop, handle, fd = _property(), ctypes.c_ulonglong(), ctypes.c_int(-1)
        whole = _rounded(size, prop)
        _checked("cuMemCreate", ctypes.byref(handle), _size(whole), ctypes.byref(prop), _address(0))
        _checked("cuMemExportToShareableHandle", ctypes.byref(fd), handle, ctypes.c_int(_DESCRIPTOR), _address(0))
        return cls(handle.value, whole, fd.value)

    @classmethod
    def of(cls, fd: int, size: int) -> GpuBlock:
        handle = ctypes.c_ulonglong()
        _checked("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), ctypes.c_int(_DESCRIPTOR))
        return cls(handle.value, _rounded(size, _property()))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self._size,), "typestr": "|u1", "data": (self._pointer.value, False), "version": 3,
            "strides": None, "stream": None,
        }  # fmt: skip

    def bytes(self) -> Any:
        import torch

        return torch.as_tensor(self, device="cuda")

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if self._pointer.value:
                self._driver.cuMemUnmap(self._pointer, _size(self._size))
                self._driver.cuMemAddressFree(self._pointer, _size(self._size))
            self._driver.cuMemRelease(self._handle)


def _checked(name: str, *arguments: Any) -> None:
    try:
        cuda_driver.call(name, *arguments)
    except cuda_driver.DriverError as e:
        raise NotShared(str(e)) from None


def _current() -> int:
    import torch

    return torch.cuda.current_device()


def _property() -> _Property:
    return _Property(_PINNED, _DESCRIPTOR, _Location(_DEVICE, _current()), None)


def _rounded(size: int, prop: _Property) -> int:
    step = ctypes.c_size_t()
    _checked("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(prop), ctypes.c_int(0))
    return max(1, -(-size // step.value)) * step.value


_size, _address = ctypes.c_size_t, ctypes.c_ulonglong


# ---- the way of a descriptor ----


def door(inside: int | None = None) -> socket.socket:
    """This process's socket to the engine: `inside`, the number that a sandbox was told, or a worker's own. Raises
    NotShared if it has none."""
    number = inside if inside is not None else os.environ.get(DOOR)
    if not number:
        raise NotShared("this process was started without a socket for descriptors")
    return socket.socket(fileno=os.dup(int(number)))


def take(way: socket.socket) -> int:
    """Receive a descriptor. Raises NotShared if none comes."""
    way.settimeout(SECONDS)
    try:
        _, fds, _, _ = socket.recv_fds(way, 1, 1)
    except OSError as e:
        raise NotShared(f"no descriptor came: {e}") from None
    if not fds:
        raise NotShared("no descriptor came")
    return fds[0]
