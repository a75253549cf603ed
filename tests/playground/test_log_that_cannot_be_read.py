"""A log that this version cannot read ends its own session with a reason, and stops neither engine nor queue."""

import sqlite3

import pytest

from engine.session import events
from playground import recordings, summary
from playground.live import log
from playground.models import Session, SessionEvent
from tests.playground import script
from tests.playground.conftest import House
from tests.playground.test_engine_is_lost import follow

JUDGED = {"trial": 1, "cls": "f16", "best": True, "verdict": "clean", "ms": 1.0, "speedup": 2.0, "colour": "red"}
BROKEN = [
    ("trial.judged", JUDGED, "trial.judged has unknown fields"),
    ("trial.painted", {}, "unknown event kind 'trial.painted'"),
    ("progress", {}, "progress lacks text"),
    ("progress", [], "its data is not an object"),
    ("baseline", {"name": "eager", "cls": "f32", "time": {"kind": "dreamt"}}, "neither measured nor predicted"),
    (
        "baseline",
        {"name": "eager", "cls": "f32", "time": {"kind": "measured", "x": 1}},
        "its time has unknown fields x",
    ),
]


def ids(case) -> str:
    return case if isinstance(case, str) and case.replace(".", "").isalpha() else ""


def begun(title: str = "t") -> Session:
    """A queued session with two events in its log, as a lost engine leaves it."""
    session = Session.objects.create(title=title, spec={"title": title})
    lease = log.claim("before")
    log.append(lease, list(script.session(title=title))[:2])
    log.release(lease)
    return session


def spoil(session: Session, kind: str, data: object) -> None:
    """Put a row behind the log: another version wrote it, or something damaged it."""
    SessionEvent.objects.create(session=session, seq=3, kind=kind, t=1.0, data=data)
    Session.objects.filter(id=session.id).update(last_seq=3)


@pytest.mark.django_db
@pytest.mark.parametrize(("kind", "data", "why"), BROKEN, ids=ids)
def test_the_session_ends_as_failed_and_says_which_event(kind, data, why):
    session = begun()
    spoil(session, kind, data)
    script.work(log.claim("engine"))
    session.refresh_from_db()
    end = session.summary["end"]
    assert (session.state, end["state"], end["code"]) == ("ended", "failed", "unreadable_log")
    assert end["reason"].startswith("Event 3 of this session's log cannot be read: ") and why in end["reason"]
    assert end["reason"].endswith("Fork the session to run it again.")
    assert session.last_seq == 4 and log.claim("engine") is None


@pytest.mark.django_db
def test_what_its_trials_reached_stays():
    session = begun()
    for seq, kind in ((3, "trial.proposed"), (4, "trial.judged")):
        SessionEvent.objects.create(session=session, seq=seq, kind=kind, t=1.0, data=JUDGED)
    Session.objects.update(last_seq=4)
    script.work(log.claim("engine"))
    end = SessionEvent.objects.get(seq=5).data
    assert (end["best"], end["trials"]) == ({"f16": 1}, 1)


@pytest.mark.django_db
def test_a_damaged_summary_is_folded_anew():
    session = begun()
    Session.objects.update(summary=[])
    script.work(log.claim("engine"))
    session.refresh_from_db()
    assert (session.state, session.summary["end"]["state"]) == ("ended", "done") and session.summary["best"]


@pytest.mark.django_db
def test_a_session_whose_log_has_a_gap_ends_too():
    session = begun()
    SessionEvent.objects.filter(seq=1).delete()
    summary.forget(session.id)  # another process
    script.work(log.claim("engine"))
    session.refresh_from_db()
    assert (session.state, session.summary["end"]["state"]) == ("ended", "failed")
    assert SessionEvent.objects.get(seq=session.last_seq).kind == "session.ended" and log.claim("engine") is None


