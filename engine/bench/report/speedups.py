"""The value of a bench's trials: over PyTorch's modes, against the limit, and whether they count at all.

A row is a problem of the results file (engine.bench.run.fold). Nothing here is measured. A speedup over one of
PyTorch's modes is a product of alternated ratios: of the trial over its own baseline, and of that baseline over the
mode.

A class's best may be a program of a finer class, because at least the same accuracy is allowed. So a tf32 program may
win an f16 entry, and a program with f32 products a tf32 entry. The class of a program is derived from its text
(engine.classes.class_of), never from its label.

A program that omits some of the module's work, by algebra, is compared with the limit of what it computes and shown
beside the best; as in a session, it is not the best itself.
"""

from __future__ import annotations

from math import exp, log

from engine.evaluate.integrity import trial as integrity
from engine.evaluate.integrity.clocks import TOO_FAST
from engine.session.verdict import limiting
from sol.budget import gap, score

NATIVE = "eager_tf32"  # alternated with every time in files without sessions
# The fineness of a class's products: at least as fine is allowed. The 8-bit classes allow everything.
FINENESS = {"f32": 0, "tf32": 1, "f16": 2, "bf16": 3, "fp8": 4, "i8": 4}
# PyTorch's modes and the class of each, in the order of the tables. `compile` is torch.compile with TF32 allowed.
BASELINES = {
    "eager": "f32", "eager_tf32": "tf32", "eager_f16": "f16", "eager_bf16": "bf16",
    "compile_f32": "f32", "compile_max_f32": "f32", "compile": "tf32", "compile_max": "tf32",
    "compile_f16": "f16", "compile_max_f16": "f16", "compile_bf16": "bf16", "compile_max_bf16": "bf16",
}  # fmt: skip
# PyTorch's eager mode in a class, or else with TF32 allowed. PyTorch has no fp8 mode.
EAGER_OF = {"f32": "eager", "f16": "eager_f16", "fp8": "eager_f16"}


def judge(row: dict) -> None:
    """Set each right trial's `over` (speedup by baseline) from the row and, if no session judged it, `gap`, `score` and
    `verdict`."""
    for t in tried(row):
        if not t["ok"] or "ms" not in t:
            continue
        t["over"] = {n: s for n in row["baselines"] if (s := speedup(row, t, n)) is not None}
        limit = t.get("limit_ms") or row["limits"].get(roof(t))
        if limit is None or "session" in row:
            continue
        t["gap"], t["score"] = gap(t["ms"], limit), score(t["ms"], limit, base_ms(row, t, t["class"]))
        if "checks" in t:
            evidence = [*t["checks"], integrity.of_limit(t["gap"], limit, TOO_FAST)]
            if t.get("derived"):
                evidence.append(integrity.of_precision(t["derived"], t["class"]))
            t["verdict"] = integrity.worst(evidence)
            if t["verdict"] not in ("clean", "minor"):
                t["message"] = next(c["said"] for c in evidence if c["verdict"] == t["verdict"])


def speedup(row: dict, trial: dict, name: str) -> float | None:
    """The speedup of a trial over one of PyTorch's modes; None if no alternation connects them."""
    ratio = row["baselines"].get(name, {}).get("ratio")
    own = row["baselines"].get(trial["baseline"], {}).get("ratio") if "baseline" in trial else 1.0
    return None if ratio is None or own is None else trial["ratio"] * ratio / own


def tried(row: dict) -> list[dict]:
    """The trials and, for a module in regions, the compositions of their best programs (in files without sessions)."""
    return [*row["trials"], *row.get("composed", {}).values()]


def roof(trial: dict) -> str:
    """The class whose limit applies to a trial. Guarded f16 is in class tf32, under the limit of f16."""
    return trial.get("roof") or limiting(trial.get("text", ""), trial["class"])


def base_ms(row: dict, trial: dict, cls: str) -> float:
    """The time of PyTorch's eager mode in the class, as timed beside this trial."""
    name = EAGER_OF.get(cls, NATIVE)
    name = name if "ratio" in row["baselines"].get(name, {}) else trial.get("baseline", NATIVE)
    return trial["ms"] * (speedup(row, trial, name) or trial["ratio"])


def counts(trial: dict) -> bool:
    """Return True if the trial is right, timed, and passed all checks."""
    return bool(trial["ok"]) and "ms" in trial and trial.get("verdict", "clean") in ("clean", "minor")


def best(row: dict, cls: str, algebraic: bool = False) -> dict | None:
    """The fastest trial that counts, under the class's tolerance or a finer one, with `gap` and `score` against the
    class's own limit (for a guarded one, the roof's), `by`: the class of its products, `guarded`, `number`: its place
    among the row's trials, from 1 (None for a composition), and `tripped`: the clause of its run about a tripped guard.
    `algebraic`: among the trials that omit work, instead of those that do all of it."""
    able = [t for t in tried(row) if counts(t) and bool(t.get("algebraic")) == algebraic]
    able = [t for t in able if t["class"] == cls or FINENESS[t["class"]] < FINENESS[cls]]
    fastest = min(able, key=lambda t: t["ms"], default=None)
    if fastest is None:
        return None
    guarded = roof(fastest) != fastest["class"]
    limit = (
        fastest.get("limit_ms")
        or row["limits"].get(roof(fastest) if guarded else cls)
        or row["limits"].get(fastest["class"], 0.0)
    )
    return fastest | {
        "gap": gap(fastest["ms"], limit), "score": score(fastest["ms"], limit, base_ms(row, fastest, cls)),
        "by": fastest.get("derived") or fastest["class"], "guarded": guarded,
        "number": next((n for n, t in enumerate(row["trials"], 1) if t is fastest), None),
        "tripped": integrity.tripped(fastest.get("checks", [])),
    }  # fmt: skip


def allowed(cls: str) -> tuple[str, ...]:
    """PyTorch's modes that are at least as accurate as the class."""
    return tuple(n for n, its in BASELINES.items() if FINENESS[its] <= FINENESS[cls])


def rival(row: dict, cls: str) -> tuple[str, float] | None:
    """PyTorch's best mode allowed in the class, with its time relative to the mode that all alternate with."""
    ratios = {n: row["baselines"][n]["ratio"] for n in allowed(cls) if "ratio" in row["baselines"].get(n, {})}
    return min(ratios.items(), key=lambda item: item[1], default=None)


def mean(values: list[float]) -> float:
    """The geometric mean; 0 for no values."""
    return exp(sum(map(log, values)) / len(values)) if values else 0.0
