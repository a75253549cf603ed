"""An owner's word is handled when the log says that it was heard: an engine that is lost in between loses none."""

import pytest

from engine.session import events
from playground.live import log
from playground.live.mailbox import Leaving
from playground.models import Command, Session
from tests.playground import script

pytestmark = pytest.mark.django_db
WORDS = [("budget", {"trials": 9}), ("try", {"program": "program p"}), ("budget", {"trials": 3})]


def life(session: Session, last: int) -> list[str]:
    """The words that one engine hears at once; it is lost when it has logged `last` of them."""
    commands = []

    def run(spec, *, control, **others):
        commands.extend(control())
        for kind, data in commands[:last]:
            yield script.emitted(events.Controlled(kind, data), {})
        raise Leaving

    script.work(log.claim("engine"), run)
    return [kind for kind, _ in commands]


def test_words_that_come_together_are_handled_one_by_one():
    session = Session.objects.create(title="t", spec={"title": "t"})
    for kind, data in WORDS:
        Command.objects.create(session=session, kind=kind, data=data)
    assert life(session, last=1) == ["budget", "try", "budget"]
    assert life(session, last=0) == ["try", "budget"]
    assert life(session, last=2) == ["try", "budget"]
    assert life(session, last=0) == []
    logged = [e.data["data"] for e in session.events.filter(kind="controlled")]
    assert logged == [data for _, data in WORDS]
