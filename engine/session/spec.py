"""The request for a session: one model, shared by the API, the command line, the page and the runner.

Plain data with a JSON form and no heavy import, because the web process loads it too. `SpecFields` is the model;
`SessionSpec` raises each mistake as a BadSpec, in words for a person.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from engine.session import events
from engine.strategies import registry
from engine.strategies.api import Options, Strategy

UNTITLED = "A PyTorch module"  # until the module is traced; then the title says what it computes
Class = Literal["f32", "tf32", "f16", "bf16", "fp8"]
CLASSES = get_args(Class)
MAX_SOURCE = 200_000  # characters: the largest KernelBench module has 12,000
LIVE_SOURCE = 1_000_000  # of a live module, one line an operation and a tensor: NASNet-A has 500,000
MAX_TRIALS = 1000
MAX_SEED = 2**63 - 1
MOST_RAISED = 300  # characters of what an option's validator says
ARCH = "sm_90a"  # programs are written for it: no time may be predicted for another chip
_ENDPOINT = re.compile(r"https://[^\s@?#\x00-\x1f]{1,180}")
_MODEL = re.compile(r"[\x21-\x7e]{1,200}")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class BadSpec(ValueError):
    """One field of a spec is wrong: `field`, a message that says what is allowed, and `fix`, a valid value as a
    sentence."""

    def __init__(self, field: str, message: str, way_out: str = ""):
        super().__init__(f"{field}: {message}")
        self.field, self.message, self.fix = field, message, way_out or fix(field)


def _field(default: Any, about: str, allowed: str, fix: str, **limits: Any) -> Any:
    """`about`: what the field means; `allowed`: which values it takes; `fix`: a value that works, as a sentence."""
    more = {"json_schema_extra": {"about": about, "allowed": allowed, "fix": fix}}
    return Field(default, description=f"{about}: {allowed}" if about else allowed, **limits, **more)


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _BadOption(ValueError):
    """An option of a strategy is wrong. `fix`: as in BadSpec."""

    def __init__(self, message: str, fix: str):
        super().__init__(message)
        self.fix = fix


class SpecFields(BaseModel):
    """The fields of a session. `eps`, `window`: the stop rule of sol.budget; `options`: of the chosen strategy."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    most: ClassVar[int] = MAX_SOURCE

    title: str = _field(
        "", "Name of the session", "a text of at most 200 characters, on one line and without control characters",
        "Write a short title on one line, or leave it out.",
    )  # fmt: skip
    source: str = _field(
        ..., "What is optimised", "a PyTorch module or a μCUTLASS program",
        "Paste a PyTorch module, or write a μCUTLASS program.",
    )  # fmt: skip
    source_kind: Literal["module", "program"] = _field(
        "module", "", "module or program", 'Write "module" or "program".'
    )
    device: str = _field(
        "auto", "Where trials run", "auto, cuda, or modelled:NAME for a prediction",
        'Write "auto", "cuda" or "modelled:h200".',
    )  # fmt: skip
    strategy: str = _field(
        registry.DEFAULT, "Which strategy searches", "a name from the list of strategies",
        'Write "planner", or leave it out.', validate_default=True,
    )  # fmt: skip
    options: SerializeAsAny[Options] = _field(
        {}, "Options of the strategy", "an object with the strategy's own options",
        "Leave it out, or write only options that the strategy has.", validate_default=True,
    )  # fmt: skip
    endpoint: str = _field(
        "", "Endpoint of your own that the strategy's model is asked at, with a key of yours that is no field",
        "an https address that the operator of this server lists, or empty for the operator's own endpoint",
        "Leave it out, or write an address that the server lists, for example https://api.openai.com/v1.",
    )  # fmt: skip
    model: str = _field(
        "", "Model at that endpoint", "the name of a model, only with an endpoint",
        "Name a model of the endpoint, or leave out both the endpoint and the model.", validate_default=True,
    )  # fmt: skip
    classes: Annotated[tuple[Class, ...], BeforeValidator(_listed)] = _field(
        ("tf32", "f16"), "Precision classes allowed", f"at least one of {', '.join(CLASSES)}, each class once",
        'Write for example ["tf32", "f16"].',
    )  # fmt: skip
    trials: int = _field(
        12, "Trials of the strategy at most", f"a whole number from 1 to {MAX_TRIALS}", "Write for example 12.",
        ge=1, le=MAX_TRIALS,
    )  # fmt: skip
    eps: float = _field(
        0.25, "Stop within this share of the limit", "a number from 0 to 100; 0.25 stops within 25% of the limit",
        "Write for example 0.25, to stop within 25% of the limit.", ge=0, le=100, allow_inf_nan=False,
    )  # fmt: skip
    window: int = _field(
        6, "Stop after so many trials without a better one", f"a whole number from 1 to {MAX_TRIALS}",
        "Write for example 6, to stop after 6 trials without gain.", ge=1, le=MAX_TRIALS,
    )  # fmt: skip
    seed: int = _field(
        0, "Random seed", f"a whole number from 0 to {MAX_SEED}", "Write for example 0.", ge=0, le=MAX_SEED
    )
    compile: bool = _field(
        False, "On a GPU, time torch.compile too when the search is over (minutes)", "true or false",
        "Write true or false.",
    )  # fmt: skip
    algebraic: bool = _field(
        False, "A program that omits some of the module's work, by algebra, may be the best", "true or false",
        "Write true or false.",
    )  # fmt: skip

    @field_validator("title")
    @classmethod
    def _title(cls, value: str) -> str:
        if len(value) > 200 or _CONTROL.search(value):
            raise ValueError(allowed("title"))
        return value

    @field_validator("source")
    @classmethod
    def _source(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("paste a PyTorch module or a μCUTLASS program")
        if len(value) > cls.most:
            raise ValueError(f"{len(value):,} characters; at most {cls.most:,} are allowed")
        return value

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if value != "auto" and (wrong := device_error(value)):
            raise ValueError(wrong)
        return value

    @field_validator("strategy")
    @classmethod
    def _strategy(cls, value: str) -> str:
        names = registry.available()
        if value not in names:
            chosen = ", ".join(name for name, s in names.items() if s.by_hand)
            raise ValueError(f"{short(value)} is not one of {chosen}")
        return value

    @field_validator("options", mode="before")
    @classmethod
    def _options(cls, value: Any, info: ValidationInfo) -> Any:
        chosen = registry.available().get(info.data.get("strategy", ""))
        if chosen is None:
            return Options()  # the mistake is the strategy itself
        raw = value.model_dump() if isinstance(value, Options) else value
        if not isinstance(raw, dict):
            raise ValueError(allowed("options"))
        try:
            return chosen.Options(**raw)
        except ValidationError as e:
            raise _option_error(chosen, e) from None

    @field_validator("endpoint")
    @classmethod
    def _endpoint(cls, value: str, info: ValidationInfo) -> str:
        value = value.strip().rstrip("/")
        if not value:
            return ""
        chosen = registry.available().get(info.data.get("strategy", ""))
        if chosen is not None and not chosen.asks:
            raise ValueError(f"the strategy {chosen.name} asks no model; {', '.join(_asking())} do")
        if not _ENDPOINT.fullmatch(value):
            raise ValueError(allowed("endpoint"))
        return value

    @field_validator("model")
    @classmethod
    def _model(cls, value: str, info: ValidationInfo) -> str:
        if not value and not info.data.get("endpoint"):
            return ""
        if not info.data.get("endpoint", "unknown") or not _MODEL.fullmatch(value):
            raise ValueError(allowed("model"))
        return value

    @field_validator("classes")
    @classmethod
    def _classes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError(allowed("classes"))
        return value

    @property
    def budget(self) -> dict[str, Any]:
        return {"trials": self.trials, "eps": self.eps, "window": self.window}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return self.model_dump(mode="json")


class SessionSpec(SpecFields):
    """A session's fields. Raises BadSpec."""

    def __init__(self, **fields: Any):
        try:
            super().__init__(**fields)
        except ValidationError as e:
            raise bad_spec(e) from None

    @staticmethod
    def from_json(text: str | dict[str, Any]) -> SessionSpec:
        """Raises BadSpec for text that is not an object, an unknown field, or a bad value."""
        try:
            raw = json.loads(text) if isinstance(text, str) else dict(text)
        except (TypeError, ValueError) as e:
            raise BadSpec("spec", f"not JSON: {e}") from None
        if not isinstance(raw, dict):
            raise BadSpec("spec", "a JSON object with the fields of a session")
        return SessionSpec(**{str(name): value for name, value in raw.items()})

    def changed(self, **fields: Any) -> SessionSpec:
        """The spec with other values. Raises BadSpec."""
        return type(self)(**{**self.to_dict(), **fields})


class LiveSpec(SessionSpec):
    """Of a live module of this process, which nobody pastes."""

    most: ClassVar[int] = LIVE_SOURCE


def of_started(started: events.SessionStarted, source: str) -> dict[str, Any]:
    """The fields of a session from its log, unchecked: an old log may name a device or strategy that no longer
    exists."""
    budget = {name: started.budget[name] for name in ("trials", "eps", "window") if name in started.budget}
    return {
        "title": started.title, "source": source, "source_kind": started.source_kind, "device": "auto",
        "strategy": started.strategy, "options": dict(started.options), "classes": list(started.classes), **budget,
        "seed": started.seed, "algebraic": started.algebraic,
    }  # fmt: skip


# ---- mistakes, in words ----


def about(field: str) -> str:
    """What a field means, in words."""
    return _extra(field)["about"]


def allowed(field: str) -> str:
    """Which values a field takes, in words."""
    return _extra(field)["allowed"]


def fix(field: str) -> str:
    """A valid value, as a sentence; for an unknown field, the list of fields."""
    if field in SpecFields.model_fields:
        return _extra(field)["fix"]
    return f"Leave it out; the fields are {', '.join(SpecFields.model_fields)}."


def _extra(field: str) -> dict[str, str]:
    return SpecFields.model_fields[field].json_schema_extra


def bad_spec(error: ValidationError) -> BadSpec:
    """The first mistake of a spec in words; an unknown field before all others."""
    first = min(error.errors(include_url=False), key=lambda mistake: mistake["type"] != "extra_forbidden")
    field = str(first["loc"][0])[:40] if first["loc"] else "spec"
    raised = first.get("ctx", {}).get("error")
    return BadSpec(field, _message(field, first), raised.fix if isinstance(raised, _BadOption) else "")


def _message(field: str, mistake: dict[str, Any]) -> str:
    match mistake["type"]:
        case "extra_forbidden":
            return f"no such field; the fields are {', '.join(SpecFields.model_fields)}"
        case "missing":
            return "is missing"
        case "literal_error" if isinstance(mistake["input"], str):
            names = CLASSES if field == "classes" else get_args(SpecFields.model_fields[field].annotation)
            return f"{short(mistake['input'])} is not one of {', '.join(names)}"
        case "value_error":
            return str(mistake["ctx"]["error"])
    return allowed(field)


def _option_error(strategy: type[Strategy], error: ValidationError) -> _BadOption:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])[:40] if first["loc"] else ""
    known = {option["name"]: option for option in _options_of(strategy)}
    if first["type"] == "extra_forbidden" and name not in known:
        has = f"it has {', '.join(known)}" if known else "it has none"
        return _BadOption(f"strategy {strategy.name} has no option {short(name)}; {has}", fix("options"))
    option = known[name]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, ValueError):  # of the option's own validator, which says more than its kind
        words = " ".join(str(raised).split())[:MOST_RAISED]
        return _BadOption(f"{name}: {words}", f"Mend the option {name}, or leave it out. It takes {option['about']}.")
    values = _option_values(option)
    example = f"Write for example {json.dumps({name: option['default']})}, or leave {name} out."
    return _BadOption(f"{name}: {values} ({option['about']})", f"{name} takes {values}. {example}")


