"""A lease decides who writes; whoever lost it writes nothing more, and two rivals leave no gap between them."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from engine.session import events
from playground.live import log
from playground.models import Session, SessionEvent


def silence(session_id):
    """As if the engine had been silent for longer than its lease."""
    Session.objects.filter(id=session_id).update(lease_until=timezone.now() - timedelta(seconds=1))


@pytest.mark.django_db
def test_the_oldest_waiting_session_comes_first():
    first, second = (Session.objects.create(title=t, spec={}) for t in "ab")
    assert [log.claim("e").session_id, log.claim("e").session_id] == [first.id, second.id]
    assert log.claim("e") is None


@pytest.mark.django_db
def test_a_silent_engines_session_is_taken_and_the_silent_one_is_shut_out():
    Session.objects.create(title="t", spec={})
    old = log.claim("old")
    log.append(old, [(events.Progress("by the old"), {})])
    assert log.claim("new") is None, "the lease still runs"
    silence(old.session_id)
    new = log.claim("new")
    assert new.taken_over and not old.taken_over
    with pytest.raises(log.LeaseLost):
        log.append(old, [(events.Progress("late"), {})])
    assert log.renew([old, new]) == [old]
    assert log.append(new, [(events.Progress("by the new"), {})]) == 2


@pytest.mark.django_db
def test_the_same_engine_in_a_new_claim_does_not_revive_its_old_one():
    Session.objects.create(title="t", spec={})
    first = log.claim("engine")
    silence(first.session_id)
    log.claim("engine")
    with pytest.raises(log.LeaseLost):
        log.append(first, [(events.Progress("from the thread before"), {})])


@pytest.mark.django_db
def test_an_engine_that_overslept_goes_on_when_nobody_took_its_session():
    Session.objects.create(title="t", spec={})
    lease = log.claim("engine")
    silence(lease.session_id)
    assert log.append(lease, [(events.Progress("awake"), {})]) == 1
    assert log.renew([lease]) == []
    assert log.claim("other") is None


@pytest.mark.django_db
def test_a_released_session_is_free_at_once():
    Session.objects.create(title="t", spec={})
    log.release(log.claim("old"))
    assert log.claim("new") is not None


@pytest.mark.django_db
def test_a_session_for_a_gpu_waits_for_an_engine_with_one():
    Session.objects.create(title="t", spec={}, device="cuda")
    assert log.claim("e", serves="modelled:h200") is None
    assert log.claim("e", serves="cuda") is not None


@pytest.mark.django_db(transaction=True)
def test_two_engines_never_claim_the_same_session():
    for i in range(20):
        Session.objects.create(title=str(i), spec={})
    claims, go = [], threading.Barrier(4)

    def engine(name):
        go.wait()
        while True:
            lease = log.claim(name)
            if lease is None and not Session.objects.filter(state="queued").exists():
                break
            if lease:
                claims.append(lease.session_id)
        connection.close()

    threads = [threading.Thread(target=engine, args=(f"e{i}",)) for i in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert len(claims) == len(set(claims)) == 20


@pytest.mark.django_db(transaction=True)
def test_rivals_that_steal_from_each_other_leave_no_gap():
    """Four writers take the lease from one another while all write as fast as they can."""
    session = Session.objects.create(title="t", spec={})
    written, refused, go = [], [], threading.Barrier(4)
    deadline = time.monotonic() + 30

    def rival(name):
        go.wait()
        while len(refused) < 8 and time.monotonic() < deadline:
            silence(session.id)
            lease = log.claim(name)
            try:
                for i in range(5):
                    if lease:
                        written.append(log.append(lease, [(events.Progress(f"{name} {i}"), {})]))
            except log.LeaseLost:
                refused.append(name)
        connection.close()

    threads = [threading.Thread(target=rival, args=(f"e{i}",)) for i in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    seqs = list(SessionEvent.objects.values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1)) == sorted(written)
    assert Session.objects.get().last_seq == len(seqs)
    assert refused, "the rivals never met, so this proved nothing"