def test_the_engine_lives_on_and_the_next_session_runs(tmp_path):
    house = House(tmp_path)
    try:
        house.web()
        first, second = house.submit("pace 0"), house.submit("pace 0 trials 2")
        with sqlite3.connect(tmp_path / "playground.sqlite3") as db:
            row = (first["id"], 1, "trial.painted", 1.0, "{}")
            db.execute(
                "INSERT INTO playground_sessionevent (session_id, seq, kind, t, data) VALUES (?, ?, ?, ?, ?)", row
            )
            db.execute("UPDATE playground_session SET last_seq = 1, log_version = 1 WHERE id = ?", (first["id"],))
        engine = house.engine()
        assert follow(house, second["id"])[-1]["kind"] == "session.ended"
        state = house.wait(first["id"], lambda s: s["state"] == "ended")
        assert "cannot be read" in state["summary"]["end"]["reason"] and state["last_seq"] == 2
        assert engine.poll() is None
    finally:
        house.close()


# ---- the version of a log ----


@pytest.mark.django_db
def test_the_version_is_kept_from_the_first_event_on():
    session = Session.objects.create(title="t", spec={})
    assert session.log_version == 0
    log.append(log.claim("engine"), [(events.Progress("x"), {})])
    session.refresh_from_db()
    assert session.log_version == events.VERSION


@pytest.mark.django_db
def test_a_newer_engine_goes_on_with_an_older_log(monkeypatch):
    session = begun()
    monkeypatch.setattr(events, "VERSION", events.VERSION + 1)
    script.work(log.claim("engine"))
    session.refresh_from_db()
    assert session.summary["end"]["state"] == "done" and session.log_version == events.VERSION


@pytest.mark.django_db
def test_an_older_engine_reads_nothing_of_a_newer_log_and_says_so(monkeypatch):
    session = begun()
    Session.objects.update(log_version=events.VERSION + 1)
    monkeypatch.setattr(events, "decode", lambda kind, data: pytest.fail("the log was read"))
    script.work(log.claim("engine"))
    session.refresh_from_db()
    assert session.summary["end"]["reason"] == (
        f"This session's log has version {events.VERSION + 1}, and this engine reads logs up to version "
        f"{events.VERSION}. Update the engine, then fork the session to run it again."
    )
    kinds = list(SessionEvent.objects.values_list("kind", flat=True))
    assert kinds == ["session.started", "baseline", "session.ended"]
    assert session.log_version == events.VERSION + 1, "what it is stays on record"


@pytest.mark.django_db
def test_a_newer_version_that_took_part_shuts_an_older_writer_out():
    begun()
    lease = log.claim("engine")
    Session.objects.update(log_version=events.VERSION + 1)
    with pytest.raises(log.UnreadableLog, match="Update the engine"):
        log.append(lease, [(events.Progress("x"), {})])
    assert SessionEvent.objects.count() == 2


@pytest.mark.django_db
def test_recordings_have_it_too():
    recordings.load_all()
    assert set(Session.objects.values_list("log_version", flat=True)) == {events.VERSION}


def test_sessions_of_before_are_backfilled(tmp_path):
    house = House(tmp_path)
    house.manage("migrate", "playground", "0001", "--verbosity", "0")
    columns = "id, control_hash, title, spec, device, state, created, engine_id, claims, losses, last_seq, summary"
    with sqlite3.connect(tmp_path / "playground.sqlite3") as db:
        for name, last in (("waits", 0), ("ran", 7)):
            db.execute(
                f"INSERT INTO playground_session ({columns}, recorded, provenance) "
                f"VALUES ('{name}', '', '', '{{}}', 'auto', 'ended', '2026-11-21', '', 0, 0, {last}, '{{}}', 0, '{{}}')"
            )
    house.manage("migrate", "--verbosity", "0")
    with sqlite3.connect(tmp_path / "playground.sqlite3") as db:
        assert dict(db.execute("SELECT id, log_version FROM playground_session")) == {"waits": 0, "ran": 1}