def _option_values(option: dict[str, Any]) -> str:
    """Which values an option takes, in words. `option`: a row of `_options_of`."""
    low, high = option["low"], option["high"]
    if option["kind"] == "choice":
        return f"one of {', '.join(map(str, option['choices']))}"
    if option["kind"] in ("text", "list"):
        return f"a {option['kind']}"
    if option["kind"] == "flag":
        return "true or false"
    return "a whole number" + (f" from {low}" if low is not None else "") + (f" to {high}" if high is not None else "")


def device_error(name: Any) -> str | None:
    """Why `name` is not a device, with the devices that exist; None if it is one. Only the engine knows if there is a
    GPU."""
    from sol.hardware import available, load  # here, because reading a recording must load only this room

    if name == "cuda":
        return None
    known = {f"modelled:{m}": load(m) for m in available()}
    hardware = known.get(name) if isinstance(name, str) else None
    if hardware is not None and hardware.arch == ARCH:
        return None
    why = f"is {hardware.title}, which cannot run programs for {ARCH}" if hardware else "is not a device"
    models = ", ".join(n for n, hw in known.items() if hw.arch == ARCH)
    return f"{short(name)} {why}; write cuda, or for a prediction one of {models}"


def _asking() -> list[str]:
    """The strategies that ask a model."""
    return [s.name for s in registry.available().values() if s.asks]


