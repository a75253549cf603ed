"""A bench's results for people: one line per problem for each class, geometric means, and the failures.

A problem without a right program counts as 1.0x of eager in every mean. The committed report
(engine.bench.report.bench_report) and its figures also use `lines` and `summary`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.report.speedups import EAGER_OF, NATIVE, allowed, best, counts, judge, mean, rival, roof, tried
from engine.suite.cases import order
from sol.budget import score

NAMES = {
    "eager": "eager as shipped", "eager_tf32": "eager TF32", "eager_f16": "autocast f16",
    "eager_bf16": "autocast bf16", "compile": "torch.compile", "compile_max": "torch.compile max-autotune",
    **{f"{way}_{cls}": f"{words} in {cls}" for cls in ("f32", "f16", "bf16")
       for way, words in (("compile", "torch.compile"), ("compile_max", "torch.compile max-autotune"))},
}  # fmt: skip
LOSING = 0.95  # of the best baseline's speed
TRIALS_AIM, SECONDS_AIM = 12.0, 60.0


@dataclass(frozen=True)
class Line:
    """One problem in one class. Times in ms; `over`: speedup by baseline, for a problem without a program eager's own
    share; `trial`: the best one that counts, or None with the reason in `why`."""

    module: str
    pid: str
    baselines: dict[str, float]
    over: dict[str, float]
    trial: dict | None
    why: str
    rival: str | None  # the fastest baseline allowed in the class
    against: float | None  # speedup over it; for a problem without a program, eager's own
    trials: int
    failed: int
    refuted: int  # right and timed, but a check failed
    seconds: float | None
    limit: float | None
    offer: dict | None  # the best program that omits work, if it is faster

    @property
    def verdict(self) -> str:
        return "no program" if self.trial is None else self.trial.get("verdict", "not looked at")


def line(module: str, row: dict, cls: str) -> Line:
    judge(row)
    b, trials = best(row, cls), [t for t in tried(row) if t["class"] == cls]
    ratios = {n: baseline["ratio"] for n, baseline in row["baselines"].items() if "ratio" in baseline}
    best_of, offer = rival(row, cls), best(row, cls, algebraic=True)
    over = dict(b["over"]) if b else {n: r / ratios.get("eager", 1.0) for n, r in ratios.items()}
    parts = f"cut into {len(row.get('regions', ()))} regions" if row.get("regions") and not trials else ""
    why = row["refused"] or parts or row.get("left_out", {}).get(cls) or (trials[-1].get("message") if trials else "")
    why = why or "; ".join(row.get("notes", ()))
    return Line(
        module, row["id"], {n: baseline["ms"] for n, baseline in row["baselines"].items() if "ms" in baseline}, over, b,
        "" if b else why.strip() or "not tried", best_of and best_of[0],
        over.get(best_of[0]) if best_of else None, len(trials), sum(not t["ok"] for t in trials),
        sum(t["ok"] and "ms" in t and not counts(t) for t in trials), seconds(row, cls), row["limits"].get(cls),
        offer if offer and (b is None or offer["ms"] < b["ms"]) else None,
    )  # fmt: skip


def lines(problems: dict[str, dict], cls: str) -> list[Line]:
    """In the set's order. A module in regions is one problem, by its composition as a whole."""
    table = [line(module, row, cls) for module, row in problems.items() if "#" not in module]
    return sorted(table, key=lambda x: ((0, *order(x.pid)) if "/" in x.pid else (1, 0, 0), x.module))


def unguarded(problems: dict[str, dict]) -> dict[str, dict]:
    """The same problems without all programs that have a guard."""

    def plain(t: dict) -> bool:
        return roof(t) == t["class"]

    return {
        module: row | {
            "trials": [t for t in row["trials"] if plain(t)],
            "composed": {k: t for k, t in row.get("composed", {}).items() if plain(t)},
        }
        for module, row in problems.items()
    }  # fmt: skip


