"""The suite's results for people: one line per result, and a table at the end."""

from __future__ import annotations

from math import exp, log

from engine.suite.cases import order

HEAD = f"{'problem':7} {'program':38} {'back end':8} {'class':5} {'error':>8} {'ms':>9} {'eager':>9} {'ratio':>6}"


def line(row: dict) -> str:
    """One result on one line, with the reason of a failure."""
    name = f"{row['id']:7} {row['program']:38} {row['backend']:8} {row.get('class', ''):5}"
    if not row["ok"]:
        return f"{name} {row['failed']}: {row['message'].strip().splitlines()[0][:150] if row['message'] else ''}"
    if "ms" not in row:
        return f"{name} {row['error']:8.1e}"
    return f"{name} {row['error']:8.1e} {row['ms']:9.4f} {row['eager_ms']:9.4f} {row['ratio']:6.2f}"


def table(rows: list[dict]) -> str:
    """Every row in the suite's order, then a summary: the best time of each problem, and the failures."""
    rows = sorted(rows, key=lambda r: (order(r["id"]), r["program"], r["backend"]))
    return "\n".join([HEAD, *map(line, rows), "", *summary(rows)])


def summary(rows: list[dict]) -> list[str]:
    """A summary of the rows, one line each: how many are right, the best time of each problem, how back ends agree."""
    good = [r for r in rows if r["ok"]]
    problems, solved = {r["problem"] for r in rows}, {r["problem"] for r in good}
    sentences = [
        f"{len(solved)} of {len(problems)} problems have a program that is right; {len(good)} of {len(rows)} runs are"
    ]
    best: dict[str, float] = {}
    for r in good:
        if "ratio" in r:
            best[r["problem"]] = max(best.get(r["problem"], 0.0), r["ratio"])
    if best:
        mean = exp(sum(map(log, best.values())) / len(best))
        faster = sum(x > 1 for x in best.values())
        sentences.append(
            f"best against eager TF32: geometric mean {mean:.2f}, faster in {faster} of {len(best)} problems"
        )
    both = [r["agrees"]["error"] for r in good if r.get("agrees")]
    if both:
        sentences.append(f"both back ends ran {len(both)} programs; their results differ by {max(both):.1e} at most")
    return sentences
