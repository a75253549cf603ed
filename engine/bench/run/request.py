"""The request for a bench: its problems, and the session of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.session.script.compiled import Compiling
from engine.session.spec import SessionSpec
from engine.suite.cases import PROBLEMS

BESIDE = ("search_seconds", "compile_ways", "compile_seconds")  # settings of a bench that are no fields of a session
_OF_THE_PROBLEM = ("title", "source", "source_kind")


@dataclass(frozen=True)
class Request:
    """`problems`: a module's name -> its id in the set; `fields`: of every session, as a page's form gives them
    (engine.session.spec); an omitted field has the page's default. `seconds`: after this time nothing continues; a
    later call does. `folder`: of the modules. `search_seconds`: a session's search starts no trial after this time, or
    after twice this time if none was right; None: only its budget ends it. `compiling`: which of torch.compile's times
    each session takes, if it takes them."""

    problems: Mapping[str, str]
    fields: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 1e9
    folder: Path = PROBLEMS
    search_seconds: float | None = None
    compiling: Compiling = field(default_factory=Compiling)

    def session(self, module: str) -> SessionSpec:
        """The session of one problem. Raises BadSpec."""
        return SessionSpec(title=module, source=self._text(module), source_kind="module", **self.fields)

    def sha256(self, module: str) -> str:
        """Of the text of a module in a folder of a person's own, so that a changed one is run again; "" for one of this
        repository."""
        if self.folder == PROBLEMS:
            return ""
        return hashlib.sha256(self._text(module).encode()).hexdigest()

    def _text(self, module: str) -> str:
        return (self.folder / f"{module}.py").read_text(encoding="utf-8")

    @property
    def settings(self) -> dict[str, Any]:
        """The common fields of all sessions of the bench, as JSON values, and what else differs from a page's sessions.
        Raises BadSpec."""
        fields = SessionSpec(title="any", source="any", **self.fields).to_dict()
        beside = (self.search_seconds, list(self.compiling.ways), self.compiling.seconds)
        return {name: value for name, value in fields.items() if name not in _OF_THE_PROBLEM} | {
            name: value for name, value in zip(BESIDE, beside, strict=True) if value
        }
