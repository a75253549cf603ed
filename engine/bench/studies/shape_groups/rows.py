"""The row of one problem: each shape's shares, their means over the tuned and the unseen shapes, and its table.

A kernel has two shares. Of the bandwidth's bound: the time in which the measured bandwidth moves its bytes, over its
own. Of the copy: the time of a plain copy of as many bytes, timed in the same run, over its own. The first cannot come
near 100% where a launch takes longer than the bytes (16 rows); the second can. Over torch.compile it has the ratio of
two times by one clock where that clock timed torch.compile too (`rivals`), else the one through eager PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.bench.studies.shape_groups.folds import mean
from engine.suite.shape_groups import Shape

ARMS = {"general": "one configuration for all shapes", "own": "one per shape", "direct": "direct rewriting"}


def words(shape: Shape) -> str:
    return "x".join(map(str, shape))


def with_shares(shape: dict[str, Any]) -> dict[str, Any]:
    """The row of one shape with `shares`: {arm: {bandwidth, copy}}, each None without a time."""
    copy_ms = (shape["copy"] or {}).get("ms")
    shares = {}
    for arm in ARMS:
        best = best_of(shape, arm)
        shares[arm] = {
            "bandwidth": best["bandwidth"] if best else None,
            "copy": copy_ms / best["ms"] if best and copy_ms else None,
        }
    return shape | {"shares": shares}


def best_of(shape: dict[str, Any], arm: str) -> dict[str, Any] | None:
    """The arm's time at a shape; None if it has none, or not yet."""
    if arm == "general":
        return shape["general"]
    return shape[arm]["best"] if shape[arm] else None


def compiled_of(shape: dict[str, Any], best: dict[str, Any]) -> float | None:
    """torch.compile's time over a kernel's."""
    rival_ms = (shape.get("rival") or {}).get("ms")
    return rival_ms / best["ms"] if rival_ms else best["compiled"]


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """By arm, over tuned and over unseen shapes, geometric means and the least: `bandwidth`, the share of the
    bandwidth's bound; `copy`, the share of the copy; `speedup` over PyTorch, and `compiled` over torch.compile.
    `whole`: the bounds of all shapes added up over their times added up, in which a shape counts by its time."""
    means: dict[str, Any] = {}
    for where in ("tuned", "unseen"):
        shapes = [s for s in row["shapes"] if s["tuned"] == (where == "tuned")]
        for arm in ARMS:
            timed = [(best, s) for s in shapes if (best := best_of(s, arm))]
            right = [(best, s["shares"][arm]) for best, s in timed]
            shares = {name: [s[name] for _, s in right if s[name]] for name in ("bandwidth", "copy")}
            compiled = [ratio for best, s in timed if (ratio := compiled_of(s, best))]
            means[f"{arm}_{where}"] = {
                "right": len(right), "of": len(shapes),
                "whole": sum(b["bandwidth"] * b["ms"] for b, _ in right) / sum(b["ms"] for b, _ in right)
                if right else None,
                "bandwidth": mean(shares["bandwidth"]), "least_bandwidth": min(shares["bandwidth"], default=None),
                "copy": mean(shares["copy"]), "least_copy": min(shares["copy"], default=None),
                "speedup": mean(b["speedup"] for b, _ in right), "compiled": mean(compiled),
            }  # fmt: skip
    return means


def lines(row: dict[str, Any]) -> Iterator[str]:
    """What a terminal shows of a row: its means, and below them its table."""
    name = f"{row['problem']} {row['cls']}"
    if row["why"]:
        yield f"{name}: {row['why']}"
    for arm, m in row.get("summary", {}).items():
        if not m["right"]:
            yield f"{name} {arm:15} nothing with a time at {m['of']} shapes"
            continue
        shares = f"{m['bandwidth']:.0%} of the bandwidth's bound (least {m['least_bandwidth']:.0%}"
        shares += f", {m['whole']:.0%} of all time)"
        if m["copy"]:
            shares += f", {m['copy']:.0%} of {_copy_of(row)} (least {m['least_copy']:.0%})"
        compiled = f", {m['compiled']:.2f}x torch.compile" if m["compiled"] else ""
        speedup = f"{m['speedup']:.2f}x PyTorch{compiled}"
        yield f"{name} {arm:15} {shares}, {speedup}; right at {m['right']} of {m['of']} shapes"
    if row["shapes"]:
        yield from table(row)


def table(row: dict[str, Any]) -> Iterator[str]:
    """Markdown: a line for each shape and arm."""
    shares = f"of the bandwidth's bound | of {_copy_of(row)}"
    yield f"| shape | kernel | ms | copy, ms | {shares} | over PyTorch | over torch.compile |"
    yield "|---|---|---|---|---|---|---|---|"
    for s in row["shapes"]:
        name = f"{words(s['shape'])}{'' if s['tuned'] else ', unseen'}"
        for arm, kernel in ARMS.items():
            best, share = best_of(s, arm), s["shares"][arm]
            cells = [name, kernel, _ms(best), _ms(s["copy"]), _percent(share["bandwidth"]), _percent(share["copy"])]
            cells += [_times(best and best["speedup"]), _times(best and compiled_of(s, best))]
            yield f"| {' | '.join(cells)} |"


def _copy_of(row: dict[str, Any]) -> str:
    kinds = {s["copy"]["kind"] for s in row["shapes"] if s["copy"] and s["copy"].get("ms")}
    return f"a {' or '.join(sorted(kinds)) or 'measured'} copy"


def _ms(timed: dict[str, Any] | None) -> str:
    return f"{timed['ms']:.4f}" if timed and timed.get("ms") else "-"


def _percent(share: float | None) -> str:
    return f"{share:.0%}" if share else "-"


def _times(ratio: float | None) -> str:
    return f"{ratio:.2f}x" if ratio else "-"


__all__ = ["ARMS", "best_of", "compiled_of", "lines", "summary", "table", "with_shares", "words"]
