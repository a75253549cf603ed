"""POST /api/words: a module, or a refusal that names the way out; nothing is started."""

import pytest

from playground.access import limits
from playground.models import Session
from playground.words.writer import EXAMPLES

pytestmark = pytest.mark.django_db


def ask(client, text):
    return client.post("/api/words", {"text": text}, content_type="application/json")


def test_words_become_a_module_and_no_session(client):
    reply = ask(client, EXAMPLES[0])
    assert reply.status_code == 200
    answer = reply.json()
    assert set(answer) == {"module", "understood", "assumed", "not_understood", "by"} and answer["by"] == "rules"
    assert "nn.Linear(1024, 4096, dtype=torch.float16)" in answer["module"]
    assert Session.objects.count() == 0


def test_the_module_is_what_a_session_takes(client):
    module = ask(client, "softmax of a 64x128 matrix").json()["module"]
    started = client.post("/api/sessions", {"source": module}, content_type="application/json")
    assert started.status_code == 201
    assert Session.objects.get().title == "A PyTorch module", "until it is traced"


def test_a_refusal_names_the_words_and_the_way_out(client):
    reply = ask(client, "cross entropy of something")
    assert reply.status_code == 422
    body = reply.json()
    assert "no operation" in body["error"] and "for example" in body["fix"]
    assert body["not_understood"] == [{"text": "cross entropy", "line": 1, "col": 1}]


def test_the_limits_are_those_of_checks(client, monkeypatch):
    assert ask(client, "relu " * 20_000).status_code == 413
    monkeypatch.setattr(limits, "checks", limits.Limit(1, 60))
    assert ask(client, "relu").status_code == 200
    late = ask(client, "relu")
    assert late.status_code == 429 and "Too many descriptions" in late.json()["error"]


def test_the_words_of_the_language_are_still_listed(client):
    assert "stages" in client.get("/api/words").json()
