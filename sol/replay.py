"""Finished searches under other stop rules: the results of `python -m engine bench`, one session per module and class.

`engine.replay` adds recordings of sessions; this room knows no log. Only the limits, the baselines and each trial's end
are read; a file of another kind raises one error. Baselines are those of a live session: PyTorch in the class itself,
so autocast for half precision.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sol import budget
from sol.budget import Policy, Recorded, Replay, Trial
from sol.figures import choices

WHY = {  # a session, or a class of one, is left out
    "predicted": "Times are predicted, and these are not mixed with measured ones",
    "no_limit": "The report has no limit of the class",
    "no_baseline": "PyTorch has no time in the class",
    "no_trial": "The strategy tried nothing in the class",
    "no_session": "No trial of a strategy has an end",
}
FLAGGED = 0.9  # a time below this share of the limit is never a result
HALF = ("f16", "bf16")


@dataclass(frozen=True)
class Omission:
    """A session, or a class of one, that is not replayed. `why`: a key of WHY."""

    name: str
    why: str


def of_bench(text: str, name: str, omissions: list[Omission] | None = None) -> list[Recorded]:
    """Every module and class of a bench with a limit, a baseline and a trial, in the file's order. Trials are in the
    order in which they ran. A trial whose time is below `FLAGGED` of the limit counts as failed. `omissions` receives
    the others. Raises ValueError."""
    sessions = []
    try:
        for module, row in json.loads(text)["problems"].items():
            for cls, limit in row["limits"].items():
                session = _benched(f"{row['id']} {module} ({cls})", row, cls, float(limit))
                if session.trials and session.baseline_ms:
                    sessions.append(session)
                elif omissions is not None:
                    omissions.append(Omission(session.name, "no_baseline" if session.trials else "no_trial"))
        return sessions
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ValueError(f"{name}: not the results of a bench ({type(e).__name__}: {e})") from None


def _benched(name: str, row: dict[str, Any], cls: str, limit: float) -> Recorded:
    baseline = row["baselines"].get("eager_f16" if cls in HALF else "eager_tf32", {}).get("ms")
    trials = tuple(
        Trial(
            float(t["ms"]) if t["ok"] and t.get("ms", 0) >= FLAGGED * limit else None,
            spent={"seconds": float(t["seconds"])} if t.get("seconds") else {},
        )
        for t in row["trials"]
        if t["class"] == cls
    )
    return Recorded(name, trials, limit, float(baseline or 0))


def no_recordings(path: Path, omissions: list[Omission]) -> list[Recorded]:
    raise ValueError(f"{path} is a recording of a session: `python -m engine replay` reads recordings and benches")


def load(
    paths: Iterable[str], recordings: Callable[[Path, list[Omission]], list[Recorded]] = no_recordings,
    omissions: list[Omission] | None = None,
) -> list[Recorded]:  # fmt: skip
    """All sessions of files (those of a bench end in `.json`) and of folders of `*.jsonl`, which `recordings` reads.
    Predicted ones only if none is measured, because the two never mix. `omissions` receives the sessions that are left
    out. Raises OSError, or ValueError when there is none."""
    sessions: list[Recorded] = []
    omissions = [] if omissions is None else omissions
    for source in map(Path, paths):
        for path in sorted(source.glob("*.jsonl")) if source.is_dir() else [source]:
            if path.suffix == ".json":
                sessions += of_bench(path.read_text(encoding="utf-8"), path.stem, omissions)
            else:
                sessions += recordings(path, omissions)
    if not sessions:
        nothing = "no recorded session with a limit, a baseline and a trial in these files"
        raise ValueError(". ".join([nothing, *omitted(omissions)]).rstrip("."))
    measured = [session for session in sessions if not session.predicted]
    if measured:
        omissions += [Omission(session.name, "predicted") for session in sessions if session.predicted]
    return measured or sessions


def arguments(command: argparse.ArgumentParser, known: str) -> None:
    """The arguments of a command `replay`; `known`: what it reads, in words."""
    command.add_argument("sessions", nargs="+", metavar="SESSIONS", help=known)
    command.add_argument(
        "--eps", type=number(float, 0), default=0.25, help="stop within this share of the limit (default 0.25)"
    )
    command.add_argument(
        "--window", type=number(int, 0), default=12, help="stop after so many trials without a better one; 0: never"
    )
    command.add_argument(
        "--keep", type=number(float, 0, 1), default=0.96, help="share of the speedup that a policy must keep"
    )
    command.add_argument(
        "--cost", choices=budget.KINDS, default="trials", help="what a trial costs: itself (default), the tokens "
        "or money of a model (US dollars) up to its end, or its seconds; of sessions that recorded them"
    )  # fmt: skip
    shape = command.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="everything as JSON")
    shape.add_argument("--figure", action="store_true", help="the figure of the policies as the page draws it (JSON)")


def number(kind: type, least: float, most: float = float("inf")) -> Callable[[str], float]:
    """For argparse: a number of this kind from `least` to `most`."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            span = f"from {least:g}" + (f" to {most:g}" if most < float("inf") else " up")
            raise argparse.ArgumentTypeError(f"{text!r} is not a {'whole ' if kind is int else ''}number {span}")
        return value

    return read


