"""Names of compiled functions for a reader: qualified, without parameters and template arguments.

A symbol is mangled by the Itanium C++ ABI (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling), or demangled
already, or plain. It may be cut at any character, because a profiler and a log cut long ones.
"""

from __future__ import annotations

import re

_LENGTH = re.compile(r"[0-9]{1,6}")  # a candidate chooses its symbols, and of thousands of digits int() makes an error
_PLAIN_WORDS = ("Memcpy", "Memset")  # what CUPTI calls copies, which are no functions
ANONYMOUS = "(anonymous namespace)"


def plain_name(symbol: str) -> str:
    """`_ZN2ns4gateEPf` is ns::gate, `void at::kernel<4, f>(int)` at::kernel. The symbol itself where it has no name."""
    if symbol.startswith("_Z"):
        return _mangled(symbol) or symbol
    if symbol.startswith(_PLAIN_WORDS):
        return symbol
    return _demangled(symbol) or symbol


def _mangled(symbol: str) -> str:
    """The source names of a mangled symbol up to its first template arguments; "" if there are none."""
    nested = symbol.startswith("_ZN")
    at, parts = 3 if nested else 2, []
    while nested and symbol[at : at + 1] in ("K", "V", "r", "O", "R"):  # qualifiers of a member function
        at += 1
    if symbol.startswith("St", at):
        at, parts = at + 2, ["std"]
    while match := _LENGTH.match(symbol, at):
        start, at = match.end(), match.end() + int(match[0])
        if at > len(symbol):
            break
        name = symbol[start:at]
        parts.append(ANONYMOUS if name.startswith("_GLOBAL__N_") else name)
        if not nested:
            break
    return "::".join(parts) if parts != ["std"] else ""


def _demangled(symbol: str) -> str:
    """The name before the parameters, without template arguments and the type of the result."""
    name, depth = "", 0
    rest = symbol.replace(ANONYMOUS, "\0")
    for c in rest:
        if c == "<":
            depth += 1
        elif c == ">":
            depth -= 1
        elif depth > 0:
            continue
        elif c == "(":
            break
        elif c == " ":
            name = ""
        else:
            name += c
    return name.replace("\0", ANONYMOUS)
