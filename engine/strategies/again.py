"""Try the candidates of a record again, in their order, and search nothing (engine.record).

The candidates are an option of the strategy, so a session's request carries them, and an engine that takes the session
over from another has them too. The log names each text by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from engine.session import events
from engine.strategies.api import Candidate, Script, Strategy, Try, Unsuitable
from engine.strategies.api import Options as Base

MOST = 8  # candidates
MOST_TEXT = 400_000  # characters of them together
NO_COUNTERPART = (
    "At these sizes no program has the stages of the best one, so it cannot be timed here. Fork the session with this "
    "text to search anew."
)


class Recorded(BaseModel):
    """A candidate of a record: the number of its trial there, and the fields of engine.strategies.api.Candidate."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trial: int = Field(ge=1)
    text: str = Field(min_length=1)
    cls: Literal["f32", "tf32", "f16", "bf16", "fp8"]
    backend: Literal["", "cute", "cpp"] = ""
    form: Literal["program", "kernel"] = "program"
    language: Literal["", "cuda", "python"] = ""
    entry: str = Field("", max_length=200)
    rest: Literal["", "inductor"] = ""


class Options(Base):
    candidates: list[Recorded] = Field(
        [], max_length=MOST, description=f"at most {MOST}, of {MOST_TEXT:,} characters together, tried in their order"
    )

    carry: bool = Field(False, description="the module has other sizes than the record's: programs are carried to them")

    @field_validator("candidates")
    @classmethod
    def _short(cls, value: list[Recorded]) -> list[Recorded]:
        if (long := sum(len(one.text) for one in value)) > MOST_TEXT:
            raise ValueError(f"their texts have {long:,} characters together; at most {MOST_TEXT:,} are taken")
        return value

    def logged(self) -> dict[str, Any]:
        options = self.model_dump(mode="json")
        rows = [row | {"text": events.blob_name(row["text"])} for row in options["candidates"]]
        return options | {"candidates": rows}


class Again(Strategy):
    """See engine.strategies.api.Strategy."""

    name = "again"
    title = "Run again"
    about = "Tries the best candidates of another session again, with fresh inputs, and searches nothing."
    Options = Options
    forms = ("program", "kernel")
    programs = False
    by_hand = searches = False

    def run(self, problem: Any) -> Script:
        if not self.options.candidates:
            raise Unsuitable("no_candidates", "There is no candidate to run again.")
        tried = 0
        for one in self.options.candidates:
            candidate: Candidate | None = Candidate(**one.model_dump(exclude={"trial"}))
            if one.rest and problem.device_kind != "measured":  # it is predicted with PyTorch's own operations
                candidate = replace(candidate, rest="")
            if self.options.carry:
                candidate = _carried(candidate, problem)
            if candidate is not None:
                tried += 1
                yield Try(candidate, f"trial {one.trial} of the record", "run again")
        if not tried:
            raise Unsuitable("no_counterpart", NO_COUNTERPART)
        number = len(self.options.candidates)
        if tried < number:
            return f"{tried} of {number} candidates of the record ran again; the others have no program at these sizes."
        return "Every candidate of the record ran again."


def _carried(candidate: Candidate, problem: Any) -> Candidate | None:
    text = problem.carried(candidate.cls, candidate.text) if candidate.form == "program" else None
    return None if text is None else replace(candidate, text=text)


def options_of(candidates: Mapping[int, Candidate]) -> dict[str, Any]:
    """The options that try these candidates; the keys are the numbers of their trials in the record."""
    return {"candidates": [{"trial": trial, **vars(candidate)} for trial, candidate in candidates.items()]}


STRATEGY = Again
