"""What the operator sets for models, from the environment.

Each field of Settings is one variable: OPENAI_BASE_URL, OPENAI_API_KEY, UCUTLASS_MODEL, ... The variable
UCUTLASS_MODEL_<ROLE> sets the model of one role, for example UCUTLASS_MODEL_TRIAGE. `rows()` describes them for the
table of the README (playground.conf). This module imports nothing of the engine and loads no client.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
)

ROOT = Path(__file__).resolve().parent.parent.parent
OPENAI = "https://api.openai.com/v1"
FOR_ROLE = "UCUTLASS_MODEL_"
MILLION = 1_000_000


class BadSettings(ValueError):
    """A variable of the environment is invalid. The message names it, the fault and the way out, never a key."""


class Price(BaseModel):
    """US dollars per million tokens. `cached`: of prompt tokens that the endpoint had in its cache; None: as `in`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    prompt: NonNegativeFloat = Field(alias="in")
    cached: NonNegativeFloat | None = None
    out: NonNegativeFloat


class Prices(BaseModel):
    """The price table: {"date": "2026-11-01", "models": {"NAME": {"in": 1.25, "cached": 0.125, "out": 10}}}."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: date
    models: dict[str, Price]

    def cost(self, model: str, tokens: Mapping[str, int]) -> float | None:
        """US dollars, or None if the table does not have the model. A dated version such as NAME-2026-10-01 has the
        price of NAME."""
        names = [name for name in self.models if model == name or model.startswith(f"{name}-")]
        if not names or "in" not in tokens or "out" not in tokens:
            return None
        price = self.models[max(names, key=len)]
        cached = min(tokens.get("cached", 0), tokens["in"])
        old = price.prompt if price.cached is None else price.cached
        return ((tokens["in"] - cached) * price.prompt + cached * old + tokens["out"] * price.out) / MILLION


def fits_a_header(key: str) -> bool:
    """An HTTP header can carry the key: no space, line end or character outside of ASCII."""
    return key.isascii() and key.isprintable() and " " not in key


def _key(value: SecretStr) -> SecretStr:
    if not fits_a_header(value.get_secret_value()):
        raise ValueError("it has a space, a line end or a character outside of ASCII")
    return value


def _address(value: str) -> str:
    """A base URL without its last slash; "" stays."""
    if not value:
        return value
    scheme, _, rest = value.partition("://")
    if scheme not in ("http", "https") or not rest or any(c in value for c in " @?#"):
        raise ValueError("write for example http://127.0.0.1:8000/v1, without a user, a key or a query")
    return value.rstrip("/")


def _parts(value: Any) -> Any:
    return [p.strip() for p in value.split(",") if p.strip()] if isinstance(value, str) else value


def prices_of(value: Any) -> Any:
    """The price table of a file; "" is None, and what is no path stays. Raises ValueError."""
    if not isinstance(value, str) or not value:
        return value or None
    try:
        return Prices.model_validate_json(Path(value).read_text(encoding="utf-8"))
    except OSError as e:
        raise ValueError(f"the file {value} cannot be read ({e.strerror})") from None
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the table"
        raise ValueError(f"the file {value} is no price table ({where}: {first['msg']})") from None


Address = Annotated[str, AfterValidator(_address)]


class Settings(BaseModel):
    """Build it with `load`. Fields without a model or key have their defaults: such settings are valid, and
    `why_not(role)` says what is missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: Address = Field("", alias="OPENAI_BASE_URL", description="address of an endpoint that speaks chat "
                              f"completions, with `/v1`; empty: {OPENAI}")  # fmt: skip
    key: Annotated[SecretStr, AfterValidator(_key)] = Field(
        SecretStr(""), alias="OPENAI_API_KEY", description="key of that endpoint; it is sent nowhere else"
    )
    model: str = Field("", alias="UCUTLASS_MODEL", description="model that answers strategies which ask one",
                       pattern=r"^[\x21-\x7e]{0,200}$")  # fmt: skip
    endpoints: Annotated[tuple[Address, ...], BeforeValidator(_parts)] = Field(
        (),
        alias="UCUTLASS_ENDPOINTS",
        description="https endpoints, with commas between, that a visitor may use with an own key",
    )
    temperature: float | None = Field(
        None, alias="UCUTLASS_TEMPERATURE", ge=0, le=2, description="sampling temperature; empty: the endpoint's"
    )
    top_p: float | None = Field(
        None, alias="UCUTLASS_TOP_P", gt=0, le=1, description="nucleus sampling; empty: the endpoint's"
    )
    effort: str = Field("", alias="UCUTLASS_REASONING_EFFORT", pattern="^[a-z]{0,20}$",
                        description="reasoning effort, for example low; empty: the endpoint's")  # fmt: skip
    prices: Annotated[Prices | None, BeforeValidator(prices_of)] = Field(
        None, alias="UCUTLASS_PRICES", description="JSON file of prices per million tokens, with their date: "
        '`{"date": "2026-11-01", "models": {"NAME": {"in": 1.25, "cached": 0.1, "out": 10}}}`; empty: no costs',
    )  # fmt: skip
    tokens_a_call: PositiveInt = Field(
        16_384, alias="UCUTLASS_TOKENS_A_CALL", description="longest reply of a model, in tokens"
    )
    tokens_a_session: PositiveInt = Field(
        4_000_000, alias="UCUTLASS_TOKENS_A_SESSION", description="tokens, in and out, that one session may use"
    )
    tokens_a_day: PositiveInt = Field(
        40_000_000, alias="UCUTLASS_TOKENS_A_DAY", description="tokens a day (UTC) with the operator's key, of all "
        "sessions together"
    )  # fmt: skip
    tokens_an_address: PositiveInt = Field(
        10_000_000, alias="UCUTLASS_TOKENS_AN_ADDRESS", description="tokens a day (UTC) with the operator's key, of "
        "the sessions of one address"
    )  # fmt: skip
    seconds: PositiveInt = Field(
        600, alias="UCUTLASS_CALL_SECONDS", description="longest call of a model in seconds, with its repetitions"
    )
    silence: PositiveInt = Field(
        120, alias="UCUTLASS_CALL_SILENCE", description="longest silence of a model in seconds"
    )
    folder: Path = Field(ROOT / "var", alias="UCUTLASS_VAR")
    roles: dict[str, str] = Field(default_factory=dict, alias="roles")  # role -> model, for roles with their own

    def model_for(self, role: str) -> str:
        return self.roles.get(_variable(role), "") or self.model

    def for_visitor(self, model: str) -> Settings:
        """The settings for a visitor's endpoint, where one model has every role."""
        return self.model_copy(update={"model": model, "roles": {}})

    def why_not(self, role: str, *, has_endpoint: bool = False) -> str:
        """Why no model can be asked for this role, with the way out; "" if one can. `has_endpoint`: a visitor's."""
        if not has_endpoint and not self.base_url and not self.key.get_secret_value():
            return (
                "This engine has no model to ask. Set OPENAI_API_KEY (or OPENAI_BASE_URL for an endpoint of your own) "
                "and UCUTLASS_MODEL in the engine's environment and start the engine again."
            )
        if not self.model_for(role):
            return (
                f"No model is set for the role {role}. Set UCUTLASS_MODEL, or {FOR_ROLE}{_variable(role)} for this "
                "role alone, in the engine's environment and start the engine again."
            )
        return ""

    def describe(self, role: str = "") -> dict[str, str]:
        """For pages: {model, host} of what a role asks, "" any role of the strategies; or {missing} with the way out.
        The key is not part of it."""
        if missing := self.why_not(role):
            return {"missing": missing}
        return {"model": self.model_for(role), "host": urlsplit(self.base_url or OPENAI).netloc}

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling settings that are sent, by their names in a request."""
        values = {"temperature": self.temperature, "top_p": self.top_p, "reasoning_effort": self.effort or None}
        return {name: value for name, value in values.items() if value is not None}


def _variable(role: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in role.upper())


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of the environment. An empty variable counts as absent. Raises BadSettings."""
    environ = os.environ if environ is None else environ
    present = {name: value.strip() for name, value in environ.items() if value.strip()}
    values: dict[str, Any] = {n: present[n] for n in _names() if n in present}
    if "UCUTLASS_VAR" in values:
        values["UCUTLASS_VAR"] = ROOT / values["UCUTLASS_VAR"]
    values["roles"] = {n.removeprefix(FOR_ROLE): v for n, v in present.items() if n.startswith(FOR_ROLE)}
    try:
        return Settings.model_validate(values)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        name, message = first["loc"][0], first["msg"].removeprefix("Value error, ")
        value = "" if name in ("OPENAI_API_KEY", "OPENAI_BASE_URL") else f"={environ.get(str(name), '')!r}"
        raise BadSettings(f"{name}{value} is not valid: {message}.") from None


def _names() -> list[str]:
    return [f.alias for f in Settings.model_fields.values() if f.alias and f.alias != "roles"]


def rows() -> list[tuple[str, str, str]]:
    """(variable, default, what it does) of each setting of this module, for the table of the README."""
    described = [(f.alias, f.default, f.description) for f in Settings.model_fields.values() if f.description]
    listed = [(name, str(default) if isinstance(default, int) else "", text) for name, default, text in described]
    place = next(i for i, row in enumerate(listed) if row[0] == "UCUTLASS_MODEL") + 1
    role = (f"{FOR_ROLE}<ROLE>", "", "model of one role, for example `UCUTLASS_MODEL_TRIAGE`; empty: UCUTLASS_MODEL")
    return [*listed[:place], role, *listed[place:]]
