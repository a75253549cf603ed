"""Registers, static shared memory, stack and instructions of a kernel, read from its machine code.

A cubin is an ELF file of machine EM_CUDA (190). The facts are in the sections named `.nv.info`: a list of attributes,
each one byte of format, one byte of attribute, and a value (EIFMT_SVAL: a 16-bit size and that many bytes; the others
16 bits in place). `cuobjdump -elf` prints the names of the attributes:

  EIATTR_REGCOUNT (0x2f)    symbol index, registers per thread at launch (setmaxnreg may move them between warps later)
  EIATTR_FRAME_SIZE (0x11)  symbol index, bytes of local memory per thread for spilled registers and local arrays

Static shared memory is the size of `.nv.shared.<kernel>`, less the 1 KiB per block that the driver reserves if the
file has a section `.nv.shared.reserved.0`. `ptxas -v` and the limit of 227 KiB per block count in the same way. Dynamic
shared memory is not in the file. The instructions are the size of `.text.<kernel>` by INSTRUCTION: those that the code
holds, with its padding, and not those that a run executes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

EM_CUDA = 190
INSTRUCTION = 16  # bytes, since Volta
_FRAME_SIZE, _REGCOUNT = 0x11, 0x2F
_SVAL = 4
_RESERVED = 1024
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Kernel:
    """`stack_bytes`: local memory of a thread, 0 without spills and local arrays."""

    name: str
    registers: int
    stack_bytes: int
    shared_static: int
    instructions: int


def kernels(data: bytes) -> list[Kernel]:
    """Every kernel of every cubin embedded in `data` (a cubin, or an object file that contains some)."""
    return [k for start in _cubins(data) for k in _kernels(data[start:])]


def code(data: bytes) -> dict[str, bytes]:
    """The machine code of every kernel of every cubin embedded in `data`."""
    out: dict[str, bytes] = {}
    for start in _cubins(data):
        elf = data[start:]
        header = _HEADER.unpack_from(elf)
        sections = [_SECTION.unpack_from(elf, header[6] + i * header[11]) for i in range(header[12])]
        for section in sections:
            name = _text(elf, sections[header[13]][4] + section[0])
            if name.startswith(".text."):
                out[name.removeprefix(".text.")] = elf[section[4] : section[4] + section[5]]
    return out


def _cubins(data: bytes) -> Iterator[int]:
    at = data.find(b"\x7fELF\x02\x01")
    while at >= 0:
        if len(data) >= at + _HEADER.size and _HEADER.unpack_from(data, at)[2] == EM_CUDA:
            yield at
        at = data.find(b"\x7fELF\x02\x01", at + 4)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")


def _kernels(elf: bytes) -> list[Kernel]:
    try:
        return _read(elf)
    except (struct.error, ValueError, IndexError, KeyError, OverflowError):
        return []  # bytes that only look like a cubin


def _read(elf: bytes) -> list[Kernel]:
    header = _HEADER.unpack_from(elf)
    offset, size, count, names_at = header[6], header[11], header[12], header[13]
    sections = [_SECTION.unpack_from(elf, offset + i * size) for i in range(count)]
    names = [_text(elf, sections[names_at][4] + s[0]) for s in sections]
    by_name = dict(zip(names, sections, strict=True))
    symbols = by_name[".symtab"]
    strings = sections[symbols[6]][4]

    def symbol(index: int) -> str:
        return _text(elf, strings + _SYMBOL.unpack_from(elf, symbols[4] + index * _SYMBOL.size)[0])

    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    info = by_name[".nv.info"]
    for attribute, value in _attributes(elf[info[4] : info[4] + info[5]]):
        if attribute in (_REGCOUNT, _FRAME_SIZE) and len(value) == 8:
            index, number = struct.unpack("<II", value)
            (registers if attribute == _REGCOUNT else frames)[symbol(index)] = number
    reserved = _RESERVED if ".nv.shared.reserved.0" in by_name else 0
    kernels = []
    for name in registers:
        if (code := by_name.get(f".text.{name}")) is not None:
            shared = by_name.get(f".nv.shared.{name}")
            size = max(0, shared[5] - reserved) if shared else 0
            kernels.append(Kernel(name, registers[name], frames.get(name, 0), size, code[5] // INSTRUCTION))
    return kernels


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, word = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SVAL:
            yield attribute, info[at : at + word]
            at += word
        else:
            yield attribute, struct.pack("<H", word)
