"""What the tree search logs for a person: bounded facts of each node, and the principal path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.llm.prompts import clip
from engine.session.events import blob_name
from engine.strategies.optiml.figures import Figures, short
from engine.strategies.optiml.guardrail import Ruling
from engine.strategies.optiml.replies import Bottleneck
from engine.strategies.optiml.reward import Reward
from engine.strategies.optiml.tree import Node, Tree
from engine.strategies.state import Finished

MOST_CHANGE, MOST_WORDS, MOST_LINE = 300, 400, 300
NO_JUDGE = "the option judge is off"
NO_DIAGNOSIS = "the judge's reply was not usable: {}"
NOT_WRITTEN = "the first candidate was written from the mixture, so nothing was diagnosed before it"


def node(
    tree: Tree, at: Node, trial: Finished, parent: Finished | None, *, change: str, words: str, targets: str,
    reward: Reward, ruling: Ruling, diagnosis: dict[str, Any], figures: Figures, incumbent: int | None,
) -> dict[str, Any]:  # fmt: skip
    """One evaluated node. `path`: [number, visits, value] of every node whose statistics it changed, the root last;
    `figures`: known without a profiler; `counted`: measured by one, or `uncounted`, why not; `kind`: of the time."""
    return {
        "node": at.number, "parent": at.parent.number if at.parent else None, "depth": at.depth,
        "trial": trial.number, "cls": trial.cls, "form": trial.form, "change": clip(change, MOST_CHANGE),
        "outcome": clip(words, MOST_WORDS), "text": blob_name(trial.text),
        "before": blob_name(parent.text) if parent else "", "language": trial.language,
        "edits": parent.number if parent else None, "prior": round(at.prior, 4), "targets": targets,
        "reward": round(reward.value, 4), "parts": [part.to_json() for part in reward.parts], "note": reward.note,
        "ruling": ruling.kind, "reason": ruling.reason, "diagnosis": diagnosis, "figures": short(figures.values),
        "unknown": dict(figures.missing), "counted": short(figures.counted), "uncounted": figures.uncounted,
        "kind": figures.kind, "incumbent": incumbent,
        "path": [[n.number, n.visits, round(n.value, 4)] for n in tree.path(at)],
    }  # fmt: skip


def rules(tree: Tree, evaluations: int, levels: int, growth: float) -> dict[str, Any]:
    """The constants of the tree. `growth`: as the options have it; `fitted`: of a tree of so many evaluations."""
    return {
        "c": tree.c, "depth": tree.depth, "base": tree.widening.base, "growth": growth,
        "fitted": round(tree.widening.growth, 4), "evaluations": evaluations, "levels": levels,
    }  # fmt: skip


def diagnosis(value: Bottleneck | None, missing: str) -> dict[str, Any]:
    """The judge's words on the edited candidate, or why there are none."""
    if value is None:
        return {"missing": clip(missing, MOST_WORDS)}
    evidence = [clip(line, MOST_LINE) for line in value.evidence]
    return {"limit": value.limit, "evidence": evidence, "advice": clip(value.advice, MOST_WORDS)}


def principal(path: Sequence[Node], trials: dict[int, Finished], incumbent: int | None) -> dict[str, Any]:
    """The path of most visits, with the trial of each of its nodes."""
    rows = [
        {"node": n.number, "trial": trials[n.number].number, "visits": n.visits, "value": round(n.value, 4)}
        for n in path
    ]
    return {"rows": rows, "incumbent": incumbent}
