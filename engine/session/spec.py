"""What a session is asked to do: the fields a person fills in, checked before anything runs.

Plain data with a JSON form and no heavy import, so that the web process may hold it too.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

UNTITLED = "A PyTorch module"  # until the module is traced: then the session is called by what it computes
CLASSES = ("f32", "tf32", "f16", "bf16", "fp8")
SOURCE_KINDS = ("module", "program")
MAX_SOURCE = 200_000  # characters: the largest KernelBench module has 12,000
MAX_TRIALS = 1000
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
STRATEGIES = ("planner",)
ARCH = "sm_90a"  # that programs are written for: no other chip's time may be predicted for them


class BadSpec(ValueError):
    """One field of a spec is wrong: `field`, and a message that says what is allowed."""

    def __init__(self, field: str, message: str):
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


@dataclass(frozen=True)
class SessionSpec:
    """`device`: cuda | modelled:<hardware file>; `eps`, `window`: the stop rule of sol.budget; `compile`: when the
    search is over, time torch.compile too (minutes, once a module); `algebraic`: whether a program that leaves out work
    which the module asks for (engine.strategies.planner.search.algebra) may be the best. Raises BadSpec."""

    title: str
    source: str
    source_kind: str = "module"
    device: str = "modelled:h200"
    strategy: str = "planner"
    classes: tuple[str, ...] = ("tf32", "f16")
    trials: int = 12
    eps: float = 0.25
    window: int = 6
    seed: int = 0
    compile: bool = False
    algebraic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes) if isinstance(self.classes, list) else self.classes)
        if not isinstance(self.source, str) or not self.source.strip():
            raise BadSpec("source", "paste a PyTorch module or a μCUTLASS program")
        if len(self.source) > MAX_SOURCE:
            raise BadSpec("source", f"{len(self.source):,} characters; at most {MAX_SOURCE:,} are taken")
        if not isinstance(self.title, str) or len(self.title) > 200 or _CONTROL.search(self.title):
            raise BadSpec("title", "a text of at most 200 characters, on one line and without control characters")
        _one_of("source_kind", self.source_kind, SOURCE_KINDS)
        if wrong := device_error(self.device):
            raise BadSpec("device", wrong)
        _one_of("strategy", self.strategy, STRATEGIES)
        if not isinstance(self.classes, tuple) or not self.classes:
            raise BadSpec("classes", f"at least one of {', '.join(CLASSES)}")
        for c in self.classes:
            _one_of("classes", c, CLASSES)
        if len(set(self.classes)) != len(self.classes):
            raise BadSpec("classes", "each class once")
        _whole("trials", self.trials, 1, MAX_TRIALS)
        _whole("window", self.window, 1, MAX_TRIALS)
        _whole("seed", self.seed, 0, 2**63 - 1)
        for name in ("compile", "algebraic"):
            if not isinstance(getattr(self, name), bool):
                raise BadSpec(name, "true or false")
        if isinstance(self.eps, bool) or not isinstance(self.eps, int | float) or not 0 <= self.eps <= 100:
            raise BadSpec("eps", "a number from 0 to 100; 0.25 stops within 25% of the limit")

    @property
    def budget(self) -> dict[str, Any]:
        return {"trials": self.trials, "eps": self.eps, "window": self.window}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | dict[str, Any]) -> SessionSpec:
        """Raises BadSpec on text that is no object, an unknown field, or a bad value."""
        try:
            raw = json.loads(text) if isinstance(text, str) else dict(text)
        except (TypeError, ValueError) as e:
            raise BadSpec("spec", f"not JSON: {e}") from None
        if not isinstance(raw, dict):
            raise BadSpec("spec", "a JSON object with the fields of a session")
        known = [f.name for f in fields(SessionSpec)]
        for name in raw:
            if name not in known:
                raise BadSpec(str(name)[:40], f"no such field; the fields are {', '.join(known)}")
        for name in ("title", "source"):
            if name not in raw:
                raise BadSpec(name, "is missing")
        return SessionSpec(**raw)


def _one_of(field: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BadSpec(field, f"{short(value)} is not one of {', '.join(allowed)}")


def device_error(name: Any) -> str | None:
    """Why this names no device, with those there are; None for one. Whether there is a GPU is the engine's to say."""
    from sol.hardware import available, load  # here, so that reading a recording loads no room but this one

    if name == "cuda":
        return None
    known = {f"modelled:{m}": load(m) for m in available()}
    found = known.get(name) if isinstance(name, str) else None
    if found is not None and found.arch == ARCH:
        return None
    why = f"is {found.title}, which cannot run what is written for {ARCH}" if found else "is not a device"
    models = ", ".join(n for n, hardware in known.items() if hardware.arch == ARCH)
    return f"{short(name)} {why}; write cuda, or for a prediction one of {models}"


def short(value: Any, most: int = 40) -> str:
    """A value for a message, however long a person made it."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _whole(field: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadSpec(field, f"a whole number from {low} to {high}")
