"""A new session that a person forked from another keeps what that one had for its best when it was forked."""

import pytest

from playground.models import Session
from playground.sharing import snapshots
from tests.playground.test_best_of_a_session import judged, session_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def original():
    return session_of(judged(1, 1.0, True))[0]


def provenance(client, fork_of):
    body = {"source": "class Model: ..."}
    reply = client.post(f"/api/sessions?fork_of={fork_of}", body, content_type="application/json")
    assert reply.status_code == 201, reply.content
    return client.get(f"/api/sessions/{reply.json()['id']}").json()["provenance"]


def test_the_speedup_and_its_baseline_are_kept_and_no_link(client, original):
    assert provenance(client, original.id) == {"forked": {"speedup": 2.0, "baseline": "eager_f16"}}


def test_a_session_without_a_best_and_one_that_is_gone_say_nothing(client):
    slower, _ = session_of(judged(1, 4.0, False))
    assert provenance(client, slower.id) == provenance(client, "gone") == provenance(client, "") == {}


def test_a_snapshot_of_a_fork_keeps_it(original):
    fork = {"forked": {"speedup": 3.0, "baseline": "eager"}}
    Session.objects.filter(id=original.id).update(provenance=fork)
    original.refresh_from_db()
    copy = snapshots.take(original, source=True, transcript=False).session
    assert copy.provenance["snapshot"] and copy.provenance["forked"] == fork["forked"]