def seconds(row: dict, cls: str) -> float | None:
    """The session's length for the class: until the search began, plus the trials of the class. In a file without
    sessions, the length with warm workers: tracing, planning, opening, every trial of the class on the GPU, and the
    slowest build of each wave, because a wave builds in parallel. None if it was not recorded."""
    spent, tried = row.get("spent"), [t for t in row["trials"] if t["class"] == cls]
    if "session" in row:
        ready = row["session"]["ready_s"]
        return None if ready is None or not tried else ready + sum(t["seconds"] for t in tried)
    if not spent or not tried:
        return None
    built: dict[int, float] = {}
    for t in tried:
        built[t.get("wave", 0)] = max(built.get(t.get("wave", 0), 0.0), t.get("build_seconds", 0.0))
    once = sum(spent.get(step, 0.0) for step in ("trace", "plan", "open", "baselines"))
    return once + sum(t.get("seconds", 0.0) for t in tried) + sum(built.values())


def summary(problems: dict[str, dict], cls: str) -> dict:
    """{problems, solved, over: {baseline: geomean over the problems whose baseline was timed}, of: {baseline: how many
    those are}, best: geomean over each problem's best baseline or None, slower: [lines below 0.95x of it, those without
    a program as eager], score, trials, seconds, verdicts, and lines that are guarded, finer than the class, or have an
    algebraic offer; with_algebraic: `over` if those counted}"""
    table = lines(problems, cls)
    timed = [n for n in allowed(cls) if any(n in x.over for x in table)]
    against = [x.against for x in table if x.against is not None]
    scores = [x.trial["score"] if x.trial else _score_of_eager(x, cls) for x in table]
    times = [x.seconds for x in table if x.seconds is not None]
    verdicts: dict[str, int] = {}
    for x in table:
        verdicts[x.verdict] = verdicts.get(x.verdict, 0) + 1
    right = [
        m for m, row in problems.items() if "#" not in m and any(t["class"] == cls and t["ok"] for t in tried(row))
    ]
    return {
        "problems": len(table), "solved": len(right),
        "over": {n: mean([x.over[n] for x in table if n in x.over]) for n in timed},
        "of": {n: sum(n in x.over for x in table) for n in timed},
        "best": mean(against) if against else None,
        "slower": [x for x in table if x.against is not None and x.against < LOSING],
        "score": sum(scores) / len(scores) if scores else 0.0,
        "trials": sum(x.trials for x in table) / len(table) if table else 0.0,
        "seconds": sum(times) / len(times) if times else None,
        "algebraic": [x for x in table if x.offer],
        "with_algebraic": {n: mean([(x.offer or x.trial or {}).get("over", x.over)[n] for x in table if n in x.over])
                           for n in timed},
        "finer": [x for x in table if x.trial and x.trial["by"] != cls],
        "guarded": [x for x in table if x.trial and x.trial["guarded"]], "verdicts": verdicts,
    }  # fmt: skip


def _score_of_eager(x: Line, cls: str) -> float:
    base = x.baselines.get(EAGER_OF.get(cls, NATIVE))
    if x.limit is None or base is None or "eager" not in x.baselines:
        return 0.5  # all that is known is that it is no faster than PyTorch
    return score(x.baselines["eager"], x.limit, base)


# ---- in a terminal ----

COLUMNS = (
    ("best ms", 9), ("eager", 9), ("TF32", 9), ("compile", 9), ("max", 9), ("x eager", 8), ("x TF32", 7), ("x comp", 7),
    ("x best", 7), ("gap", 6), ("SOL", 5), ("error", 8),
)  # fmt: skip


def table(problems: dict[str, dict], classes: tuple[str, ...]) -> str:
    """Every problem in the set's order, one table per class, and a summary."""
    blocks: list[str] = []
    for cls in classes:
        heads = " ".join(f"{h:>{w}}" for h, w in COLUMNS)
        blocks.append(f"\n{cls:7} {'problem':36} {heads} trials")
        blocks += [_line(x, problems[x.module], cls) for x in lines(problems, cls)]
        blocks += words(summary(problems, cls), cls)
    return "\n".join(blocks)


def part(s: dict, name: str) -> str:
    """If a baseline was not timed for every problem: the number of those timed."""
    return f" (of {s['of'][name]})" if s["of"][name] < s["problems"] else ""


