"""What a bench's trials are worth: over PyTorch's ways, against the limit, and whether they count at all.

A row is a problem of the results file (engine.bench.run.fold). Nothing here is measured. A speedup over one of
PyTorch's ways is a product of ratios that come from alternation: of the trial over its own baseline, and of that
baseline over the way.

A class's best may be a program of a finer one: what is at least as accurate is allowed where the class is. So an f16
entry may be won by a tf32 program, and a tf32 entry by one whose products are in f32. The class of a program is read
off its text (engine.classes.class_of), never off its label.

A program that leaves out work that the module asks for, by algebra, is held to the limit of what it computes and shown
beside the best; as in a session, it is none itself.
"""

from __future__ import annotations

from math import exp, log

from engine.evaluate.integrity import trial as integrity
from engine.session.verdict import TOO_FAST, limiting
from sol.budget import gap, score

NATIVE = "eager_tf32"  # what every time alternates with in files without sessions
# How fine a class's products are: at least as fine is allowed. The 8-bit ones allow everything.
FINENESS = {"f32": 0, "tf32": 1, "f16": 2, "bf16": 3, "fp8": 4, "i8": 4}
# PyTorch's ways and the class of each, in the order of the tables. `compile` is torch.compile with TF32 allowed.
BASELINES = {
    "eager": "f32", "eager_tf32": "tf32", "eager_f16": "f16", "eager_bf16": "bf16",
    "compile_f32": "f32", "compile_max_f32": "f32", "compile": "tf32", "compile_max": "tf32",
    "compile_f16": "f16", "compile_max_f16": "f16", "compile_bf16": "bf16", "compile_max_bf16": "bf16",
}  # fmt: skip
# PyTorch's eager way in a class; else with TF32 allowed. It has no fp8 of its own.
EAGER_OF = {"f32": "eager", "f16": "eager_f16", "fp8": "eager_f16"}


def judge(row: dict) -> None:
    """Sets each right trial's `over` (speedup by baseline) from what the row holds; and where no session judged it,
    `gap`, `score` and `verdict`."""
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
    """Of a trial over one of PyTorch's ways; None where no alternation leads from the one to the other."""
    ratio = row["baselines"].get(name, {}).get("ratio")
    own = row["baselines"].get(trial["baseline"], {}).get("ratio") if "baseline" in trial else 1.0
    return None if ratio is None or own is None else trial["ratio"] * ratio / own


def tried(row: dict) -> list[dict]:
    """The trials, and of a module in regions the compositions of their best programs (in files without sessions)."""
    return [*row["trials"], *row.get("composed", {}).values()]


def roof(trial: dict) -> str:
    """The class whose limit a trial is held to: guarded f16 stands in tf32, under the roof of f16."""
    return trial.get("roof") or limiting(trial.get("text", ""), trial["class"])


def base_ms(row: dict, trial: dict, cls: str) -> float:
    """The time of PyTorch's eager way in the class, as it was beside this trial."""
    name = EAGER_OF.get(cls, NATIVE)
    name = name if "ratio" in row["baselines"].get(name, {}) else trial.get("baseline", NATIVE)
    return trial["ms"] * (speedup(row, trial, name) or trial["ratio"])


def counts(trial: dict) -> bool:
    """Whether it is right, timed, and no check speaks against it."""
    return bool(trial["ok"]) and "ms" in trial and trial.get("verdict", "clean") in ("clean", "minor")


def best(row: dict, cls: str, algebraic: bool = False) -> dict | None:
    """The fastest trial that counts and was held to the class's tolerance or a finer one, with `gap` and `score`
    against the class's own limit (of a guarded one the roof's), `by`: the class of its products, `guarded`, and
    `tripped`: what its run said where its guard tripped.
    `algebraic`: among those that leave out work, in the place of those that do it all."""
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
        "tripped": integrity.tripped(fastest.get("checks", [])),
    }  # fmt: skip


def allowed(cls: str) -> tuple[str, ...]:
    """PyTorch's ways that are at least as accurate as the class."""
    return tuple(n for n, its in BASELINES.items() if FINENESS[its] <= FINENESS[cls])


def rival(row: dict, cls: str) -> tuple[str, float] | None:
    """PyTorch's best way that is allowed in the class, with its time in units of the one that all alternate with."""
    ratios = {n: row["baselines"][n]["ratio"] for n in allowed(cls) if "ratio" in row["baselines"].get(n, {})}
    return min(ratios.items(), key=lambda item: item[1], default=None)


def mean(values: list[float]) -> float:
    """The geometric one; 0 of none."""
    return exp(sum(map(log, values)) / len(values)) if values else 0.0
