"""A session with a visitor's endpoint waits for the key first, and says so; then it asks the visitor's model."""

import io
import json
import socket
import threading

import pytest

from engine import __main__ as main
from engine.llm.client import Patience
from engine.llm.keys import KeyRequest, seal
from engine.llm.settings import load
from engine.llm.visitor import VisitorsModels
from engine.session import events
from engine.session.fold.reduce import fold
from engine.session.runner import run
from tests.engine.counting import CountingDevice, spec
from tests.engine.llm.asking import Asking, model
from tests.engine.llm.server import status

KEY = "sk-visitor-0123456789abcdef"
ENDPOINT = "https://models.example/v1"


class Box:
    """A postbox in memory with one row for each of `requests`: what differs in it from the request for the key. `log`:
    the session's, from which a key is sealed as the web process does."""

    def __init__(self, *requests, claim=1):
        self.session, self.claim, self.requests, self.log = "s", claim, list(requests), []
        self.is_empty = not requests

    def take(self):
        wanted = [e for e in self.log if isinstance(e, events.KeyWanted)]
        if not self.requests or not wanted:
            return None
        request = {"session": self.session, "claim": self.claim, "endpoint": ENDPOINT, **self.requests.pop(0)}
        return seal(KEY, KeyRequest(**request), wanted[-1].public_key)


def settings(folder, **more):
    listed = {"UCUTLASS_ENDPOINTS": f"{ENDPOINT}, https://inside.example/v1", "UCUTLASS_VAR": str(folder)}
    operator = {"OPENAI_API_KEY": "sk-operator-0123456789", "UCUTLASS_MODEL": "operators", "UCUTLASS_MODEL_PLAN": "o"}
    return load({**listed, **operator, **more})


@pytest.fixture
def reached(monkeypatch, server):
    """The checked endpoint is the scripted server: only the last step, the connection, is led here."""
    from engine.llm import visitor

    checked = visitor.visitors

    def here(base_url, key, settings, resolve):
        endpoint = checked(base_url, key, settings, resolve)
        return endpoint.__class__(server.url, endpoint.key, endpoint.whose)

    monkeypatch.setattr(visitor, "visitors", here)
    return server


def play(folder, box, endpoint=ENDPOINT, address="93.184.215.14", history=(), blobs=None, wait=900.0, control=tuple):
    """The log of a session, of which `box` gets each event as it happens."""
    models = VisitorsModels(
        settings(folder), endpoint, "visitors-model", box, resolve=lambda host, port: [address],
        patience_for_key=wait, patience=Patience(retries=0),
    )  # fmt: skip
    box.log = [e for _, e in history]
    blobs = {} if blobs is None else blobs
    options = {"device": CountingDevice(), "strategy": Asking(), "teaches": False, "memory": ""}
    for emitted in run(
        spec(trials=3), handlers={"ask": models}, history=history, read_blob=blobs.__getitem__, control=control,
        **options,
    ):  # fmt: skip
        box.log.append(emitted.event)
        blobs.update(emitted.blobs)
    return box.log


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


def test_it_waits_for_the_key_first_and_asks_the_visitors_model_with_it(reached, tmp_path):
    reached.usual = model(0.0)
    log = play(tmp_path, Box({}))
    (wanted,) = of(log, events.KeyWanted)
    assert (wanted.endpoint, wanted.model, wanted.claim, wanted.again) == (ENDPOINT, "visitors-model", 1, False)
    kinds = [e.KIND for e in log]
    assert kinds[:2] == ["session.started", "key.wanted"] and kinds.index("key.received") < kinds.index("traced")
    assert log[-1].state == "done" and {e.refusal for e in of(log, events.Answered)} == {""}
    assert {r.headers["Authorization"] for r in reached.requests} == {f"Bearer {KEY}"}
    assert {r.body["model"] for r in reached.requests} == {"visitors-model"}, "no role model of the operator"
    assert not (tmp_path / "model_tokens.json").exists(), "nothing is booked on the operator's account"
    assert KEY not in json.dumps([events.encode(e) for e in log])


def test_while_it_waits_the_page_can_say_so_and_a_stop_works(tmp_path):
    box = Box()
    waited = threading.Event()

    def control():
        waits = any(isinstance(e, events.Progress) and e.step == "wait" for e in box.log)
        if waits and not waited.is_set():
            waited.set()
            rows = [{"seq": n, "kind": e.KIND, "t": 1.0, "data": events.encode(e)} for n, e in enumerate(box.log, 1)]
            view = fold(rows)
            assert view.key.endpoint == ENDPOINT and "models.example" in view.progress.text and "until" in view.key.text
            assert view.warnings == []
            return [("stop", {})]
        return []

    log = play(tmp_path, box, control=control)
    assert waited.is_set() and (log[-1].state, log[-1].trials) == ("stopped", 0)
    assert not of(log, events.Traced), "nothing of the module ran"