def words(s: dict, cls: str) -> list[str]:
    """A summary as sentences."""
    over = ", ".join(f"{v:.2f}x {NAMES[n]}{part(s, n)}" for n, v in s["over"].items())
    if s["best"] is not None:
        over += f", {s['best']:.2f}x the best of these"
    took = "" if s["seconds"] is None else f", {s['seconds']:.0f} s a problem with warm workers"
    score = f"; mean SOL score {s['score']:.2f}" if over else ""
    sentences = [
        f"{cls}: {s['solved']} of {s['problems']} problems have a right program; geometric means: "
        f"{over or 'nothing was timed'}{score}; {s['trials']:.1f} trials a problem{took}"
    ]
    if s["slower"]:
        named = ", ".join(f"{x.module} ({x.against:.2f}{'' if x.trial else ', no program'})" for x in s["slower"])
        sentences.append(f"below {LOSING}x of the best baseline: {named}")
    if s["algebraic"]:
        named = ", ".join(f"{x.module} ({x.offer['ms']:.4f} ms: {x.offer['algebraic']})" for x in s["algebraic"])
        over = ", ".join(f"{v:.2f}x {NAMES[n]}" for n, v in s["with_algebraic"].items())
        sentences.append(
            f"algebraic, so not counted: {named}; counting {len(s['algebraic'])} of these it would be {over}"
        )
    if s["finer"]:
        named = ", ".join(f"{x.module} ({x.trial['by']})" for x in s["finer"])
        sentences.append(f"won by products of a finer class: {named}")
    if s["guarded"]:
        named = ", ".join(x.module for x in s["guarded"])
        sentences.append(f"won by f16 products with a guard that falls back to f32 outside of f16's range: {named}")
    if tripped := [x.module for x in s["guarded"] if x.trial.get("tripped")]:
        sentences.append(f"of those, timed in f32 on the CUDA cores since their guard tripped: {', '.join(tripped)}")
    if doubtful := {v: n for v, n in s["verdicts"].items() if v not in ("clean", "no program", "not looked at")}:
        sentences.append("verdicts that are not clean: " + ", ".join(f"{n} {v}" for v, n in doubtful.items()))
    return sentences


def _cell(value: float | None, form: str) -> str:
    """A number, or a dash for what was not timed."""
    return f"{value:{form}}" if value else f"{'-':>{form.partition('.')[0]}}"


def _line(x: Line, row: dict, cls: str) -> str:
    head = f"{x.pid:7} {x.module:36}"
    if x.trial is None:
        right = [t for t in tried(row) if t["class"] == cls and t["ok"] and "ms" not in t]
        if right:
            whole = f" as a whole, {right[-1]['change']}" if "programs" in right[-1] else ""
            return f"{head} right{whole}, error {min(t['error'] for t in right):.1e}; nothing was timed"
        return f"{head} no program: {x.why[:120]}"
    b, base = x.trial, x.baselines
    over = [x.over.get("eager"), x.over.get(NATIVE), x.over.get("compile"), x.against]
    values = [
        f"{b['ms']:9.4f}", *(_cell(base.get(n), "9.4f") for n in ("eager", NATIVE, "compile", "compile_max")),
        *(_cell(value, width) for value, width in zip(over, ("8.2f", "7.2f", "7.2f", "7.2f"), strict=True)),
        f"{b['gap']:6.2f}", f"{b['score']:5.2f}", f"{b['error']:8.1e}",
    ]  # fmt: skip
    notes = [f"{x.trials}", f"({x.failed} failed)" * bool(x.failed), f"({x.refuted} refuted)" * bool(x.refuted),
             b["change"] if "programs" in b else b["backend"], f"by {b['by']}" * (b["by"] != cls),
             "guarded f16" * b["guarded"],
             "that tripped: f32" * bool(b.get("tripped")),
             f"algebraic {x.offer['ms']:.4f}" if x.offer else "",
             x.verdict * (x.verdict not in ("clean", "not looked at"))]  # fmt: skip
    return f"{head} {' '.join(values)} {' '.join(n for n in notes if n)}"
