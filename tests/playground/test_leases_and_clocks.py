"""A lease that ends far in the future was written before the clock jumped back; and a lost engine counts against a
session only where the session got no further."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from playground import conf
from playground.live import log
from playground.live.log import SUSPECT
from playground.live.mailbox import Mailbox
from playground.live.running import Running
from playground.models import Session
from tests.playground import script

pytestmark = pytest.mark.django_db
LENGTH = timedelta(seconds=conf.get("UCUTLASS_LEASE_SECONDS"))


def claimed(events: int = 2) -> tuple[Session, log.Lease]:
    """A session that an engine has, with the first events of its log."""
    session = Session.objects.create(title="t", spec={"title": "t"})
    lease = log.claim("first")
    log.append(lease, list(script.session(title="t"))[:events])
    return session, lease


def until(session: Session, moment) -> None:
    Session.objects.filter(id=session.id).update(lease_until=moment)


def lost(session: Session) -> log.Lease:
    """The claim of the next engine after one was lost."""
    until(session, timezone.now() - timedelta(seconds=1))
    return log.claim("next")


def test_a_lease_further_away_than_a_clock_may_be_wrong_is_over():
    session, lease = claimed()
    until(session, timezone.now() + timedelta(hours=1))
    second = log.claim("second")
    assert second is not None and second.session_id == session.id and second.taken_over
    with pytest.raises(log.LeaseLost):
        log.append(lease, list(script.session(title="t"))[2:3])


@pytest.mark.parametrize("leases", [1.0, 1.9])
def test_a_lease_from_a_machine_whose_clock_is_a_little_ahead_holds(leases):
    session, _ = claimed()
    until(session, timezone.now() + leases * LENGTH)
    assert log.claim("second") is None


def test_losses_at_the_same_step_add_up():
    session, _ = claimed()
    for n in range(1, SUSPECT + 1):
        lease = lost(session)
        log.append(lease, [(log.events.Resumed("again"), {}), (log.events.Progress("Tracing", "trace"), {})])
        session.refresh_from_db()
        assert (session.losses, lease.suspect) == (n, n >= SUSPECT), "what a new engine says is no progress"


def test_a_session_that_gets_on_is_not_to_blame():
    session, _ = claimed()
    rest = list(script.session(title="t"))[2:]
    for event in rest[:4]:
        lease = lost(session)
        session.refresh_from_db()
        assert session.losses == 1 and not lease.suspect
        log.append(lease, [event])


def test_a_session_that_an_engine_gave_back_lost_none():
    session, lease = claimed()
    log.release(lease)
    log.claim("second")
    session.refresh_from_db()
    assert session.losses == 0


def test_an_engine_that_slept_through_its_lease_was_not_lost():
    session, lease = claimed()
    lost(session)
    session.refresh_from_db()
    assert session.losses == 1
    log.not_lost(lease)
    session.refresh_from_db()
    assert session.losses == 0


@pytest.fixture
def suspect() -> Running:
    _, lease = claimed()
    return Running(replace(lease, taken_over=True, suspect=True), script.run, "modelled:h200", Mailbox())


def test_nothing_new_starts_beside_a_suspect_until_it_gets_on(suspect):
    assert suspect.isolated
    suspect.advanced = True
    assert not suspect.isolated


def test_a_suspect_that_does_not_get_on_holds_the_others_up_for_a_minute_at_most(suspect):
    suspect.began -= 60
    assert not suspect.isolated


def said(lease: log.Lease, *words: str) -> None:
    log.append(lease, [(log.events.Controlled(word, {}), {}) for word in words])


def test_a_suspect_that_waits_for_its_owner_holds_nobody_up_until_it_goes_on(suspect):
    states = []

    def run(spec, *, control, **more):
        states.append(suspect.isolated)
        control.rest()
        states.append(suspect.isolated)
        yield script.emitted(log.events.Progress("nothing begins"), {})
        assert control.admitted()
        states.append(suspect.isolated)
        yield from script.run(spec, control=control, **more)

    suspect.run = run
    suspect._admit = lambda running: setattr(running, "rests", False) or True
    suspect.work()
    assert states == [True, False, True]
    assert suspect.advanced


def again(session: Session) -> int:
    """How many losses count after one more lost engine, whose successor says that it goes on."""
    log.append(lost(session), [(log.events.Resumed("again"), {})])
    session.refresh_from_db()
    return session.losses


def under(session: Session) -> log.Lease:
    return log.Lease(session.id, "next", Session.objects.get(id=session.id).claims)


def test_a_session_that_was_paused_all_along_is_not_to_blame_for_a_lost_engine():
    session, lease = claimed()
    said(lease, "pause")
    assert [again(session) for _ in range(3)] == [1, 1, 1], "the first engine may have worked on it"
    said(under(session), "resume")
    assert again(session) == 2


WAITS = {
    "an agent": log.events.Progress("Waiting for a candidate (step 1)", "receive"),
    "a key": log.events.KeyWanted("00", 1, "https://a.example", "m", 9e9),
}


@pytest.mark.parametrize("who", WAITS)
def test_nor_is_one_that_waits_for(who):
    session, lease = claimed()
    log.append(lease, [(WAITS[who], {}), (log.events.Progress("Waiting", "wait"), {})])
    assert [again(session) for _ in range(3)] == [0, 0, 0]
    said(under(session), "try")
    assert [again(session) for _ in range(2)] == [1, 2], "from then on it works"
