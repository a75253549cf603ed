"""The key of kernels in quack's cache, by which stages that differ in nothing but names share one compiled object.

A whole model has dozens of equal layers, whose kernels take 0.3 to 3 s each to compile. Their texts keep the names of
their own stage and tensors, because people read them. The key is of the text with these names numbered, so kernels of
the same numbered text differ in names alone. What is compiled has the names of the stage that came first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")
_PROSE = re.compile(r'""".*?"""|\s#[^"\'\n]*$', re.DOTALL | re.MULTILINE)  # "a thread" is not tensor a


def key(shared: str, text: str, names: Iterable[str]) -> str:
    """The digest of `shared`, the parts of the module that the kernels use, and of their own `text` without `names`:
    those of the stage, its results, its operands and its scratch memory."""
    return hashlib.sha256(f"{shared}\n{numbered(text, names)}".encode()).hexdigest()[:16]


def numbered(text: str, names: Iterable[str]) -> str:
    """The code of the text with each of `names` as its number, also where a word continues it (h1 in h1_kernel) or is
    all in capitals. No word of a text begins with the sign of a number, so different code stays different."""
    numbers: dict[str, str] = {}
    for number, name in enumerate(dict.fromkeys(names)):
        numbers.setdefault(name, f"\N{SECTION SIGN}{number}")
        numbers.setdefault(name.upper(), f"\N{SECTION SIGN}{number}!")

    def of(match: re.Match) -> str:
        word = match[0]
        end = len(word)
        while end > 0:  # the longest name that the word is, or that an underscore ends
            if word[:end] in numbers:
                return numbers[word[:end]] + word[end:]
            end = word.rfind("_", 0, end)
        return word

    return _WORD.sub(of, _PROSE.sub("", text))


__all__ = ["key", "numbered"]
