"""Real events of a made-up session, for tests of the log, the socket and the adapter, which do not care what ran.

`run` has the signature of engine.session.runner.run. Its pace comes from the spec's title: "pace 0.05" waits 0.05 s
before each event. It goes on behind `history` like the real one, so that a killed engine's session can be followed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

from engine.session import events
from engine.session.events import blob_name


def blob(text: str) -> tuple[str, dict[str, str]]:
    return blob_name(text), {blob_name(text): text}


def session(source: str = "class Model: ...", trials: int = 3, title: str = "a test") -> Iterator[tuple]:
    """(event, blobs) of a whole session: start, baseline, `trials` trials of three events each, end."""
    name, texts = blob(source)
    device = {"name": "H200", "kind": "predicted", "hardware": "h200"}
    budget = {"trials": trials, "eps": 0.25, "window": 6}
    yield events.SessionStarted(title, name, "module", device, "planner", ["tf32", "f16"], budget), texts
    yield events.Baseline("eager", "f32", events.Prediction(1.0, "t_attainable", "h200")), {}
    for trial in range(1, trials + 1):
        program, texts = blob(f"program p{trial}")
        yield events.TrialProposed(trial, "f16", program, "cute", f"tile {trial}", "it may be faster"), texts
        yield events.TrialChecked(trial, program, 0.001), {}
        ms = 1.0 / (1 + trial)
        yield (
            events.TrialJudged(
                trial, "clean", "f16", "predicted", ms, 1 / ms, "eager", ms / 0.1, 0.5, best=True, text="better"
            ),
            {},
        )
    yield events.SessionEnded("done", "the budget is spent", {"f16": trials}, trials, 1.0), {}


def emitted(event, blobs) -> SimpleNamespace:
    return SimpleNamespace(event=event, blobs=blobs, t=time.time())


def run(spec, *, device, history, read_blob, control, began, share=None) -> Iterator[SimpleNamespace]:
    title = spec["title"] if isinstance(spec, dict) else spec.title
    words = dict(zip(title.split()[::2], title.split()[1::2], strict=False))
    pace, trials = float(words.get("pace", 0)), int(words.get("trials", 3))
    if "crash" in words:
        raise RuntimeError(words["crash"])
    done = [e for _, e in history if not isinstance(e, events.Resumed | events.Controlled)]
    if history:
        yield emitted(events.Resumed("another engine goes on"), {})
    for event, blobs in list(session(trials=trials, title=title))[len(done) :]:
        time.sleep(pace)
        for kind, data in control():
            yield emitted(events.Controlled(kind, data), {})
            if kind == "profile":
                name, texts = blob(f"where the time of trial {data['trial']} goes")
                request = sum(isinstance(e, events.Controlled) and e.action == kind for _, e in history) + 1
                yield emitted(events.TrialProfiled(data["trial"], request, "profiler", name), texts)
            if kind == "stop":
                yield emitted(events.SessionEnded("stopped", "by its owner", {}, 0, 0.0), {})
                return
        yield emitted(event, blobs)


def work(lease, play=run) -> None:
    """A claimed session to its end, or until it is released."""
    from playground.live.mailbox import Mailbox
    from playground.live.running import Running

    Running(lease, play, "modelled:h200", Mailbox()).work()


if __name__ == "__main__":  # an engine process on the script: DJANGO_SETTINGS_MODULE and UCUTLASS_VAR from outside
    import logging
    import sys

    import django

    django.setup()
    logging.disable(logging.INFO)
    from playground.adapter import Adapter

    about = {"device": {"name": "H200", "kind": "predicted", "hardware": "h200"}, "sandbox": "none", "toolchain": ""}
    Adapter(run, serves="modelled:h200", about=about).serve(once="--once" in sys.argv)
