"""What happened stays: rows are added at the end, by the lease's holder, and never changed."""

import pytest

from engine.session import events
from playground.live import log
from playground.models import AppendOnly, Blob, Session, SessionEvent
from tests.playground import script

pytestmark = pytest.mark.django_db


@pytest.fixture
def lease():
    Session.objects.create(title="t", spec={})
    return log.claim("engine")


def test_events_are_numbered_from_one_without_a_gap(lease):
    for event, blobs in script.session():
        log.append(lease, [(event, blobs)])
    assert [e.seq for e in SessionEvent.objects.all()] == list(range(1, 13))


def test_an_event_comes_back_as_it_was(lease):
    written = [e for e, _ in script.session()]
    log.append(lease, list(script.session()))
    assert [e for _, e in log.history(lease.session_id)] == written


def test_an_event_cannot_be_changed(lease):
    log.append(lease, [(events.Progress("compiling"), {})])
    row = SessionEvent.objects.get()
    row.data = {"text": "something else"}
    with pytest.raises(AppendOnly):
        row.save()
    with pytest.raises(AppendOnly):
        SessionEvent.objects.update(kind="progress")
    with pytest.raises(AppendOnly):
        SessionEvent.objects.bulk_update([row], ["data"])
    assert SessionEvent.objects.get().data["text"] == "compiling"


def test_all_of_a_batch_or_nothing(lease):
    with pytest.raises(ValueError, match="does not hold the text"):
        log.append(lease, [(events.Progress("first"), {}), (events.Progress("second"), {"0" * 64: "not its text"})])
    assert not SessionEvent.objects.exists()
    assert log.append(lease, [(events.Progress("first"), {})]) == 1


def test_a_text_is_stored_once_for_all_sessions(lease):
    name, texts = script.blob("the same program " * 100)
    log.append(lease, [(events.Progress("a"), texts), (events.Progress("b"), texts)])
    Session.objects.create(title="another", spec={})
    log.append(log.claim("other"), [(events.Progress("c"), texts)])
    blob = Blob.objects.get()
    assert blob.sha256 == name and blob.text == texts[name] and len(blob.data) < blob.size
    assert blob.sessions.count() == 2


def test_nothing_comes_after_the_end(lease):
    log.append(lease, list(script.session()))
    with pytest.raises(log.LeaseLost):
        log.append(lease, [(events.Progress("too late"), {})])


def test_the_summary_follows_the_log(lease):
    log.append(lease, list(script.session(trials=3)))
    session = Session.objects.get()
    assert (session.state, session.last_seq, session.summary["trials"]) == ("ended", 12, 3)
    best = session.summary["best"]
    assert (best["trial"], best["kind"], best["baseline"], best["cls"]) == (3, "predicted", "eager", "f16")


def test_a_gamed_trial_is_never_the_best(lease):
    gamed = events.TrialJudged(1, "gaming", "f16", "measured", 0.001, 900.0, "eager", 0.1, 1.0, True, "below the limit")
    log.append(lease, [(gamed, {})])
    assert Session.objects.get().summary["best"] is None


def test_an_event_that_no_socket_could_carry_is_refused(lease):
    with pytest.raises(ValueError, match="progress of 5859 KiB is over"):
        log.append(lease, [(events.Progress("x" * 6_000_000), {})])
