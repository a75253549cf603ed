"""`python -m engine reproduce LINK|FILE`: check a record, run its best programs again, and say what came of it."""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.record import ID_LENGTH, NOT_REPRODUCED, BadRecord, build, counted, faults, link_of
from engine.session import recording

MOST_BYTES = 64 << 20
_LINK = re.compile(r"(?P<site>https?://[^/\s]+)/(?:s|embed)/(?P<id>[\w-]+)")


def add(commands: Any, run: Any) -> None:
    one = commands.add_parser("reproduce", help="run the programs of a record again, and compare")
    one.add_argument("what", metavar="LINK|FILE", help="a session's or snapshot's link, a record, or a recording")
    one.add_argument("--device", metavar="D", help="cuda, or modelled:h200 (default: the GPU where there is one)")
    one.add_argument("--trial", type=int, metavar="N", help="this trial alone (default: the best of each class)")
    one.add_argument("--check", action="store_true", help="check the hashes and run nothing")
    one.add_argument("--json", metavar="OUT", help="what came of it")
    one.add_argument(
        "--token-file", metavar="FILE", help="its control token: attach the run to the snapshot of the link"
    )
    one.set_defaults(run=run)


def load(what: str) -> tuple[dict[str, Any], Path | None]:
    """(record, the file to attach a run to) of a link or a file. Raises BadRecord."""
    if link := _LINK.match(what):
        record = _fetched(f"{link['site']}/api/sessions/{link['id']}/record")
        if len(link["id"]) == ID_LENGTH and link_of(str(record.get("id", ""))) != link["id"]:
            raise BadRecord("id: the link is of another record")
        return record, None
    path = Path(what)
    try:
        if path.suffix == ".jsonl":
            log = recording.read(path)
            return build([vars(row) for row in log.rows], log.blobs), None
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise BadRecord(f"cannot read {what}: {e.strerror}") from None
    except ValueError as e:
        raise BadRecord(f"{what}: {e}") from None
    if not isinstance(record, dict):
        raise BadRecord(f"{what} is no record")
    return record, path


def _fetched(address: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(address, timeout=60) as reply:
            record = json.loads(reply.read(MOST_BYTES))
    except urllib.error.HTTPError as e:
        raise BadRecord(f"{address} answered {e.code}: {_why(e)}") from None
    except (OSError, ValueError) as e:
        raise BadRecord(f"cannot read {address}: {e}") from None
    if not isinstance(record, dict):
        raise BadRecord(f"{address} is no record")
    return record


def _token(file: str) -> str:
    from engine.bridge import BadBridge, token_of

    try:
        return token_of(file)
    except BadBridge as e:
        raise BadRecord(str(e)) from None


def _attach(link: str, run: dict[str, Any], token: str) -> None:
    """Attach a run to the snapshot of a link. Raises BadRecord."""
    place = _LINK.match(link)
    if place is None or len(place["id"]) != ID_LENGTH:
        raise BadRecord("a run is attached to the link of a snapshot, or to a file; a session's link has no record")
    address = f"{place['site']}/api/snapshots/{place['id']}/reproductions"
    headers = {"Content-Type": "application/json", "X-Control-Token": token}
    try:
        request = urllib.request.Request(address, json.dumps(run).encode(), headers)
        urllib.request.urlopen(request, timeout=60).close()
    except urllib.error.HTTPError as e:
        raise BadRecord(f"{address} answered {e.code}: {_why(e)}") from None
    except OSError as e:
        raise BadRecord(f"cannot reach {address}: {e}") from None


def _why(e: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(e.read(1 << 16))["error"])
    except (ValueError, KeyError, TypeError):
        return e.reason


def reproduce(args: argparse.Namespace, device: str) -> int:
    """The exit status: 0 reproduced or not comparable, 1 not reproduced. Raises BadRecord for an altered record."""
    record, file = load(args.what)
    if altered := faults(record):
        raise BadRecord("the record was altered:\n" + "\n".join(f"  {fault}" for fault in altered))
    token = _token(args.token_file) if args.token_file is not None else ""  # before the run, which takes minutes
    runs = record.get("reproductions") or []
    print(f"record {record['id'][:16]}: {record['fields']['log']['events']} events, every hash holds")
    if args.check:
        return 0
    from engine import progress  # after the check, which needs none of these
    from engine.record import comparison, rerun

    trials = [args.trial] if args.trial is not None else comparison.best_trials(record)
    if not trials:
        raise BadRecord("no trial of the record has a time")
    with progress.Display(sys.stderr) as display:
        outcomes = rerun.rerun(record, device, trials, display.show)
    for o in outcomes:
        print(f"trial {o.trial}: {o.verdict}. {o.why[:1].upper()}{o.why[1:].rstrip('.')}.")
    run = comparison.plain(outcomes, device, datetime.now(UTC).isoformat(timespec="seconds"))
    good, comparable = counted({"reproductions": [*runs, run]})
    print(f"independent runs: {good} of {comparable} reproduced it")
    if token:
        _attach(args.what, run, token)
        print(f"attached to {args.what}")
    if file is not None:
        record["reproductions"] = [*runs, run]
        file.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(f"attached to {file}")
    if args.json:
        Path(args.json).write_text(json.dumps(run, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 1 if run["verdict"] == NOT_REPRODUCED else 0
