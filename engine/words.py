"""Words for people: `eager_f16` of the code is "PyTorch eager (float16)", and one trial is not "1 trials".

The page uses the same words (static/js/format.js).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_CLASSES = {"f32": "float32", "tf32": "TF32", "f16": "float16", "bf16": "bfloat16", "fp8": "FP8", "f64": "float64"}
_BASELINES = {"eager": "PyTorch eager", "compile": "torch.compile"}


def class_name(cls: str) -> str:
    """A precision class: f16 -> float16."""
    return _CLASSES.get(cls, cls)


def baseline_name(name: str) -> str:
    """A baseline of the log: eager_tf32 -> PyTorch eager (TF32)."""
    base, _, cls = name.partition("_")
    words = _BASELINES.get(base, base)
    return f"{words} ({class_name(cls)})" if cls else words


def device_name(device: Mapping[str, Any]) -> str:
    """A device as it describes itself in a session's log; "" before the session began."""
    return str(device.get("title") or device.get("gpu") or device.get("name") or "")


def family_name(family: str) -> str:
    """A family of inputs (engine.evaluate.correctness.inputs): own -> the module's own."""
    return {"own": "the module's own"}.get(family, family.replace("_", "-"))


def count(n: int, word: str) -> str:
    """1 trial, 7 trials."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def all_of(n: int, word: str, done: str = "used") -> str:
    """The 1 round was used. | All of the 4 rounds were used."""
    return f"The {count(n, word)} was {done}." if n == 1 else f"All of the {count(n, word)} were {done}."


def with_covered(reason: str, covered: Iterable[tuple[str, str]]) -> str:
    """Why a module is refused, with what a module may hold, [(kind, names)]. A page shows the two separately."""
    listed = "; ".join(f"{kind} ({names})" if names else kind for kind, names in covered)
    return f"{reason.rstrip('.')}; covered are: {listed}" if listed else reason
