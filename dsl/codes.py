"""The pages of the error codes, read from codes.toml."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill


@dataclass(frozen=True)
class Page:
    """`why` the rule is there, an `example` that breaks it, and the `fix`."""

    code: str
    title: str
    why: str
    example: str
    fix: str

    def to_json(self) -> dict:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.code} {self.title}\n\n{fill(self.why, 100)}\n\nRejected:  {self.example}\nPasses:    {self.fix}"


CODES: dict[str, Page] = {
    code: Page(code, **fields)
    for code, fields in tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8")).items()
}