def omitted(omissions: Sequence[Omission]) -> list[str]:
    """A sentence for each reason, with the names of what is left out for it."""
    names: dict[str, list[str]] = {}
    for one in omissions:
        names.setdefault(one.why, []).append(one.name)
    return [f"{WHY[why]}, so left out: {', '.join(some)}." for why, some in names.items()]


def show(
    args: argparse.Namespace, sessions: Sequence[Recorded], omissions: Sequence[Omission] = (), money: str = ""
) -> str:
    """What the sessions would have cost under the rules of `args`, as text, as JSON or as the figure of a page.
    `omissions`: the sessions that are left out; `money`: a sentence on the price of the models. Raises ValueError for a
    cost that no session recorded."""
    sessions = budget.charged(sessions, args.cost)
    runs = [budget.replay(s, args.eps, args.window) for s in sessions]
    total = budget.policy(sessions, args.eps, args.window)
    study = budget.policy(sessions, *budget.STUDY)
    grid, front = budget.sweep(sessions)
    chosen = best(grid, args.keep)
    if args.figure or args.json:
        drawn = choices.policies(grid, front, chosen, args.keep)
        if args.figure:
            caption = f"{drawn.title}: {len(sessions)} recorded sessions, {sum(r.trials_total for r in runs):,} trials."
            if chosen:
                caption += (
                    f" Stopping within {chosen.eps:.0%} of the limit or after {chosen.window} trials without a better "
                    f"one saves {chosen.trials_saved:.0%} of the trials and keeps {chosen.speedup_kept:.1%} of the "
                    "speedup."
                )
            caption = " ".join([caption, *omitted(omissions), *filter(None, [money])])
            return json.dumps({"from": args.sessions, **drawn.to_json(), "caption": caption})
        return json.dumps({
            "sessions": [asdict(r) for r in runs], "policy": asdict(total), "grid": [asdict(p) for p in grid],
            "front": [asdict(p) for p in front], "study": asdict(study), "cost": args.cost,
            "best": asdict(chosen) if chosen else None, "figure": drawn.to_json(), "money": money,
            "omissions": [{"name": o.name, "why": f"{WHY[o.why]}."} for o in omissions],
        })  # fmt: skip
    lines = [
        f"{sessions_table(runs)}\n",
        *(f"{sentence}\n" for sentence in omitted(omissions)),
        f"{policies_table([total])}\n",
        *([f"{money}\n"] if money else []),
        f"The best policy of the μCUTLASS study on these sessions:\n{policies_table([study])}\n",
        f"No policy of the grid beats these:\n{policies_table(front)}",
    ]
    if chosen:
        lines.append(
            f"\nSaves most while keeping {args.keep:.0%} of the speedup: --eps {chosen.eps:g} --window {chosen.window} "
            f"({chosen.trials_saved:.0%} of {sum(r.trials_total for r in runs):,} trials saved, "
            f"{_others(chosen, args.cost)}{chosen.speedup_kept:.1%} kept, {chosen.efficiency:.2f}x efficiency)"
        )
    else:
        lines.append(f"\nNo policy of the grid keeps {args.keep:.0%} of the speedup; give a lower --keep")
    return "\n".join(lines)


def best(grid: Iterable[Policy], keep: float) -> Policy | None:
    """The policy that saves most and keeps at least this share of the speedup; None if there is none."""
    good = [p for p in grid if p.speedup_kept >= keep]
    return max(good, key=lambda p: (p.cost_saved, p.speedup_kept), default=None)


def sessions_table(replays: Iterable[Replay]) -> str:
    """One line per session, aligned for a terminal."""
    head = ("session", "trials", "saved", "speedup", "kept", "why it stopped")
    rows = [
        (
            r.name,
            f"{r.trials_run}/{r.trials_total}",
            f"{r.cost_saved:.0%}",
            f"{r.speedup:.2f}x",
            f"{r.speedup_kept:.1%}",
            r.reason,
        )
        for r in replays
    ]
    return _aligned([head, *rows])


def policies_table(policies: Iterable[Policy]) -> str:
    """One line per policy, with the kinds of cost that the sessions recorded."""
    policies = list(policies)
    kinds = [kind for kind in budget.KINDS if any(kind in p.saved for p in policies)]
    head = ("eps", "window", "trials saved", *(f"{kind} saved" for kind in kinds), "speedup kept", "efficiency gain")
    rows = [
        (f"{p.eps:g}", str(p.window), f"{p.trials_saved:.0%}", *(f"{p.saved.get(kind, 0):.0%}" for kind in kinds),
         f"{p.speedup_kept:.1%}", f"{p.efficiency:.2f}x")
        for p in policies
    ]  # fmt: skip
    return _aligned([head, *rows])


def _others(p: Policy, cost: str) -> str:
    """The share of a cost that is not trials, as a clause."""
    return "" if cost == "trials" else f"{p.cost_saved:.0%} of the {cost} saved, "


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
