"""Load recorded sessions as ordinary ended sessions, which the gallery replays through the page of live ones."""

from __future__ import annotations

import base64
import hashlib
import logging
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import transaction

from engine.session import events, recording
from engine.session.fold.reduce import fold
from engine.session.spec import BadSpec, SessionSpec, of_started
from engine.session.spec_arguments import command_of
from engine.session.titles import first_sentence, opening_text
from playground import conf
from playground.access.requests import title_of
from playground.language.examples import all_examples
from playground.live import log
from playground.models import Session

logger = logging.getLogger(__name__)
FOLDER = conf.ROOT / "playground" / "recordings"
SHAPE = 2  # version of `provenance`: rows of an older one are loaded again
COMMAND = "python -m engine optimize"
REHEARSED = "rehearsed"  # the model's name where rules play one (engine.llm.rehearse.MODEL)
REHEARSAL = "a rehearsal: rules wrote each reply, no model did"


def load_all(folder: Path = FOLDER) -> tuple[list[str], list[str]]:
    """Load new recordings, replace changed ones, drop missing ones. Returns (ids loaded, messages about bad files)."""
    loaded, bad, present = [], [], set()
    for path in sorted(folder.glob("*.jsonl")):
        present.add(path.name)
        try:
            if session_id := load(path):
                loaded.append(session_id)
        except (recording.RecordingError, OSError, UnicodeDecodeError, ValueError) as e:
            bad.append(f"{path.name}: {e}")
    for gone in Session.objects.filter(recorded=True):
        if gone.provenance.get("file") not in present:
            gone.delete()
    return loaded, bad


def load(path: Path) -> str | None:
    """Load one file. None if the same content is already loaded; a changed file replaces its session.

    The id is derived from the content, so that a link to a recording is the same on every installation.
    """
    raw = path.read_bytes()
    session_id = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()[:16]).decode().rstrip("=")
    known = Session.objects.filter(id=session_id, recorded=True).first()
    if known is not None and known.provenance.get("shape") == SHAPE:
        return None
    record = recording.read(path)
    started = record.rows[0].event
    assert isinstance(started, events.SessionStarted)
    if record.rows[-1].kind != events.SessionEnded.KIND:
        raise recording.RecordingError(f"the session was not at its end: its last event is {record.rows[-1].kind}")
    spec = of_started(started, record.optimised[0])
    source = provenance(path, record, started)
    with transaction.atomic():
        Session.objects.filter(recorded=True, provenance__file=path.name).delete()
        session = Session(
            id=session_id,
            title=_title(started, spec["source"]),
            spec=spec,
            recorded=True,
            state=Session.RUNNING,
            created=datetime.fromtimestamp(record.rows[0].t, UTC),
            provenance=source,
        )
        session.save(force_insert=True)
        log.write(session, [(row.event, {}, row.t) for row in record.rows])
        log.store_blobs(session, record.blobs)
        if source["led_by"] == REHEARSAL:
            session.title += f", {started.strategy}, rehearsed"
        session.save()
    return session_id


def _title(started: events.SessionStarted, source: str) -> str:
    """The logged title, or one by the current rule if an older engine cut a docstring to make it."""
    opening = " ".join(opening_text(source).split())
    cut = opening.startswith(started.title) and first_sentence(opening) != started.title.rstrip(".")
    return title_of(source, started.source_kind) if cut and started.title else started.title


def provenance(path: Path, log: recording.Recording, started: events.SessionStarted) -> dict[str, Any]:
    """The source of the numbers: {shape, file, date, device, kind, driver, command, led_by}, as far as the log has it.
    `led_by`: who proposed the candidates if no search did. A session of a coding agent has no command."""
    view = fold(log.rows)
    times = [*view.baselines, *(t.measured for t in view.trials.values() if t.measured is not None)]
    device = next((t.time.get("device", {}) for t in times if t.kind == "measured"), {}) | started.device
    agent = started.strategy == "agent"
    date = datetime.fromtimestamp(log.rows[0].t, UTC).date().isoformat()
    return {
        "shape": SHAPE,
        "file": path.name,
        "date": date,
        "device": device.get("name", ""),
        "kind": started.device.get("kind", ""),
        "driver": device.get("driver", ""),
        "command": "" if agent else device.get("command") or _command(started, log.optimised[0], path),
        "led_by": "a coding agent over MCP" if agent else _models(log),
    }


def _command(started: events.SessionStarted, source: str, path: Path) -> str:
    """The command that makes such a session, on the example with this text or else on the text of the recording
    itself. A search that began with its owner's text runs that one's best programs again."""
    place = str(path.relative_to(conf.ROOT) if path.is_relative_to(conf.ROOT) else path.name)
    file = next((e["id"] for e in all_examples() if e["text"].strip() == source.strip()), place)
    fields = of_started(started, source) | {"device": started.device.get("name") or "cuda"}
    if started.options.get("start") == "given":
        return f"python -m engine reproduce {shlex.quote(place)} --device {fields['device']}"
    try:
        return command_of(SessionSpec(**fields), file)
    except BadSpec:  # an old log may name an option that no longer exists
        return f"{COMMAND} {shlex.quote(file)} --device {fields['device']} --strategy {started.strategy}"


def _models(log: recording.Recording) -> str:
    """The models that answered the session's turns; "" if none was asked."""
    answered = (e for e in (row.event for row in log.rows) if isinstance(e, events.Answered))
    names = dict.fromkeys(e.model for e in answered if e.model)
    return ", ".join(REHEARSAL if name == REHEARSED else f"the model {name}" for name in names)
