"""A bench's results for people: a line a problem for each class, geometric means, and what failed.

A problem without a right program counts as 1.0x of eager, in every mean.
"""

from __future__ import annotations

from math import exp, log

from engine.suite.cases import order

BASELINES = {
    "eager": "eager as shipped", "eager_tf32": "eager TF32", "eager_f16": "autocast f16", "compile": "torch.compile",
    "compile_max": "max-autotune",
}  # fmt: skip


def best(row: dict, cls: str) -> dict | None:
    """The fastest right trial of a class."""
    timed = [t for t in row["trials"] if t["class"] == cls and t["ok"] and "ms" in t]
    return min(timed, key=lambda t: t["ms"], default=None)


def rival(row: dict, cls: str) -> float | None:
    """The best time of PyTorch in the class, in units of eager TF32's: eager or compiled, autocast for half."""
    eager = ("eager_f16",) if cls == "f16" else ("eager", "eager_tf32")
    names = (*eager, "compile", "compile_max")
    found = [row["baselines"][n]["ratio"] for n in names if "ratio" in row["baselines"].get(n, {})]
    return min(found, default=None)


def mean(values: list[float]) -> float:
    """The geometric one; 0 of none."""
    return exp(sum(map(log, values)) / len(values)) if values else 0.0


def summary(problems: dict[str, dict], cls: str) -> dict:
    """{problems, solved, over: {baseline: geomean}, score, trials, slower: modules below 0.95x of the best baseline}"""
    rows = {m: (row, best(row, cls)) for m, row in problems.items()}
    names = [n for n in BASELINES if any("ratio" in row["baselines"].get(n, {}) for row, _ in rows.values())]
    over = {}
    for n in names:
        # Without a program of ours the module runs as eager ships it.
        found = [
            b["over"].get(n, 1.0) if b else row["baselines"].get(n, {}).get("ratio", 1.0) / _shipped(row)
            for row, b in rows.values()
        ]
        over[n] = mean(found)
    slower = [m for m, (row, b) in rows.items() if b and (rival(row, cls) or 1.0) * b["ratio"] < 0.95]
    tried = [sum(t["class"] == cls for t in row["trials"]) for row, _ in rows.values()]
    scores = [b["score"] if b else 0.5 for _, b in rows.values()]
    solved = [m for m, (row, _) in rows.items() if any(t["class"] == cls and t["ok"] for t in row["trials"])]
    return {
        "problems": len(rows), "solved": len(solved), "over": over, "slower": slower,
        "score": sum(scores) / len(scores) if scores else 0.0, "trials": sum(tried) / len(tried) if tried else 0.0,
    }  # fmt: skip


def _shipped(row: dict) -> float:
    return row["baselines"].get("eager", {}).get("ratio", 1.0)


def table(problems: dict[str, dict], classes: tuple[str, ...]) -> str:
    """Every problem in the set's order, a table a class, and what it comes to."""
    said: list[str] = []
    for cls in classes:
        heads = ("best ms", "eager", "TF32", "x eager", "x TF32", "x best", "gap", "SOL", "error")
        widths = (9, 9, 9, 8, 7, 7, 6, 5, 8)
        columns = " ".join(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True))
        said.append(f"\n{cls:7} {'problem':36} {columns} trials")
        for module, row in sorted(problems.items(), key=lambda item: _place(item[1]["id"])):
            said.append(_line(module, row, cls))
        s = summary(problems, cls)
        over = ", ".join(f"{v:.2f}x {BASELINES[n]}" for n, v in s["over"].items())
        solved = f"{s['solved']} of {s['problems']} problems have a right program"
        said.append(
            f"{cls}: {solved}; geometric means: {over or 'nothing was timed'}; mean SOL score {s['score']:.2f}; "
            f"{s['trials']:.1f} trials a problem"
        )
        if s["slower"]:
            said.append(f"below 0.95x of the best baseline: {', '.join(s['slower'])}")
    return "\n".join(said)


def _place(pid: str) -> tuple:
    return (0, *order(pid)) if "/" in pid else (1, 0, 0)


def _line(module: str, row: dict, cls: str) -> str:
    head = f"{row['id']:7} {module:36}"
    b, base = best(row, cls), row["baselines"]
    tried = [t for t in row["trials"] if t["class"] == cls]
    if b is None:
        why = row["refused"] or row.get("left_out", {}).get(cls) or (tried[-1].get("message") if tried else "not tried")
        right = [t for t in tried if t["ok"]]
        if right:
            return f"{head} right, error {min(t['error'] for t in right):.1e}; nothing was timed"
        return f"{head} no program: {(why or '').strip()[:120]}"
    ms = {n: base.get(n, {}).get("ms", float("nan")) for n in ("eager", "eager_tf32")}
    against = (rival(row, cls) or 1.0) * b["ratio"]
    failed = sum(not t["ok"] for t in tried)
    return (
        f"{head} {b['ms']:9.4f} {ms['eager']:9.4f} {ms['eager_tf32']:9.4f} {b['over'].get('eager', 0):8.2f} "
        f"{b['ratio']:7.2f} {against:7.2f} {b['gap']:6.2f} {b['score']:5.2f} {b['error']:8.1e} "
        f"{len(tried)}{f' ({failed} failed)' if failed else ''} {b['backend']}"
    )