def short(value: Any, most: int = 40) -> str:
    """A value for a message, shortened to `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def strategies() -> list[dict[str, Any]]:
    """The strategies that a person may choose: [{name, title, about, asks, options: [{name, about, default, kind,
    choices, low, high, longest}]}]; `asks`: it needs a model; `kind` is text | number | choice | flag; `longest`: of a
    text, in characters, or None."""
    return [
        {
            "name": s.name, "title": s.title, "about": s.about, "asks": s.asks,
            "options": [dict(o) for o in _options_of(s)],
        }
        for s in registry.available().values()
        if s.by_hand
    ]  # fmt: skip


@lru_cache  # pydantic takes milliseconds for each schema, and every request for a page or a session asks
def _options_of(strategy: type[Strategy]) -> list[dict[str, Any]]:
    schema = strategy.Options.model_json_schema()
    kinds = {"integer": "number", "boolean": "flag", "array": "list"}
    return [
        {
            "name": name, "about": field.get("description", ""), "default": field.get("default"),
            "kind": "choice" if "enum" in field else kinds.get(field.get("type"), "text"),
            "choices": field.get("enum", []), "low": field.get("minimum"), "high": field.get("maximum"),
            "longest": field.get("maxLength"),
        }
        for name, field in schema.get("properties", {}).items()
    ]  # fmt: skip
