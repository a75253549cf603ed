"""Export over HTTP: a trial of a session, or a typed program, as a zip; the same bytes each time."""

import io
import zipfile

import pytest

from playground import recordings
from playground.models import Session

PROGRAM = """program p(x: f16[256, 512], w: f16[1024, 512]) -> f16[256, 1024] {
  y = gemm(x, w.T)
  return y
}
"""


@pytest.fixture
def recorded(db) -> Session:
    path = recordings.FOLDER / "linear_div_gelu.jsonl"
    return Session.objects.get(id=recordings.load(path))


def names(reply) -> list[str]:
    assert reply.status_code == 200 and reply["Content-Type"] == "application/zip", reply.content[:300]
    return [n.partition("/")[2] for n in zipfile.ZipFile(io.BytesIO(reply.content)).namelist()]


def test_a_trial_of_a_session(client, recorded):
    best = client.get(f"/s/{recorded.id}/export")
    assert {"module.py", "results.json", "program.ucutlass", "check.py"} <= set(names(best))
    assert best["Content-Disposition"].startswith('attachment; filename="ucutlass-')
    assert client.get(f"/s/{recorded.id}/export").content == best.content
    one = client.get(f"/s/{recorded.id}/export?trial=1")
    assert names(one) and one["Referrer-Policy"] == "no-referrer"


def test_a_trial_as_one_file(client, recorded):
    model = client.get(f"/s/{recorded.id}/export?as=modelnew")
    assert "class ModelNew(" in model.content.decode() and "model_new.py" in model["Content-Disposition"]
    book = client.get(f"/s/{recorded.id}/export?trial=1&as=notebook")
    assert book.json()["nbformat"] == 4 and "model_new.ipynb" in book["Content-Disposition"]
    assert client.get(f"/s/{recorded.id}/export?as=x").status_code == 409


@pytest.mark.parametrize("trial", ["999", "0"])
def test_a_trial_that_is_not_there(client, recorded, trial):
    reply = client.get(f"/s/{recorded.id}/export?trial={trial}")
    assert reply.status_code == 409 and f"There is no trial {trial}." in reply.content.decode()


def test_a_session_that_has_no_trial_yet(client, db):
    empty = Session.objects.create(title="t", spec={}, device="auto", control_hash="x")
    reply = client.get(f"/s/{empty.id}/export")
    assert reply.status_code == 409 and "No trial of this session" in reply.content.decode()
    assert client.get("/s/nowhere/export").status_code == 404


def test_a_typed_program(client):
    def post(text):
        return client.post("/api/export", {"text": text}, content_type="application/json")

    assert "p/cute_kernel.py" not in names(post(PROGRAM)) and "ucutlass_p/cute_kernel.py" in names(post(PROGRAM))
    assert post(PROGRAM).content == post(PROGRAM).content
    reply = post(PROGRAM.replace("gemm", "gem"))
    assert reply.status_code == 422 and reply.json()["error"].startswith("E007")
