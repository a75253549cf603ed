"""The request for a bench: its problems, and the session of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.session.spec import SessionSpec
from engine.suite.cases import PROBLEMS

_OF_THE_PROBLEM = ("title", "source", "source_kind")


@dataclass(frozen=True)
class Request:
    """`problems`: a module's name -> its id in the set; `fields`: of every session, as a page's form gives them
    (engine.session.spec); an omitted field has the page's default. `seconds`: after this time nothing continues; a
    later call does. `folder`: of the modules."""

    problems: Mapping[str, str]
    fields: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 1e9
    folder: Path = PROBLEMS

    def session(self, module: str) -> SessionSpec:
        """The session of one problem. Raises BadSpec."""
        text = (self.folder / f"{module}.py").read_text(encoding="utf-8")
        return SessionSpec(title=module, source=text, source_kind="module", **self.fields)

    @property
    def settings(self) -> dict[str, Any]:
        """The common fields of all sessions of the bench, as JSON values. Raises BadSpec."""
        fields = SessionSpec(title="any", source="any", **self.fields).to_dict()
        return {name: value for name, value in fields.items() if name not in _OF_THE_PROBLEM}
