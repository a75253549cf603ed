"""The form of each role's reply, as pydantic models. A reply may hold anything, so every field is bounded.

Fields that a model adds are ignored. `described` writes a form for a prompt.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

PrecisionClass = Literal["f32", "tf32", "f16", "bf16", "fp8"]
MOST_TEXT = 60_000  # characters of a program or kernel; a prompt shows as many
MOST_IDEAS = 8
MOST_MODULE = 12_000  # characters of a module that a model writes


def plain(value: Any) -> Any:
    """A text without zero bytes and half surrogates, which neither a file nor a database takes."""
    return value.replace("\0", "").encode("utf-8", "replace").decode() if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(plain)]
LEAST_RISK, MOST_RISK = 1.0, 10.0  # of sol.triage


class Form(BaseModel):
    """Base of all replies."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Program(Form):
    """A program of the language."""

    program: Text = Field(min_length=1, max_length=MOST_TEXT, description="the whole program, as text")
    cls: PrecisionClass = Field(description="the precision class that the program computes in")
    change: Text = Field(max_length=300, description="one line: the difference from the program before")
    why: Text = Field("", max_length=600, description="one line: why this is faster, or mends the mistake")
    predicted_ms: float | None = Field(None, gt=0, lt=1e6, description="the time that you expect, in ms")


class Kernel(Form):
    """A raw kernel."""

    source: Text = Field(min_length=1, max_length=MOST_TEXT, description="the whole source file, as text")
    language: Literal["cuda", "python"] = Field(description="cuda (CUDA C++) or python (CuTe DSL or Triton)")
    cls: PrecisionClass = Field(description="the precision class that the kernel computes in")
    change: Text = Field(max_length=300, description="one line: the difference from the kernel before")
    why: Text = Field("", max_length=600, description="one line: why this is faster, or mends the mistake")
    predicted_ms: float | None = Field(None, gt=0, lt=1e6, description="the time that you expect, in ms")


class Analysis(Form):
    """Where the time goes."""

    bottleneck: Text = Field(max_length=600, description="what limits the best candidate now")
    observations: list[Text] = Field(max_length=12, description="facts from the report and the trials, one a line")


class Idea(Form):
    """One hypothesis. Risks are those of sol.triage."""

    title: Text = Field(min_length=1, max_length=200, description="what to change, in one line")
    action: Text = Field("", max_length=80, description="the lever of the report that it uses, or a short name")
    speedup: float = Field(gt=0, le=1000, description="expected time now / time after; above 1 is faster")
    implementation: float = Field(
        ge=LEAST_RISK, le=MOST_RISK, description="1: sure to build and be right; 10: very unlikely"
    )
    performance: float = Field(
        ge=LEAST_RISK, le=MOST_RISK, description="1: sure to bring the speedup; 10: very unlikely"
    )
    why: Text = Field("", max_length=600, description="one line: the reason, with numbers of the report")


class Ideas(Form):
    """Hypotheses for triage."""

    hypotheses: list[Idea] = Field(min_length=1, max_length=MOST_IDEAS)


class Lessons(Form):
    """What an iteration taught."""

    lessons: list[Text] = Field(max_length=8, description="each one line that helps on this problem or another one")


Line = Annotated[Text, Field(max_length=300)]


class Module(Form):
    """A PyTorch module of a description (engine.llm.module_writer)."""

    module: Text = Field(min_length=1, max_length=MOST_MODULE, description="the whole Python file, as text")
    sentence: Text = Field(min_length=1, max_length=300, description="one sentence: what the module computes")
    assumptions: list[Line] = Field(max_length=12, description="what the description left open, one choice a line")


def described(form: type[Form]) -> str:
    """The form as an example in JSON with each field's description, for a prompt."""
    return json.dumps(_example(form.model_json_schema()), indent=2, ensure_ascii=False)


def _example(schema: dict, definitions: dict | None = None) -> object:
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return _example(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        schema = {**schema["anyOf"][0], **schema}
    if schema.get("type") == "object":
        return {name: _example(field, definitions) for name, field in schema["properties"].items()}
    about = schema.get("description", "")
    if schema.get("type") == "array":
        item = schema["items"]
        return [_example(item, definitions) if "$ref" in item else f"<{about}>"]
    choice = f"one of {' | '.join(schema['enum'])}" if "enum" in schema else schema.get("type", "")
    return f"<{', '.join(filter(None, (choice, about)))}>"


__all__ = ["Analysis", "Form", "Idea", "Ideas", "Kernel", "Lessons", "Module", "PrecisionClass", "Program", "described"]
