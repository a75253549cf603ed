"""The functions that a loaded library exports, with their addresses, from the tables of its file (ELF, 64 bits)."""

from __future__ import annotations

import re
import struct
from functools import cache

_DYNAMIC_SYMBOLS, _FUNCTIONS = 11, (2, 10)  # SHT_DYNSYM; STT_FUNC and STT_GNU_IFUNC
_LONGEST = 120


@cache
def _exports(path: str) -> dict[str, int]:
    """Names of functions, and their distances from where the library begins. {} for what is no such file."""
    try:
        with open(path, "rb") as f:
            header = f.read(64)
            if header[:6] != b"\x7fELF\x02\x01":
                return {}
            at, size, many = *struct.unpack_from("<Q", header, 40), *struct.unpack_from("<HH", header, 58)
            f.seek(at)
            table = f.read(size * many)
            sections = [struct.unpack_from("<IIQQQQIIQQ", table, size * i) for i in range(many)]
            names: dict[str, int] = {}
            for section in sections:
                if section[1] == _DYNAMIC_SYMBOLS:
                    f.seek(sections[section[6]][4])
                    texts = f.read(sections[section[6]][5])
                    f.seek(section[4])
                    names |= _defined(f.read(section[5] // 24 * 24), texts)
            return names
    except (OSError, struct.error, IndexError):
        return {}


def _defined(symbols: bytes, texts: bytes) -> dict[str, int]:
    names = {}
    for name, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", symbols):
        if section and value and info & 15 in _FUNCTIONS:
            text = texts[name : name + _LONGEST].partition(b"\0")[0]
            names[text.decode("latin-1")] = value
    return names


def ranges(path: str) -> tuple[int, int]:
    """(where a loaded library begins, how many bytes it reaches); (0, 0) if it is not loaded."""
    low, high = 0, 0
    with open("/proc/self/maps") as f:
        for line in f:
            parts = line.split(maxsplit=5)
            if len(parts) == 6 and parts[5].rstrip("\n") == path:
                first, last = (int(x, 16) for x in parts[0].split("-"))
                low, high = low or first, max(high, last)
    return low, high - low


@cache
def _named(path: str, names: tuple[str, ...] | re.Pattern[str]) -> list[tuple[str, int]]:
    there = _exports(path)
    if isinstance(names, tuple):
        return [(name, there[name]) for name in names if name in there]
    return [(name, at) for name, at in there.items() if not name.startswith("_ZN") and names.fullmatch(name)]


def functions(path: str, names: tuple[str, ...] | re.Pattern[str]) -> list[tuple[str, int]]:
    """(name, address) of the functions of these names that a loaded library exports."""
    low, _ = ranges(path)
    return [(name, low + at) for name, at in _named(path, names)] if low else []
