"""Every setting of the environment, in one table.

`get(name)` is the only way to read a setting, and a test fails if the source names a setting that is not here, so the
table (`manage.py settings_table` prints it as Markdown) is always complete. The settings of models are read and
described by engine.llm.settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.llm import settings as models

ROOT = Path(__file__).resolve().parent.parent


class BadSetting(ValueError):
    """A setting in the environment is invalid; the message names it and a valid example."""


@dataclass(frozen=True)
class Setting:
    """One setting. `kind`: text | number | flag | list | path; `default` is in the form of the environment."""

    name: str
    kind: str
    default: str
    text: str


SETTINGS: tuple[Setting, ...] = (
    Setting("DATABASE_URL", "text", "", "`postgres://user:password@host:port/name`; empty: SQLite in UCUTLASS_VAR"),
    Setting("UCUTLASS_VAR", "path", "var", "folder of the database, the secret key and the collected static files"),
    Setting("UCUTLASS_SECRET_KEY", "text", "", "Django's secret key; empty: made once and kept in UCUTLASS_VAR"),
    Setting(
        "UCUTLASS_DEBUG", "flag", "0", "1: tracebacks in the browser and static files as they lie; never in public"
    ),
    Setting("UCUTLASS_HOSTS", "list", "localhost,127.0.0.1,[::1]", "host names under which the page may be opened"),
    Setting("UCUTLASS_TRUST_PROXY", "flag", "0", "1: a reverse proxy sets X-Forwarded-For and X-Forwarded-Proto"),
    Setting("UCUTLASS_SOURCE_KIB", "number", "64", "largest module or program that is accepted, in KiB"),
    Setting("UCUTLASS_SESSIONS_PER_HOUR", "number", "120", "sessions that one address may start in an hour"),
    Setting("UCUTLASS_CHECKS_PER_MINUTE", "number", "600", "checks and compilations that one address may ask a minute"),
    Setting("UCUTLASS_GUESSES", "number", "30", "wrong links that one address may open; then one in ten seconds"),
    Setting("UCUTLASS_QUEUE", "number", "100", "sessions that may wait at once; beyond it a new one is refused"),
    Setting("UCUTLASS_QUEUE_PER_ADDRESS", "number", "20", "how many of those may be of one address; never all of them"),
    Setting("UCUTLASS_ROOM_SEATS", "number", "120", "seats that a workshop's room may have"),
    Setting("UCUTLASS_SEAT_SESSIONS_PER_HOUR", "number", "30", "sessions that one seat of a room may start in an hour"),
    Setting("UCUTLASS_MAX_TRIALS", "number", "400", "largest budget of trials that a session may ask for"),
    Setting(
        "UCUTLASS_AGENT_IDLE_MINUTES",
        "number",
        "60",
        "minutes without a candidate after which a session of the strategy agent ends",
    ),
    Setting(
        "UCUTLASS_RETENTION_DAYS",
        "number",
        "30",
        "days that an ended session is kept; pinned ones, snapshots and recordings stay",
    ),
    Setting("UCUTLASS_LESSONS", "text", "", "folder of your own lessons (`NAME.md`), listed on `/learn` beside ours"),
    Setting("UCUTLASS_DEVICE", "text", "auto", "what the engine runs on: auto, cuda, or modelled:h200"),
    Setting(
        "UCUTLASS_SESSIONS",
        "number",
        "64",
        "sessions that an engine advances at once, as memory allows",
    ),
    Setting("UCUTLASS_MEMORY_GIB", "text", "", "memory of an engine's processes in GiB; empty: half the machine's"),
    Setting("UCUTLASS_CACHE", "text", "", "folder of built kernels; empty: `ucutlass` in the user's folder for caches"),
    Setting("UCUTLASS_COMPILERS", "text", "", "none: a modelled engine generates and checks, and compiles nothing"),
    Setting("UCUTLASS_FORKS", "text", "", "none: each process that builds or runs programs imports CuTe DSL itself"),
    Setting("UCUTLASS_LEASE_SECONDS", "number", "15", "silence after which a session is taken from a lost engine"),
    Setting("UCUTLASS_SECONDS", "text", "120", 'seconds that `torch.compile(backend="ucutlass")` takes for a graph'),
    *(Setting(name, "text", default, text) for name, default, text in models.rows()),
)

_BY_NAME = {s.name: s for s in SETTINGS}


def get(name: str, environ: Mapping[str, str] | None = None) -> Any:
    """The value of a setting: str, int, bool, list[str] or Path by its kind.

    An empty value counts as absent. Raises KeyError for a name that is not in the table, BadSetting for a value that
    does not fit its kind.
    """
    setting = _BY_NAME[name]
    environ = os.environ if environ is None else environ
    raw = environ.get(name, "").strip() or setting.default
    match setting.kind:
        case "number":
            if not raw.isdecimal() or int(raw) < 1:
                raise BadSetting(f"{name}={raw!r} is not a whole number from 1. Write for example {setting.default}.")
            return int(raw)
        case "flag":
            if raw not in ("0", "1"):
                raise BadSetting(f"{name}={raw!r} is neither 0 nor 1.")
            return raw == "1"
        case "list":
            return [part.strip() for part in raw.split(",") if part.strip()]
        case "path":
            return ROOT / raw
    return raw


def table() -> str:
    """The settings as a Markdown table."""
    rows = [f"| `{s.name}` | {f'`{s.default}`' if s.default else ''} | {s.text} |" for s in SETTINGS]
    return "\n".join(["| setting | default | what it does |", "|---|---|---|", *rows])
