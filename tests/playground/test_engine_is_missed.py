"""Who watches a session is told that its engine was lost, from its missed heartbeats on, not when its lease is over."""

from datetime import timedelta

import pytest
from django.utils import timezone

from playground import conf, engines
from playground.models import Engine, Session

pytestmark = pytest.mark.django_db


def running(silent: float, lease_left: float = 10.0, device: str = "auto") -> Session:
    """A session whose engine was last heard `silent` seconds ago."""
    now = timezone.now()
    Engine.objects.create(id="worker", serves="modelled:h200", seen=now - timedelta(seconds=silent))
    return Session.objects.create(
        title="t", spec={}, device=device, state=Session.RUNNING, engine_id="worker",
        lease_until=now + timedelta(seconds=lease_left),
    )  # fmt: skip


def text(session: Session) -> str:
    return engines.state_message(session)["text"]


def test_an_engine_that_beats_is_not_spoken_of():
    assert text(running(silent=conf.get("UCUTLASS_LEASE_SECONDS") / 5 + 1)) == ""


def test_an_engine_that_missed_its_beats_is_lost_before_its_lease_ends():
    session = running(silent=8.0)
    assert session.lease_until > timezone.now()
    assert "was lost" in text(session) and "continues when an engine is started" in text(session)


def test_who_takes_over_is_told_where_there_is_one():
    session = running(silent=8.0)
    Engine.objects.create(id="other", serves="modelled:h200")
    assert "Another continues it" in text(session)


def test_an_engine_without_a_gpu_takes_nothing_over_that_needs_one():
    session = running(silent=8.0, device="cuda")
    Engine.objects.create(id="other", serves="modelled:h200")
    assert "Another continues it" not in text(session)


def test_an_engine_that_left_no_row_is_lost_too():
    session = running(silent=0.0)
    Engine.objects.all().delete()
    assert "was lost" in text(session)
