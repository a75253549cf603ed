"""How well the attainable model predicts a recorded sweep: whether it finds the fast configurations, and its error.

A sweep is JSON with products and, for each, configurations that a GPU ran (`judge` reads it). The model ranks each
problem's configurations without their measured times, as it does for steering. Two numbers score it:

    hit       one of the model's first `top` is within `within` of the best that was measured
    error     |predicted / measured - 1|, its median over all configurations

Problems marked `held_out` had no part in fitting the model's constants; a row of the report counts them alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dsl.check.program import check
from dsl.resolve import resolve
from sol.attainable import predict
from sol.hardware import Hardware

TOP, WITHIN, LEAST = 4, 0.05, 24


@dataclass(frozen=True)
class Run:
    """One configuration: its clauses as the language writes them, measured and predicted ms of the whole program."""

    config: str
    ms: float
    predicted_ms: float

    @property
    def error(self) -> float:
        return self.predicted_ms / self.ms - 1


@dataclass(frozen=True)
class Judged:
    """One problem of a sweep. `runs` by predicted time; `torch_ms`: the time of PyTorch's product, or None."""

    id: str
    runs: tuple[Run, ...]
    held_out: bool = False
    torch_ms: float | None = None
    top: int = TOP

    @property
    def best_ms(self) -> float:
        return min(r.ms for r in self.runs)

    @property
    def regret(self) -> float:
        """The best of the model's first `top` over the best of all, minus 1: 0 is perfect."""
        return min(r.ms for r in self.runs[: self.top]) / self.best_ms - 1

    @property
    def error(self) -> float:
        """Median over the configurations of the absolute relative error."""
        return median(abs(r.error) for r in self.runs)

    @property
    def bias(self) -> float:
        """Median over the configurations of the signed relative error: above 0 the model predicts too long a time."""
        return median(r.error for r in self.runs)

    @property
    def rank_of_best(self) -> int:
        """The position of the measured best in the model's order, from 1."""
        return 1 + min(range(len(self.runs)), key=lambda i: self.runs[i].ms)


@dataclass(frozen=True)
class Total:
    """Scores over the problems with at least `LEAST` configurations."""

    problems: int
    configurations: int
    hits: float  # share of the problems
    error: float  # median over all configurations
    best_error: float  # median over each problem's measured best
    worst_regret: float


def judge(text: str, hw: Hardware, *, top: int = TOP) -> list[Judged]:
    """Every problem of a sweep under the model. Raises ValueError that names the problem when the text is no sweep."""
    try:
        raw = json.loads(text)
        problems = raw["problems"]
    except (json.JSONDecodeError, KeyError, TypeError) as e:
        raise ValueError(f"not a sweep: {e}") from None
    return [_judge(p, hw, top) for p in problems]


def program_text(problem: dict[str, Any], config: str) -> str:
    """A problem's program with one configuration written into it."""
    return problem["program"].replace("backend cute", f"backend cute {config}", 1)


def _judge(problem: dict[str, Any], hw: Hardware, top: int) -> Judged:
    runs = []
    try:
        for row in problem["configs"]:
            if row.get("ms") is None:
                continue  # it did not run; the row has the reason
            checked = check(program_text(problem, row["config"]))
            if not checked.ok:
                raise ValueError(f"{row['config']}: {checked.diagnostics[0].message}")
            ms = predict(resolve(checked.program, hw.sms), hw).ms
            runs.append(Run(row["config"], float(row["ms"]), ms))
        if not runs:
            raise ValueError("nothing was measured")
        runs.sort(key=lambda r: r.predicted_ms)
        return Judged(problem["id"], tuple(runs), bool(problem.get("held_out")), problem.get("torch_ms"), top)
    except (KeyError, TypeError, ValueError) as e:
        raise ValueError(f"problem {problem.get('id', '?')} of the sweep: {e}") from None


def total(judged: Sequence[Judged], within: float = WITHIN) -> Total:
    """Raises ValueError when no problem has `LEAST` configurations."""
    counted = [j for j in judged if len(j.runs) >= LEAST]
    if not counted:
        raise ValueError(f"no problem has {LEAST} measured configurations")
    runs = [r for j in counted for r in j.runs]
    return Total(
        len(counted),
        len(runs),
        sum(j.regret <= within for j in counted) / len(counted),
        median(abs(r.error) for r in runs),
        median(min(abs(r.error) for r in j.runs if r.ms == j.best_ms) for j in counted),
        max(j.regret for j in counted),
    )


def document(text: str, hw: Hardware, *, top: int = TOP) -> str:
    """The report, below the provenance that the sweep states: gpu, driver, date, recorded, method."""
    judged, raw = judge(text, hw, top=top), json.loads(text)
    lines = ["# The attainable model against configurations that a GPU really ran", ""]
    if "gpu" in raw:
        lines += [f"{raw['gpu']}, driver {raw['driver']}, {raw['date']}; torch {raw['toolchain']['torch']}."]
    lines += [f"{raw[key]}." for key in ("recorded", "method") if key in raw]
    lines += [
        "",
        "The model (`sol/model/tiles.py`) predicts the time of each program; the table compares it with the measured "
        f"time. For each problem it shows the best of the model's first {top} beside the best of all. Held out: not "
        "used to fit the model's constants. Bias below zero: the model predicts too short a time.",
        "",
    ]
    return "\n".join(lines) + "\n" + markdown(judged)


def markdown(judged: Sequence[Judged], within: float = WITHIN) -> str:
    """The report: totals (all, fitted on, held out), then one line per problem."""
    top = judged[0].top if judged else TOP
    lines = [
        f"| problems | configurations | one of the first {top} is within {within:.0%} of the best | median error "
        "| of the best ones | worst regret |",
        "|---|---|---|---|---|---|",
    ]
    for name, group in (
        ("all", list(judged)),
        ("fitted on", [j for j in judged if not j.held_out]),
        ("held out", [j for j in judged if j.held_out]),
    ):
        if any(len(j.runs) >= LEAST for j in group):
            t = total(group, within)
            lines.append(
                f"| {name}: {t.problems} | {t.configurations} | {t.hits:.0%} | {t.error:.1%} | {t.best_error:.1%} "
                f"| {t.worst_regret:.1%} |"
            )
    lines += [
        "",
        f"| problem | runs | best ms | PyTorch ms | best of the first {top} | rank of the best | error | bias |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for j in judged:
        mark = " (held out)" if j.held_out else ""
        pytorch = f"{j.torch_ms:.4f}" if j.torch_ms else ""
        lines.append(
            f"| {j.id}{mark} | {len(j.runs)} | {j.best_ms:.4f} | {pytorch} | +{j.regret:.1%} | {j.rank_of_best} "
            f"| {j.error:.1%} | {j.bias:+.1%} |"
        )
    return "\n".join(lines) + "\n"
