"""The form of each role's reply in `two_stage`. A reply may hold anything, so every field is bounded."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from engine.llm.replies import MOST_TEXT, Form, PrecisionClass, Text
from engine.strategies.two_stage.expressions import LARGEST
from engine.strategies.two_stage.expressions import MOST_TEXT as MOST_EXPRESSION

MOST_PARAMETERS = 10
MOST_VALUES = 16
MOST_INEQUALITIES = 16
MOST_STARTS = 6
VALUE = "of at most 15 digits or 40 letters"
_DIGITS = re.compile(r"[0-9]{1,15}")
Word = Annotated[Text, Field(max_length=40, pattern=r"^[A-Za-z0-9_(). ]*$")]
Whole = Annotated[int, Field(ge=int(-LARGEST), le=int(LARGEST))]
Setting_ = Whole | Word
Name = Annotated[Text, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Formula = Annotated[Text, Field(max_length=MOST_EXPRESSION)]


def _plain(value: object) -> object:
    """Numbers that a model wrote as texts, as numbers."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value.strip()) else value


class Planned(Form):
    """A parameter that the plan wants."""

    name: Name = Field(description="a short name, letters and digits")
    why: Text = Field("", max_length=300, description="what it trades against what, in one line")


class TemplatePlan(Form):
    """What to make a parameter, and of which structure; after a search, whether another template is worth it."""

    decision: Literal["template", "stop"] = Field(
        description="template: write this template next; stop: nothing more is to be gained"
    )
    structure: Text = Field(min_length=1, max_length=600, description="the structure of the template, in one line")
    parameters: list[Planned] = Field(max_length=MOST_PARAMETERS, description="what shall become a parameter")
    speedup: float = Field(1.0, gt=0, le=1000, description="expected time now / time after the search")
    why: Text = Field("", max_length=600, description="one line: the reason, with numbers of the report or the search")


class Parameter(Form):
    """A parameter of a template: `{name}` in its text."""

    name: Name = Field(description="stands in the text as {name}")
    values: list[Setting_] = Field(
        min_length=1, max_length=MOST_VALUES, description="every value, smallest first: whole numbers, or short words"
    )
    default: Setting_ = Field(description="the value of the default instance, one of the values")
    meaning: Text = Field("", max_length=200, description="one line")

    @field_validator("default", mode="before")
    @classmethod
    def _default(cls, value: object) -> object:
        return _plain(value)

    @field_validator("values", mode="before")
    @classmethod
    def _values(cls, value: object) -> object:
        return list(map(_plain, value)) if isinstance(value, list) else value


class Inequality(Form):
    """A limit that every configuration keeps."""

    expression: Formula = Field(min_length=1, description="true for the configurations that are allowed")
    resource: Literal["registers", "shared_memory", "threads", "occupancy", "divisibility", "language", "other"] = (
        Field("other", description="what it is about")
    )
    why: Text = Field("", max_length=300, description="one line")


class _Template(Form):
    cls: PrecisionClass = Field(description="the precision class that it computes in")
    parameters: list[Parameter] = Field(min_length=1, max_length=MOST_PARAMETERS)
    inequalities: list[Inequality] = Field(max_length=MOST_INEQUALITIES)
    threads: Formula = Field("", description="threads of a block, as an expression of the parameters; empty: unknown")
    registers: Formula = Field("", description="registers of a thread, estimated; empty: unknown")
    shared_bytes: Formula = Field("", description="bytes of shared memory of a block; empty: unknown")
    change: Text = Field(max_length=300, description="one line: what the template does")
    why: Text = Field("", max_length=600, description="one line: why it can be faster than the original")


class ProgramTemplate(_Template):
    """A program of the language with parameters."""

    text: Text = Field(min_length=1, max_length=MOST_TEXT, description="the whole program, with {name} for parameters")


class KernelTemplate(_Template):
    """A raw kernel with parameters."""

    text: Text = Field(min_length=1, max_length=MOST_TEXT, description="the whole source, with {name} for parameters")
    language: Literal["cuda", "python"] = Field(description="cuda (CUDA C++) or python (CuTe DSL or Triton)")


class Setting(Form):
    """One parameter's value."""

    name: Name
    value: Setting_

    @field_validator("value", mode="before")
    @classmethod
    def _value(cls, value: object) -> object:
        return _plain(value)


class Configuration(Form):
    """A value for some parameters; the others keep their default."""

    settings: list[Setting] = Field(max_length=MOST_PARAMETERS)

    def values(self) -> dict[str, int | str]:
        return {s.name: s.value for s in self.settings}


class Findings(Form):
    """What the test role says of a template's default instance."""

    mistake: Text = Field("", max_length=600, description="what is wrong with the template; empty if it is right")
    fix: Text = Field("", max_length=600, description="what to change in the template; empty if it is right")
    corners: list[Configuration] = Field(
        max_length=MOST_STARTS, description="configurations in which a template like this breaks most easily"
    )


class Tuning(Form):
    """Where the search begins."""

    starts: list[Configuration] = Field(max_length=MOST_STARTS, description="configurations to evaluate first")
    order: list[Name] = Field(
        max_length=MOST_PARAMETERS, description="names of the parameters, the one with most effect first"
    )
    why: Text = Field("", max_length=600, description="one line: the reason, with numbers of the profile")


Template = ProgramTemplate | KernelTemplate

__all__ = [
    "Configuration",
    "Findings",
    "Inequality",
    "KernelTemplate",
    "Parameter",
    "Planned",
    "ProgramTemplate",
    "Setting",
    "Template",
    "TemplatePlan",
    "Tuning",
]  # fmt: skip
