"""A trial without a profiler: the compiler's resources beside the times of the model of the GPU, labelled as such.

The web process loads this module, so it imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SOURCE = "no profiler: resources from the compiler, times from the model of the GPU"
FIELDS = ("name", "kind", "ms", "bound_by", "parts", "flops", "bytes", "note")  # of sol.model.prediction.StageTime
NO_TIME = "Trial {} has no time, so there is nothing to profile."
NO_STAGES = "- No stages are known of this trial."
NO_RESOURCES = "- No resources are known of this trial."
BOUND = {
    "tensor": "the matrix units", "vector": "the arithmetic pipes", "special": "the special function units",
    "memory": "memory bandwidth", "l2": "the L2 cache's bandwidth", "epilogue": "the epilogue", "launch": "the launch",
    "fill": "the start of its pipeline",
}  # as in static/js/format.js  # fmt: skip
LEAST = 0.0001  # ms; a shorter time is shown as less than this
SCALE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def facts(
    trial: int, cls: str, ms: float, kind: str, limit_ms: float | None, gap: float | None,
    stages: Iterable[Mapping[str, Any]], resources: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """What is known of a trial's time, for a model. `kind`: measured | predicted; `limit_ms`: t_sol of its class;
    `gap`: time over limit."""
    known: dict[str, Any] = {
        "source": SOURCE, "trial": trial, "class": cls, "ms": ms, "kind": kind, "limit_ms": limit_ms, "gap": gap,
        "stages": [{k: s[k] for k in FIELDS if k in s} for s in stages], "resources": [dict(r) for r in resources],
    }  # fmt: skip
    return {k: v for k, v in known.items() if v not in (None, [], "")}


def in_words(known: Mapping[str, Any]) -> str:
    """The facts as lines for a person."""
    head = f"Trial {known['trial']}, class {known['class']}: {known['kind']} {_ms(known['ms'])}"
    if known.get("gap"):  # of a guarded program, the limit of its products' class, which limit_ms is not
        head += f", {known['gap']:.2f} times the limit of {_ms(known['ms'] / known['gap'])}"
    stages = [f"- {stage_in_words(s)}" for s in known.get("stages", ())] or [NO_STAGES]
    resources = [_kernel(r) for r in known.get("resources", ())] or [NO_RESOURCES]
    lines = [f"{head}.", "", "By the model of the GPU:", *stages, "", "By the compiler:", *resources]
    return "\n".join(lines) + "\n"


def longest(stages: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The predicted stage whose own work takes longest. Launches do not count: the first stage of a run waits for its
    launch in full and the others hardly do, so that the launch says which stage is first, not which is slow."""

    def work(s: Mapping[str, Any]) -> float:
        return (s.get("ms") or 0.0) - ((s.get("parts") or {}).get("launch") or 0.0)

    return max(stages, key=work, default=None)


def stage_in_words(s: Mapping[str, Any]) -> str:
    """A predicted stage: its time, what binds it, its work, and its tiles and waves where it has any."""
    kind = f" ({s['kind']})" if s.get("kind") else ""
    details = [f"{_ms(s['ms'])}" if s.get("ms") is not None else "no time"]
    if s.get("bound_by"):
        details.append(f"bound by {BOUND.get(s['bound_by'], s['bound_by'])}")
    parts = sorted((s.get("parts") or {}).items(), key=lambda part: -part[1])
    if len(parts) > 1:
        details.append("of it " + " + ".join(f"{name} {_ms(ms)}" for name, ms in parts if ms))
    details += [f"{_scaled(s[name])}{unit}" for name, unit in (("flops", "FLOP"), ("bytes", "B")) if s.get(name)]
    return f"{s.get('name', 'stage')}{kind}: {'; '.join(details)}" + (f". {s['note']}" if s.get("note") else "")


def _kernel(r: Mapping[str, Any]) -> str:
    words = {
        "registers": "registers a thread", "shared_bytes": "bytes of shared memory",
        "instructions": "instructions in the machine code",
    }  # fmt: skip
    details = [f"{r[name]} {unit}" for name, unit in words.items() if r.get(name) is not None]
    if r.get("spill_bytes") is not None:
        details.append(f"{r['spill_bytes']} bytes spilled" if r["spill_bytes"] else "no spills")
    return f"- {r.get('stage') or r.get('kernel') or 'kernel'}: {', '.join(details) or 'no details'}"


def _ms(ms: float) -> str:
    return f"{ms:.4g} ms" if ms >= LEAST or not ms else f"under {LEAST} ms"


def _scaled(value: float) -> str:
    size, prefix = next(((size, p) for size, p in SCALE if value >= size), (1, ""))
    return f"{value / size:.3g} {prefix}"
