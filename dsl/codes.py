"""The pages of the error codes (codes.toml, mistakes/) and of a back end's refusals (refusals.toml)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill


@dataclass(frozen=True)
class Page:
    """The explanation of a code: the reason for the rule, an example that breaks it ("" for a refusal), and the fix."""

    code: str
    title: str
    why: str
    example: str
    fix: str

    @property
    def wrong(self) -> str:
        """A whole program with this error alone; "" for a refusal."""
        return self._program("wrong")

    @property
    def right(self) -> str:
        """The same program, repaired; "" for a refusal."""
        return self._program("right")

    def _program(self, which: str) -> str:
        return _text(f"mistakes/{self.code}-{which}.ucutlass") if self.example else ""

    def to_json(self) -> dict:
        return {**asdict(self), "wrong": self.wrong, "right": self.right}

    def __str__(self) -> str:
        end = f"Rejected:  {self.example}\nPasses:    {self.fix}" if self.example else f"Helps:     {self.fix}"
        text = f"{self.code} {self.title}\n\n{fill(self.why, 100)}\n\n{end}"
        if not self.example:
            return text
        return f"{text}\n\nA wrong program:\n\n{self.wrong}\nThe same, repaired:\n\n{self.right}"


def _read(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(_text(name))


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


CODES: dict[str, Page] = {code: Page(code, **fields) for code, fields in _read("codes.toml").items()}
REFUSALS: dict[str, dict[str, str]] = _read("refusals.toml")  # by the code without `cute-` or `cpp-`


def page(code: str) -> Page | None:
    """The page of an error code such as E204, or of a refusal such as cute-k-major; None if there is none."""
    if code.upper() in CODES:
        return CODES[code.upper()]
    fields = REFUSALS.get(re.sub(r"^(cute|cpp)-", "", code))
    return Page(code, example="", **fields) if fields and code.startswith(("cute-", "cpp-")) else None
