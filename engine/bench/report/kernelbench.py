"""A report of a bench over KernelBench's levels: speedups, fast-p, refusals, the problems farthest from their limit.

    python -m engine.bench.report.kernelbench results.json [--class tf32] [--out PREFIX]

It prints the report, and writes PREFIX.md and PREFIX.json (default: the name of the results with `.report`). Nothing is
measured here. Each speedup is a product of alternated ratios (engine.bench.report.speedups).

`ours` is the fastest right program that passed every check. A problem without one counts as eager PyTorch as shipped.
`result` is the faster of ours and the fastest of PyTorch's ways that the class allows and that was timed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from engine import atomic_write
from engine.bench.report import kernelbench_words as words
from engine.bench.report.speedups import mean
from engine.bench.report.table import Line, line
from engine.bench.run import shards
from engine.suite.folder import natural, unquoted

OVER = ("eager", "eager_tf32", "compile", "compile_f32")  # the baselines of the tables
FAST = (0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)  # p of fast-p: the share of problems that are more than p times as fast
NO_SLOWER = 0.97  # of the speed of the fastest of PyTorch's ways
WORST = 20
# Ids of problems whose results hardly depend on their work: 80 subtracts from each element a mean of itself alone.
DEGENERATE = ("L2/80", "L2/24")
LEVELS = {"L1": "level 1", "L2": "level 2", "L3": "level 3", "L4": "level 4"}
OURS, ITSELF, REFUSED = "ours", "pytorch", "refused"  # kinds of problems


@dataclass(frozen=True)
class Case:
    """One problem. `kind`: OURS (a right program counts), ITSELF (none does, PyTorch is the result) or REFUSED; `over`:
    speedup by baseline, of PyTorch as shipped where no program counts; `best`: PyTorch's fastest way, and `against`:
    the speedup over it; `ms`: ours, or PyTorch's fastest; `gap`: `ms` over the limit; `stays`: operations that stay
    PyTorch; `seconds`: of the session, `first`: until the first trial was judged; `not_timed`: baselines."""

    name: str
    level: str
    kind: str
    degenerate: bool
    over: dict[str, float]
    best: str | None
    against: float | None
    ms: float | None
    gap: float | None
    stays: dict[str, int]
    seconds: float
    first: float | None
    cause: str
    not_timed: list[str]

    def result(self, name: str) -> float | None:
        """The speedup of the result over a baseline."""
        over = self.over.get(name)
        if over is None or self.against is None:
            return over
        return over / min(1.0, self.against)


def case(name: str, row: dict[str, Any], cls: str, degenerate: Sequence[str] = DEGENERATE) -> Case:
    """A row of the results. `degenerate`: ids."""
    its, session = line(name, row, cls), row["session"]
    kind = OURS if its.trial else REFUSED if row["refused"] else ITSELF
    limit = row["limits"].get(cls)
    ms, gap = (its.trial["ms"], its.trial["gap"]) if its.trial else _pytorchs(its, limit)
    return Case(
        name, LEVELS.get(its.pid[:2], "other"), kind, its.pid in degenerate, its.over, its.rival, its.against, ms, gap,
        dict(Counter(u["op"] for u in row.get("uncovered", ())).most_common()), session["seconds"], _first(row),
        "" if its.trial else _cause(row, its), sorted(row.get("not_timed", ())),
    )  # fmt: skip


def _pytorchs(its: Line, limit: float | None) -> tuple[float | None, float | None]:
    ms = its.baselines.get(its.rival) if its.rival else None
    return ms, ms / limit if ms and limit else None


def _first(row: dict[str, Any]) -> float | None:
    """Seconds from the session's start to the end of the first trial that gave a time."""
    seconds = row["session"]["ready_s"] or 0.0
    for t in row["trials"]:
        seconds += t["seconds"]
        if t["ok"] and "ms" in t:
            return seconds
    return None


def _cause(row: dict[str, Any], its: Line) -> str:
    """Why no program of ours counts."""
    if row["refused"]:
        return f"{row['session']['code']}: {unquoted(row['refused']).partition('. ')[0]}"
    failed = Counter(t.get("failed") or t.get("verdict") or "wrong" for t in row["trials"])
    if failed:
        return "no trial was right: " + ", ".join(f"{n} {code}" for code, n in failed.most_common())
    return f"no program covers it: {', '.join(dict.fromkeys(u['op'] for u in row.get('uncovered', ())))}".rstrip(": ")


