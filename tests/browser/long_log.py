"""A long session's log: the trials of a recording again and again, with other times, led by a model that writes them.

    python -m tests.browser.long_log --trials 500 --events 20000             # with the settings of an app: writes it
    python -m tests.browser.long_log --trials 500 --events 72000 --rate 200  # prints the id, then appends as time goes

The events go through playground.live.log, so the page, the API and the socket serve them as those of an engine.
"""

from __future__ import annotations

import argparse
import random
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engine.session import events, recording
from engine.session.events import Event, blob_name
from tests.browser.conftest import ROOT

RECORDING = ROOT / "playground/recordings/linear_scale_leaky.jsonl"  # two classes, measured on an H200
HEAD = 10  # its events before the first trial
RENEWED = 4.0  # seconds between two renewals of the lease
PACE = 0.05  # seconds between two events of the log
FAILS, FLAGGED = 5, 17  # every fifth trial does not compile, every seventeenth does not count
PIECE = "  schedule cooperative, cluster 2x1x1, and the epilogue reads x once more;\n" * 2

Item = tuple[Event, dict[str, str]]


def items(trials: int, count: int, seed: int = 0) -> Iterator[Item]:
    """`count` events with the texts that each is the first to name: `trials` trials, each after a model's turn, and the
    session's end. The pieces of the turns make up the number."""
    record, rng = recording.read(RECORDING), random.Random(seed)
    rows = [row.event for row in record.rows]
    started = replace(
        rows[0], title="A long session", strategy="chain", budget={"trials": trials, "eps": 0, "window": 0}
    )
    texts = dict(record.blobs)
    yield started, {started.source: texts[started.source]}
    for event in rows[1:HEAD]:
        names = recording.blob_names(events.encode(event)) & texts.keys()
        yield event, {name: texts[name] for name in names}
    ran = {n: [e for e in rows[HEAD:-1] if e.trial == n] for n in {e.trial for e in rows[HEAD:-1]}}
    best: dict[str, float] = {}
    left = count - HEAD - 1
    for n in range(1, trials + 1):
        trial = list(_trial(n, ran[1 + (n - 1) % len(ran)], texts, rng, best))
        share = left // (trials + 1 - n)
        yield from _turn(n, share - len(trial))
        yield from trial
        left -= share
    yield (
        events.SessionEnded("done", f"The budget of {trials} trials is used up.", {}, trials, 3600.0, "budget_used"),
        {},
    )


def _turn(n: int, count: int) -> Iterator[Item]:
    """`count` events of a turn: asked, pieces of the reply, answered."""
    about: dict[str, Any] = {"path": f"0.{n}", "digest": "", "verb": "ask"}
    prompt = f"The best so far, and what was tried before candidate {n}. " * 40
    reply = PIECE * max(0, count - 2)
    yield (
        events.Asked(**about, role="optimizer", prompt=blob_name(prompt), model="synthetic"),
        {blob_name(prompt): prompt},
    )
    for number in range(1, count - 1):
        yield events.Said(f"0.{n}", number, PIECE), {}
    tokens = {"in": len(prompt) // 4, "out": len(reply) // 4}
    answered = events.Answered(**about, text=blob_name(reply), model="synthetic", tokens=tokens, cost=0.01, seconds=1.5)
    yield answered, {blob_name(reply): reply}


def _trial(
    n: int, steps: list[Event], texts: dict[str, str], rng: random.Random, best: dict[str, float]
) -> Iterator[Item]:
    """The steps of a recorded trial as trial `n`, with texts of its own and another time. `best`: ms by class."""
    factor = rng.uniform(0.92, 1.5) * (1 - 0.1 * min(1, n / 400))
    for step in steps:
        mine = {
            name: f"{text}\n# candidate {n}\n"
            if not text.startswith(("#include", "//"))
            else f"{text}\n// candidate {n}\n"
            for name, text in texts.items()
            if name in recording.blob_names(events.encode(step))
        }
        data = _renamed(events.encode(step), {name: blob_name(text) for name, text in mine.items()}) | {"trial": n}
        fresh = {blob_name(text): text for text in mine.values()}
        match step:
            case events.TrialProposed():
                data |= {"parent": n - 1 or None, "change": f"{data['change']}; candidate {n}"}
            case events.TrialCompiled() if n % FAILS == 0:
                why = "ptxas: the kernel needs 261 KiB of shared memory, and a block has 227"
                yield events.TrialFailed(n, "compile", "compile", why, cause="program"), {}
                return
            case events.TrialMeasured():
                data["time"] |= {k: data["time"][k] * factor for k in ("ms", "low", "high")}
                data["ratio"] /= factor
            case events.TrialJudged():
                data |= _judgement(n, data, factor, best)
        yield events.decode(step.KIND, data), fresh


def _judgement(n: int, data: dict[str, Any], factor: float, best: dict[str, float]) -> dict[str, Any]:
    ms, speedup = data["ms"] * factor, data["speedup"] / factor
    if n % FLAGGED == 0:
        seen = {"name": "limit", "verdict": "gaming", "said": "faster than the reads of its inputs"}
        return {
            "ms": ms,
            "speedup": speedup,
            "verdict": "gaming",
            "best": False,
            "standing": "flagged",
            "evidence": [seen],
        }
    wins = speedup > 1 and ms < best.get(data["cls"], float("inf"))
    best |= {data["cls"]: ms} if wins else {}
    gap = data["gap"] * factor
    return {"ms": ms, "speedup": speedup, "gap": gap, "best": wins, "standing": "best" if wins else "slower"}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """JSON with other names of blobs."""
    if isinstance(value, dict):
        return {k: _renamed(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=0.0, help="events a second, after a line on stdin; 0: at once")
    options = parser.parse_args()

    import django

    django.setup()
    from django.db import transaction

    from playground.live import log
    from playground.models import Session

    with transaction.atomic():  # or an engine that runs beside may claim it
        session = Session.objects.create(
            title="A long session", spec={"source": "", "source_kind": "module", "strategy": "chain", "trials": 500}
        )
        lease = log.claim("long")
    assert lease is not None and lease.session_id == session.id, "another session waits in this database"
    print(session.id, flush=True)
    if options.rate:
        while not select.select([sys.stdin], [], [], RENEWED)[0]:
            log.renew([lease])
        sys.stdin.readline()
    began, logged, batch = time.time(), time.time() - options.events * PACE, []
    renewed = began
    at_once = max(1, round(options.rate / 20)) if options.rate else 500
    for number, item in enumerate(items(options.trials, options.events), 1):
        batch.append(item)
        if len(batch) == at_once or number == options.events:
            if options.rate:
                time.sleep(max(0.0, began + number / options.rate - time.time()))
            log.append(lease, batch, logged + number * PACE)
            batch = []
        if time.time() > renewed + RENEWED:
            log.renew([lease])
            renewed = time.time()
    assert not batch


if __name__ == "__main__":
    main()
