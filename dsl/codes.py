"""The pages of the error codes (codes.toml, mistakes/) and of a back end's refusals (refusals.toml)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill


@dataclass(frozen=True)
class Page:
    """The explanation of a code: the reason for the rule, an example that breaks it ("" for a refusal), and the fix.

    `wrong`: a whole program with this error alone; `right`: the same program, repaired. Both are "" for a refusal.
    """

    code: str
    title: str
    why: str
    example: str
    fix: str
    wrong: str = ""
    right: str = ""

    def to_json(self) -> dict:
        return asdict(self)

    def __str__(self) -> str:
        end = f"Rejected:  {self.example}\nPasses:    {self.fix}" if self.example else f"Helps:     {self.fix}"
        text = f"{self.code} {self.title}\n\n{fill(self.why, 100)}\n\n{end}"
        return (
            f"{text}\n\nA wrong program:\n\n{self.wrong}\nThe same, repaired:\n\n{self.right}" if self.wrong else text
        )


def _read(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(_text(name))


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _programs(code: str) -> dict[str, str]:
    return {which: _text(f"mistakes/{code}-{which}.ucutlass") for which in ("wrong", "right")}


CODES: dict[str, Page] = {code: Page(code, **fields, **_programs(code)) for code, fields in _read("codes.toml").items()}
REFUSALS: dict[str, dict[str, str]] = _read("refusals.toml")  # by the code without `cute-` or `cpp-`


def page(code: str) -> Page | None:
    """The page of an error code such as E204, or of a back end's refusal such as cute-tf32; None if there is none."""
    if code.upper() in CODES:
        return CODES[code.upper()]
    fields = REFUSALS.get(re.sub(r"^(cute|cpp)-", "", code))
    return Page(code, example="", **fields) if fields and code.startswith(("cute-", "cpp-")) else None
