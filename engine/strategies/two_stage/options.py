"""The options of `two_stage`, and a template or configurations that are preset instead of searched."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator

from engine.strategies import api
from engine.strategies.two_stage.forms import Form, KernelTemplate, ProgramTemplate, Setting_
from engine.strategies.writing import FORM, OPINION, PROFILE, REFINE, RESERVE, SEED

MOST_PRESET = 200_000  # characters
MOST_CONFIGURATIONS = 64


class Preset(Form):
    """What another session found. `template`: tried without a turn of plan and generate; `configurations`: evaluated in
    this order in place of the search."""

    template: KernelTemplate | ProgramTemplate | None = None
    configurations: list[dict[Annotated[str, Field(max_length=32)], Setting_]] = Field(
        default_factory=list, max_length=MOST_CONFIGURATIONS
    )


class TwoStageOptions(api.Options):
    form: Literal["program", "kernel"] = FORM
    rounds: int = Field(2, ge=1, le=10, description="Rounds of both stages; from the second on with feedback")
    templates: int = Field(4, ge=1, le=20, description="Attempts at a right template in each round")
    evaluations: int = Field(24, ge=1, le=500, description="Configurations that a round's search evaluates at most")
    screened: int = Field(2, ge=0, le=50, description="Random configurations that are evaluated before the descent")
    repeats: int = Field(2, ge=0, le=20, description="Further measurements of the round's best, for the spread")
    profile: bool = PROFILE
    report: bool = Field(True, description="Put the speed-of-light report into the plan's prompt")
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE
    preset: str = Field(
        "", max_length=MOST_PRESET,
        description="JSON {template, configurations} of another session, tried in place of turns and search",
    )  # fmt: skip

    @field_validator("preset")
    @classmethod
    def _preset(cls, text: str) -> str:
        if text.strip():
            read_preset(text)
        return text


def read_preset(text: str) -> Preset | None:
    """The preset template and configurations; None if there are none. Raises ValueError."""
    if not text.strip():
        return None
    try:
        return Preset.model_validate(json.loads(text))
    except (ValidationError, ValueError, RecursionError) as e:
        first = e.errors()[0]["msg"] if isinstance(e, ValidationError) else "no JSON"
        raise ValueError(f"preset holds no template and configurations: {first}") from None


__all__ = ["Preset", "TwoStageOptions", "read_preset"]
