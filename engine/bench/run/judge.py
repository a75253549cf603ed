"""What a bench's trials are worth: over PyTorch's ways, against the limit, and whether they count at all.

A row is a problem of the results file (engine.bench.run.results_file). Nothing here is measured: baselines that come
later (a call with `--compile`) are set against the trials that are there.

A class's best may be a program of a finer one: what is at least as accurate is allowed where the class is. So an f16
entry may be won by a tf32 program, and a tf32 entry by one whose products are in f32. The class of a program is read
off its text (engine.classes.class_of), never off its label.

A program that leaves out work that the module asks for, by algebra, is held to the limit of what it computes and shown
beside the best; as in a session, it is none itself.
"""

from __future__ import annotations

from math import exp, log

from dsl.check.program import check
from engine.classes import class_of
from engine.evaluate.integrity import trial as integrity
from engine.session.trial import TOO_FAST, limiting
from sol.budget import Stop, gap, score, should_stop

NATIVE = "eager_tf32"  # what every time alternates with
# How fine a class's products are: at least as fine is allowed. The 8-bit ones allow everything.
FINENESS = {"f32": 0, "tf32": 1, "f16": 2, "bf16": 3, "fp8": 4, "i8": 4}
BASELINES = ("eager", "eager_tf32", "eager_f16", "compile", "compile_max")
# PyTorch's eager way in a class; else with TF32 allowed. It has no fp8 of its own.
EAGER_OF = {"f32": "eager", "f16": "eager_f16", "fp8": "eager_f16"}


def derived(text: str) -> str | None:
    """The class of a program's products; None of a text that does not pass its checks."""
    program = check(text).program
    return None if program is None else class_of(program)


def judge(row: dict) -> None:
    """Sets each right trial's `over` (speedup by baseline), `gap`, `score` and `verdict` from what the row holds."""
    for t in tried(row):
        if not t["ok"] or "ms" not in t:
            continue
        t["over"] = {n: b["ratio"] * t["ratio"] for n, b in row["baselines"].items() if "ratio" in b}
        limit = t.get("limit_ms") or row["limits"].get(roof(t))
        if limit is None:
            continue
        t["gap"], t["score"] = gap(t["ms"], limit), score(t["ms"], limit, base_ms(row, t, t["class"]))
        if "checks" in t:
            evidence = [*t["checks"], integrity.of_limit(t["gap"], limit, TOO_FAST)]
            if t.get("derived"):
                evidence.append(integrity.of_precision(t["derived"], t["class"]))
            t["verdict"] = integrity.worst(evidence)
            if t["verdict"] not in ("clean", "minor"):
                t["message"] = next(c["said"] for c in evidence if c["verdict"] == t["verdict"])


def tried(row: dict) -> list[dict]:
    """The trials, and of a module in regions the compositions of their best programs."""
    return [*row["trials"], *row.get("composed", {}).values()]


def roof(trial: dict) -> str:
    """The class whose limit a trial is held to: guarded f16 stands in tf32, under the roof of f16."""
    return trial.get("roof") or limiting(trial.get("text", ""), trial["class"])


def base_ms(row: dict, trial: dict, cls: str) -> float:
    """The time of PyTorch's eager way in the class, as it was beside this trial."""
    ratio = row["baselines"].get(EAGER_OF.get(cls, NATIVE), {}).get("ratio", 1.0)
    return trial["ms"] * trial["ratio"] * ratio


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
    found = min(able, key=lambda t: t["ms"], default=None)
    if found is None:
        return None
    guarded = roof(found) != found["class"]
    limit = (
        found.get("limit_ms")
        or row["limits"].get(roof(found) if guarded else cls)
        or row["limits"].get(found["class"], 0.0)
    )
    return found | {
        "gap": gap(found["ms"], limit), "score": score(found["ms"], limit, base_ms(row, found, cls)),
        "by": found.get("derived") or found["class"], "guarded": guarded,
        "tripped": integrity.tripped(found.get("checks", [])),
    }  # fmt: skip


def allowed(cls: str) -> tuple[str, ...]:
    """PyTorch's ways that are at least as accurate as the class."""
    if cls == "f32":
        return ("eager",)
    return tuple(n for n in BASELINES if n != "eager_f16" or FINENESS["f16"] <= FINENESS[cls])


def rival(row: dict, cls: str) -> tuple[str, float] | None:
    """PyTorch's best way that is allowed in the class, with its time in units of eager TF32's."""
    found = {n: row["baselines"][n]["ratio"] for n in allowed(cls) if "ratio" in row["baselines"].get(n, {})}
    return min(found.items(), key=lambda item: item[1], default=None)


def stopped(row: dict, cls: str, own: list[dict], eps: float, window: int) -> Stop | None:
    """Why a class's search may end (sol.budget), or None. `own`: its trials in order."""
    fastest, since, base, under = None, 0, None, cls
    for t in own:
        if counts(t) and not t.get("algebraic") and (fastest is None or t["ms"] < fastest):
            fastest, since, base, under = t["ms"], 0, base_ms(row, t, cls), roof(t)
        else:
            since += 1
    return should_stop(fastest, base, row["limits"].get(under, 0.0), since, eps, window)


def mean(values: list[float]) -> float:
    """The geometric one; 0 of none."""
    return exp(sum(map(log, values)) / len(values)) if values else 0.0
