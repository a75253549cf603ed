"""What the README promises to forget is forgotten, and nothing else."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engine.session import events
from playground import retention
from playground.live import log
from playground.models import Blob, Session, SessionEvent
from tests.playground import script

pytestmark = pytest.mark.django_db


def ended(days, **fields):
    Session.objects.create(title=f"{days} days", spec={}, **fields)
    lease = log.claim("engine")
    log.append(lease, list(script.session()))
    then = timezone.now() - timedelta(days=days)
    Session.objects.filter(id=lease.session_id).update(ended=then, created=then)
    return lease.session_id


def test_old_sessions_go_with_their_log_and_young_ones_stay():
    ended(31), ended(29)
    assert retention.sweep()[0] == 1
    assert Session.objects.get().title == "a test" and SessionEvent.objects.count() == 12


def test_a_recording_stays_for_ever():
    ended(1000, recorded=True)
    assert retention.sweep() == (0, 0)


def test_a_text_goes_with_its_last_session():
    ended(31)
    survivor = ended(1)
    Blob.objects.update(created=timezone.now() - timedelta(days=31))
    lonely, texts = script.blob("used by nobody")
    Blob.objects.bulk_create([Blob.pack(lonely, texts[lonely])])
    Blob.objects.filter(sha256=lonely).update(created=timezone.now() - timedelta(days=2))
    assert retention.sweep() == (1, 1)
    assert Blob.objects.count() == 4 and Session.objects.get().id == survivor


def test_a_fresh_text_is_left_for_the_event_that_is_about_to_name_it():
    name, texts = script.blob("young")
    Blob.objects.bulk_create([Blob.pack(name, texts[name])])
    assert retention.sweep() == (0, 0)


def test_a_session_that_nobody_ever_took_goes_too_but_not_one_at_work():
    old = timezone.now() - timedelta(days=40)
    Session.objects.create(title="waits", spec={}, created=old)
    Session.objects.create(title="runs", spec={}, created=old - timedelta(days=1))
    lease = log.claim("engine")
    assert retention.sweep()[0] == 1
    assert Session.objects.get().title == "runs"
    log.append(lease, [(events.Progress("still at work"), {})])


def test_the_days_can_be_set(monkeypatch):
    ended(5)
    monkeypatch.setenv("UCUTLASS_RETENTION_DAYS", "3")
    assert retention.sweep()[0] == 1
