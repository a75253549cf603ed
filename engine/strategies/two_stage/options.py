"""The options of `two_stage`, and a template or configurations that are preset instead of searched."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, field_validator

from engine.strategies import api
from engine.strategies.forms import CandidateForm
from engine.strategies.two_stage.forms import VALUE, Form, KernelTemplate, ProgramTemplate, Setting_
from engine.strategies.writing import FORM, OPINION, PROFILE, REFINE, RESERVE, SEED

MOST_PRESET = 200_000  # characters
MOST_CONFIGURATIONS = 64
_MISTAKES = {
    "missing": "it is missing", "extra_forbidden": "there is no such name; the names are template and configurations",
    "dict_type": "write an object", "model_type": "write an object", "list_type": "write a list",
    "string_type": "write a text",
}  # fmt: skip


class Preset(Form):
    """What another session found. `template`: tried without a turn of plan and generate; `configurations`: evaluated in
    this order in place of the search. Names that it does not have are refused, as a person may mistype them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: KernelTemplate | ProgramTemplate | None = None
    configurations: list[dict[Annotated[str, Field(max_length=32)], Setting_]] = Field(
        default_factory=list, max_length=MOST_CONFIGURATIONS
    )


class TwoStageOptions(api.Options):
    form: CandidateForm = FORM
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
    """The preset template and configurations; None if there are none. Raises ValueError, which names the mistake."""
    if not text.strip():
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f"no JSON: {e.msg}, at line {e.lineno}, column {e.colno}") from None
    except (ValueError, RecursionError):
        raise ValueError("no JSON that is read: it has too many levels or digits") from None
    if not isinstance(value, dict) or not (value.get("template") or value.get("configurations")):
        raise ValueError('write {"template": {..}, "configurations": [{..}]}, or one of both')
    try:
        return Preset.model_validate(value)
    except ValidationError as e:
        raise ValueError(_first(e, value)) from None


def _first(error: ValidationError, value: dict[str, Any]) -> str:
    """The first mistake in words: where, and what is wrong. Of the two forms of a template, that which it names."""
    template = value.get("template")
    kernel = isinstance(template, dict) and template.get("language") in ("cuda", "python")
    other = (ProgramTemplate if kernel else KernelTemplate).__name__
    errors = [e for e in error.errors(include_url=False, include_context=False) if other not in e["loc"]]
    first = (errors or error.errors())[0]
    at = [str(part) for part in first["loc"] if not str(part).endswith("Template")]
    if at[-1] == "constrained-int":  # pydantic's name of the first kind that a value may have
        return f"{'.'.join(at[:-1])}: write a whole number or a word, {VALUE}"
    return f"{'.'.join(at)}: {_MISTAKES.get(first['type'], first['msg'])}"


__all__ = ["Preset", "TwoStageOptions", "read_preset"]