def test_without_a_key_in_time_it_ends_with_the_way_out(tmp_path):
    log = play(tmp_path, Box(), wait=0.2)
    assert (log[-1].state, log[-1].code) == ("refused", "no_key") and "Fork it" in log[-1].reason
    rows = [{"seq": n, "kind": e.KIND, "t": 1.0, "data": events.encode(e)} for n, e in enumerate(log, 1)]
    assert fold(rows).key is None


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1"])
def test_a_private_address_is_refused_before_a_key_is_asked_for(tmp_path, address):
    log = play(tmp_path, Box({}), endpoint="https://inside.example/v1", address=address)
    assert (log[-1].state, log[-1].code) == ("refused", "endpoint") and "private network" in log[-1].reason
    assert not of(log, events.KeyWanted)


def test_an_endpoint_that_the_operator_does_not_list_is_refused(tmp_path):
    log = play(tmp_path, Box({}), endpoint="https://elsewhere.example/v1")
    assert log[-1].code == "endpoint" and f"The operator allows: {ENDPOINT}" in log[-1].reason


@pytest.mark.parametrize("other", [{"claim": 7}, {"session": "another"}, {"endpoint": "https://inside.example/v1"}])
def test_a_key_for_another_request_is_dropped_and_it_waits_on(reached, tmp_path, other):
    reached.usual = model(0.0)
    box = Box(other, {})
    log = play(tmp_path, box)
    assert box.requests == [] and log[-1].state == "done"
    (dropped,) = [e for e in of(log, events.Progress) if e.text.startswith("A key came that does not fit")]
    assert next(iter(other)) in dropped.text and KEY not in dropped.text


def test_another_engine_asks_again_with_another_pair(reached, tmp_path):
    reached.usual = model(0.0)
    blobs = {}
    whole = play(tmp_path, Box({}), blobs=blobs)
    (first,) = of(whole, events.KeyWanted)
    cut = whole.index(of(whole, events.Answered)[0]) + 1
    reached.requests.clear()
    log = play(tmp_path, Box({}, claim=2), history=list(enumerate(whole[:cut], 1)), blobs=blobs)
    again = of(log, events.KeyWanted)[1]
    assert again.again and again.claim == 2 and again.public_key != first.public_key
    assert "typed again" in again.text and log[-1].state == "done"
    assert len(reached.requests) == 2, "the turn that was answered is not asked again"


def test_a_wrong_key_is_named_in_one_sentence_without_the_key(reached, tmp_path):
    reached.usual = status(401, f"Incorrect API key provided: {KEY[:9]}****{KEY[-4:]} or {KEY}")
    log = play(tmp_path, Box({}))
    (answered,) = of(log, events.Answered)
    assert answered.refusal == "key_refused" and "does not accept the key (status 401). Fork it" in answered.reason
    text = json.dumps([events.encode(e) for e in log])
    assert KEY not in text and KEY[:9] not in text and KEY[-4:] not in text


def test_an_exception_that_names_the_key_is_logged_without_it(reached, tmp_path, monkeypatch):
    from engine.llm import handler

    def broken(endpoint, *arguments):
        raise ValueError(f"illegal header value 'Bearer {endpoint.key}'")

    monkeypatch.setattr(handler, "complete", broken)
    log = play(tmp_path, Box({}))
    (answered,) = of(log, events.Answered)
    assert answered.refusal == "broken" and "illegal header value 'Bearer [key]'" in answered.reason
    assert KEY not in json.dumps([events.encode(e) for e in log])


def on_the_command_line(monkeypatch, tmp_path, typed, address="93.184.215.14"):
    """The handler of a session of `python -m engine optimize`, with `typed` on the standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **more: [(0, 0, 0, "", (address, port))])
    return main._handlers(settings(tmp_path), spec(strategy="chain", endpoint=ENDPOINT, model="theirs"))["ask"]


def test_on_the_command_line_the_key_is_read_from_the_terminal(monkeypatch, tmp_path):
    asks = on_the_command_line(monkeypatch, tmp_path, f"{KEY}\n")
    assert (asks.endpoint.key, asks.endpoint.address, asks.endpoint.whose) == (KEY, "93.184.215.14", "visitor")
    assert asks.settings.model_for("plan") == "theirs" and KEY not in repr(asks.endpoint)
    for typed, address, words in (("\n", "8.8.8.8", "no key"), (KEY, "10.0.0.1", "private network")):
        with pytest.raises(main.BadInput, match=words) as e:
            on_the_command_line(monkeypatch, tmp_path, typed, address)
        assert KEY not in str(e.value)