def groups(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """By level, and all."""
    by: dict[str, list[Case]] = {}
    for one in sorted(cases, key=lambda c: c.level):
        by.setdefault(one.level, []).append(one)
    return by | ({"all": list(cases)} if len(by) > 1 else {})


def variants(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """The sets of rows of which means are taken."""
    plain = [c for c in cases if not c.degenerate]
    return {
        "every problem": list(cases),
        "without PyTorch itself": [c for c in cases if c.kind == OURS],
        "without degenerate": plain,
        "without both": [c for c in plain if c.kind == OURS],
    }


def means(cases: Sequence[Case], result: bool) -> dict[str, dict[str, Any]]:
    """baseline -> {mean, of}: the geometric mean over the problems whose baseline was timed, and how many those are;
    `best`: over the fastest of PyTorch's ways. `result`: of the result, else of ours."""
    table = {}
    for name in OVER:
        values = [v for c in cases if (v := c.result(name) if result else c.over.get(name)) is not None]
        table[name] = {"mean": mean(values), "of": len(values)}
    against = [max(1.0, c.against) if result else c.against for c in cases if c.against is not None]
    return table | {"best": {"mean": mean(against), "of": len(against)}}


def fast(cases: Sequence[Case], value: Callable[[Case], float | None]) -> list[float]:
    """For each p of FAST, the share of all problems whose speedup is more than p. One without a time is not."""
    values = [value(c) for c in cases]
    return [round(sum(v is not None and v > p for v in values) / len(cases), 4) if cases else 0.0 for p in FAST]


def no_slower(cases: Sequence[Case], result: bool) -> dict[str, Any]:
    """{share, of}: of the problems where PyTorch was timed, those at least NO_SLOWER times as fast as its fastest
    way."""
    values = [max(1.0, c.against) if result else c.against for c in cases if c.against is not None]
    return {"share": round(sum(v >= NO_SLOWER for v in values) / len(values), 4) if values else None, "of": len(values)}


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """The figures of one level, or of all."""
    seconds, first = [c.seconds for c in cases], [c.first for c in cases if c.first is not None]
    return {
        "problems": len(cases), **{kind: sum(c.kind == kind for c in cases) for kind in (OURS, ITSELF, REFUSED)},
        "degenerate": [c.name for c in cases if c.degenerate],
        "slower_than_pytorch": sum(c.kind == OURS and c.against is not None and c.against < 1.0 for c in cases),
        "causes": _causes(c for c in cases if c.kind == REFUSED),
        "itself": _causes(c for c in cases if c.kind == ITSELF),
        "not_timed": dict(Counter(name for c in cases for name in c.not_timed)),
        "means": {
            what: {who: means(some, who == "result") for who in ("ours", "result")}
            for what, some in variants(cases).items()
        },
        "no_slower": {who: no_slower(cases, who == "result") for who in ("ours", "result")},
        "fast": {
            name: {
                "timed": sum(name in c.over for c in cases),
                "ours": fast(cases, _ours(name)), "result": fast(cases, _result(name)),
            }
            for name in OVER
        },
        "seconds": median(seconds) if seconds else None, "first": median(first) if first else None,
    }  # fmt: skip


def _ours(name: str) -> Callable[[Case], float | None]:
    """A problem without a program of ours is not solved by us."""
    return lambda c: c.over.get(name) if c.kind == OURS else None


def _result(name: str) -> Callable[[Case], float | None]:
    return lambda c: c.result(name)


def _causes(cases: Iterable[Case]) -> dict[str, list[str]]:
    """Cause -> the problems, the most frequent first."""
    by: dict[str, list[str]] = {}
    for one in cases:
        by.setdefault(one.cause, []).append(one.name)
    return dict(sorted(by.items(), key=lambda item: -len(item[1])))


def report(results: dict[str, Any], cls: str, degenerate: Sequence[str] = DEGENERATE) -> dict[str, Any]:
    """{about, class, fast, levels: {level: summary}, worst, rows} of a results file (engine.bench.run.results_file)."""
    problems = results["problems"]
    cases = [case(name, problems[name], cls, degenerate) for name in sorted(problems, key=natural)]
    far = sorted((c for c in cases if c.gap is not None), key=lambda c: -c.gap)
    return {
        "about": results["about"], "class": cls, "fast": FAST,
        "levels": {name: summary(some) for name, some in groups(cases).items()},
        "worst": [asdict(c) for c in far[:WORST]], "rows": [asdict(c) for c in cases],
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.report.kernelbench", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("results", type=Path, help="of python -m engine bench FOLDER --json")
    parser.add_argument("--class", dest="cls", metavar="CLASS", help="precision class (default: the sessions' first)")
    what = "ids of degenerate problems (default %(default)s)"
    parser.add_argument("--degenerate", default=",".join(DEGENERATE), metavar="ID,..", help=what)
    parser.add_argument("--out", type=Path, metavar="PREFIX", help="write PREFIX.md and PREFIX.json")
    args = parser.parse_args(argv)
    try:
        results = shards.read(args.results)
    except shards.BadResults as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    if not results["problems"]:
        print(f"error: {args.results} has no finished session yet", file=sys.stderr)
        return 2
    cls = args.cls or results["about"]["sessions"]["classes"][0]
    contents = report(results, cls, tuple(args.degenerate.split(",")))
    text = words.markdown(contents)
    print(text)
    prefix = args.out or args.results.with_name(args.results.name.removesuffix(".json") + ".report")
    prefix.with_name(prefix.name + ".md").write_text(text + "\n", encoding="utf-8")
    atomic_write.write_results(prefix.with_name(prefix.name + ".json"), json.loads(json.dumps(contents)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
