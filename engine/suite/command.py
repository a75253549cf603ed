"""`python -m engine suite`."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.devices import SessionRefused, registry
from engine.session.spec import device_error
from engine.suite import runner
from engine.suite.cases import cases
from engine.suite.table import line, table
from sol.hardware import load


class Refused(Exception):
    """The command cannot run: one sentence with the reason and the way out."""


def run(args: argparse.Namespace) -> bool:
    """Run the suite. Returns True if every program is right. Raises Refused."""
    try:
        chosen = cases(tuple(filter(None, args.only.split(","))))
    except ValueError as e:
        raise Refused(str(e)) from None
    if args.generate:
        print("\n".join(runner.generate(case, load("h200").sms) for case in chosen))
        return True
    if wrong := device_error(args.device):
        raise Refused(wrong)
    try:
        evaluator = registry.get(args.device, local_user=True)
    except SessionRefused as e:
        raise Refused(f"{e.reason}; `--device modelled:h200` checks the programs without a GPU") from None
    results = runner.run(
        chosen, evaluator, Path(args.json) if args.json else None, lambda row: print(line(row), flush=True),
        seconds=args.seconds, seed=args.seed, every=args.every, backends=tuple(args.backend or runner.BACKENDS),
    )  # fmt: skip
    rows = list(results.rows.values())
    print("\n" + table(rows))
    return all(row["ok"] for row in rows)
