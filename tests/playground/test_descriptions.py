"""Descriptions in the database: one engine takes each, a visitor who goes stops the model, and rows do not stay."""

import threading
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from playground import retention
from playground.access.answers import Refused
from playground.live import descriptions, desk
from playground.live.desk import Desk
from playground.models import Description, Engine
from tests.engine.llm.server import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
DONE = {"module": "class Model: ...", "sentence": "s", "assumed": [], "model": "m", "reason": "", "turns": 1}
WORDS = {"words": {"model": "m", "host": "h"}}


class Model:
    """Answers when it may; `asked`: what it was asked; `stopped`: calls that ended by a stop."""

    def __init__(self, answers: bool = True):
        self.go = threading.Event()
        self.asked, self.stopped = [], 0
        if answers:
            self.go.set()

    def __call__(self, text, address, cancelled):
        self.asked.append((text, address))
        while not self.go.wait(0.01):
            if cancelled():
                self.stopped += 1
                return {"module": "", "reason": "The session was stopped before this was answered."}
        return DONE


@pytest.fixture
def opened():
    """opened(model): an engine that answers by it, and its desk."""
    desks, threads = [], []

    def begin(model, name="e1"):
        Engine.objects.get_or_create(id=name, serves="modelled:h200", device=WORDS)
        desks.append(Desk(name, model, every=0.02))
        threads.append(threading.Thread(target=desks[-1].run))
        threads[-1].start()
        return desks[-1]

    yield begin
    for one in desks:
        one.close()
    for thread in threads:
        thread.join(10)


def state(row):
    return descriptions.look(Description.objects.get(id=row.id))["state"]


def test_two_engines_answer_each_description_once(opened):
    models = Model(), Model()
    for number, model in enumerate(models):
        opened(model, f"e{number}")
    rows = [descriptions.ask(f"a{n}", f"words {n}") for n in range(12)]
    wait_for(lambda: all(state(row) == "done" for row in rows))
    assert sorted(models[0].asked + models[1].asked) == sorted((f"words {n}", f"a{n}") for n in range(12))


def test_an_engine_has_a_few_at_a_time_in_their_order(opened):
    model = Model(answers=False)
    opened(model)
    rows = [descriptions.ask(f"a{n}", f"words {n}") for n in range(4)]
    wait_for(lambda: len(model.asked) == desk.AT_ONCE)
    time.sleep(0.2)
    assert [text for text, _ in model.asked] == ["words 0", "words 1"]
    assert [state(row) for row in rows] == ["writing", "writing", "waiting", "waiting"]


def test_a_page_that_looks_no_more_stops_the_model(opened):
    model = Model(answers=False)
    opened(model)
    row = descriptions.ask("a", "words")
    wait_for(lambda: state(row) == "writing")
    Description.objects.filter(id=row.id).update(seen=timezone.now() - timedelta(seconds=4))
    assert state(row) == "writing" and Description.objects.get(id=row.id).seen > timezone.now() - timedelta(seconds=2)
    Description.objects.filter(id=row.id).update(seen=timezone.now() - 2 * desk.GONE)
    wait_for(lambda: model.stopped == 1)
    gone = descriptions.ask("b", "other words")
    Description.objects.filter(id=gone.id).update(seen=timezone.now() - 2 * desk.GONE)
    time.sleep(0.2)
    assert len(model.asked) <= 2, "what nobody waits for is not asked"


def test_an_engine_that_ends_says_so(opened):
    opened = opened(Model(answers=False))
    row = descriptions.ask("a", "words")
    wait_for(lambda: state(row) == "writing")
    opened.close()
    answer = descriptions.look(Description.objects.get(id=row.id))
    assert answer["state"] == "failed" and answer["error"] == "The engine was stopped meanwhile."


def test_a_mistake_of_the_engine_is_an_answer(opened):
    def broken(text, address, cancelled):
        raise RuntimeError("a secret")

    opened(broken)
    row = descriptions.ask("a", "words")
    wait_for(lambda: state(row) == "failed")
    assert descriptions.look(Description.objects.get(id=row.id))["error"] == "The engine made a mistake (RuntimeError)."


def test_where_the_last_engine_with_a_model_goes_the_page_is_told(opened):
    Engine.objects.create(id="e1", serves="modelled:h200", device=WORDS)
    row = descriptions.ask("a", "words")
    assert state(row) == "waiting"
    Engine.objects.update(device={"words": {"missing": "no key"}})
    assert descriptions.look(row)["error"] == "No engine with a model is running any more."
    assert descriptions.model() == {"missing": "no key", "fix": "The rules still read your words."}


def test_the_places_of_an_address_and_of_all(monkeypatch):
    monkeypatch.setattr(desk, "MOST", 3)
    for n in range(3):
        descriptions.ask(f"a{n}", "words")
    with pytest.raises(Refused, match="Too many descriptions"):
        descriptions.ask("a9", "words")
    Description.objects.filter(origin="a0").update(seen=timezone.now() - 2 * desk.GONE)
    descriptions.ask("a1", "words")
    with pytest.raises(Refused, match="2 descriptions from this address"):
        descriptions.ask("a1", "words")


def test_rows_do_not_stay(opened):
    old = descriptions.ask("a", "words")
    Description.objects.filter(id=old.id).update(created=timezone.now() - 2 * desk.EXPIRES)
    retention.sweep()
    assert not Description.objects.exists()
    old = descriptions.ask("a", "words")
    Description.objects.filter(id=old.id).update(created=timezone.now() - 2 * desk.EXPIRES)
    opened(Model())
    wait_for(lambda: not Description.objects.filter(id=old.id).exists())
