"""What an owner hands in over the API: told apart by its text, refused with the way out, and never opened as code."""

import json

import pytest
from django.utils import timezone

from engine.session.kernel_text import EXAMPLES
from playground.access import limits
from playground.models import Command, Session
from tests.engine.integrity import zoo

pytestmark = pytest.mark.django_db
PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"
WRONG = PROGRAM.replace("return y", "return z")
PYTHON, CUDA = EXAMPLES["python"], EXAMPLES["cuda"]


@pytest.fixture
def session(client):
    body = {"source": zoo.module("softmax"), "classes": ["fp8", "f16", "tf32"]}
    return client.post("/api/sessions", body, content_type="application/json").json()


def hand_in(client, session, **data):
    body = {"kind": "try", "data": data, "control_token": session["control_token"]}
    return client.post(f"/api/sessions/{session['id']}/commands", body, content_type="application/json")


def look(client, text, **more):
    return client.post("/api/tries/check", {"text": text, **more}, content_type="application/json")


@pytest.mark.parametrize(
    ("data", "columns"),
    [
        ({"program": PROGRAM}, {"program": PROGRAM}),
        ({"program": WRONG}, {"program": WRONG}),  # it parses, and the engine says what is wrong with it
        ({"program": PYTHON}, {"program": PYTHON, "form": "kernel", "language": "python"}),
        ({"program": CUDA, "cls": "f32"}, {"program": CUDA, "form": "kernel", "language": "cuda", "cls": "f32"}),
        (
            {"program": "def mine(x):\n    return x", "form": "kernel", "entry": "mine", "cls": "tf32"},
            {"program": "def mine(x):\n    return x", "form": "kernel", "language": "python", "cls": "tf32",
             "entry": "mine"},
        ),
    ],
)  # fmt: skip
def test_what_is_handed_in_reaches_the_engine_with_what_it_is(client, session, data, columns):
    assert hand_in(client, session, **data).status_code == 202
    assert Command.objects.get().data == columns


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        ({"program": " \n"}, 422, "There is no program or kernel to try."),
        ({"program": "x"}, 400, "Line 1: this is no program of the language"),
        ({"program": "program p(x: f16[4]) -> f16[4] {\n  y = \n}"}, 400, "Line 3: this is no program"),
        ({"program": PYTHON, "form": "program"}, 400, "Line 1: this is no program of the language"),
        ({"program": 7}, 422, "There is no program or kernel to try."),
        ({"program": PYTHON, "language": "cuda"}, 422, "This reads as Python, and it was sent as CUDA C++."),
        ({"program": PROGRAM, "form": "kernel", "language": "python"}, 422, "Choose μCUTLASS program."),
        ({"program": "a + b", "form": "kernel"}, 422, 'Say \\"language\\": \\"cuda\\" or'),
        ({"program": zoo.module("softmax")}, 422, "Rename it to `ModelNew`"),
        ({"program": "__global__ void k(float* x) {}"}, 422, 'Define `extern \\"C\\" int run(const Tensor* in'),
        ({"program": PYTHON, "entry": "other"}, 422, "the text does not define `other`"),
        ({"program": PYTHON, "entry": "a b"}, 422, "letters, digits and _"),
        ({"program": PYTHON, "entry": "x" * 200}, 422, "letters, digits and _"),
        ({"program": PYTHON, "cls": "fp8"}, 422, "cls: one of f16, tf32, f32 in this session."),
        ({"program": PYTHON, "cls": "bf16"}, 422, "cls: one of f16, tf32, f32 in this session."),
        ({"program": PYTHON, "form": "module"}, 422, "form: one of program, kernel."),
        ({"program": PYTHON, "language": "rust"}, 422, "language: one of cuda, python."),
        ({"program": PYTHON, "why": "x"}, 422, "A try has no field 'why'."),
        ({"program": PYTHON + "#" * 70_000}, 413, "The kernel is 69 KiB; the limit is 64 KiB."),
        ({"program": PYTHON + "\0"}, 422, "NUL"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_the_way_out(client, session, data, status, words):
    reply = hand_in(client, session, **data)
    assert reply.status_code == status and words in json.dumps(reply.json(), ensure_ascii=False), reply.json()
    assert reply.json()["fix"] and not Command.objects.exists()


def test_a_refusal_for_want_of_an_entry_shows_a_kernel_that_would_do(client, session):
    reply = hand_in(client, session, program="import torch\ndef softmax(x): return x").json()
    assert reply["code"] == "no_entry" and reply["field"] == "program" and reply["error"].endswith("defines softmax.")
    assert hand_in(client, session, program=reply["example"]).status_code == 202


def test_once_the_module_has_limits_a_kernel_declares_a_class_that_has_one(client, session):
    Session.objects.update(summary={"bounds": {"f16": 0.1, "fp8": 0.05}})
    reply = hand_in(client, session, program=PYTHON, cls="tf32")
    assert reply.status_code == 422 and reply.json()["error"] == "cls: one of f16 in this session."
    assert "first class that has a limit" in reply.json()["fix"]
    assert hand_in(client, session, program=PYTHON, cls="f16").status_code == 202


def waits(client, session, kind="try", **data):
    body = {"kind": kind, "data": data, "control_token": session["control_token"]}
    reply = client.post(f"/api/sessions/{session['id']}/commands", body, content_type="application/json")
    assert reply.status_code == 202
    return reply.json().get("waits")


def test_a_try_of_a_paused_session_is_said_to_wait(client, session):
    assert waits(client, session, program=PROGRAM) is None
    assert waits(client, session, "pause") is None and waits(client, session, program=PROGRAM) == "paused"
    Command.objects.update(handled=timezone.now())  # the engine has obeyed: its log says that the session is paused
    Session.objects.update(summary={"paused": True})
    assert waits(client, session, program=PROGRAM) == "paused"
    waits(client, session, "resume")
    assert waits(client, session, program=PROGRAM) is None


def test_a_session_of_a_program_takes_no_kernel(client):
    body = {"source": PROGRAM, "source_kind": "program"}
    session = client.post("/api/sessions", body, content_type="application/json").json()
    reply = hand_in(client, session, program=PYTHON)
    assert reply.status_code == 422 and "no module to compare a kernel with" in reply.json()["error"]
    assert hand_in(client, session, program=PROGRAM).status_code == 202


def test_a_text_is_looked_at_before_it_is_handed_in(client):
    assert look(client, PYTHON).json() == {
        "looks": "python", "name": "a Python kernel", "language": "python", "error": "", "fix": "", "example": "",
        "code": "",
    }  # fmt: skip
    assert look(client, PROGRAM).json()["name"] == "a μCUTLASS program"
    assert look(client, "make it fast").json()["looks"] == ""
    reply = look(client, PYTHON, language="cuda").json()
    assert (reply["looks"], reply["code"], reply["fix"]) == ("python", "wrong_language", "Choose Python.")
    assert look(client, "#" * 70_000).status_code == 413


def test_the_name_of_an_entry_is_limited_before_it_is_looked_for(client):
    reply = look(client, PYTHON, entry="x" * 60_000)
    assert reply.status_code == 422 and reply.json()["error"].startswith("entry: a name of at most 80")
    assert look(client, PYTHON, entry="kernel").json()["error"] == ""


def test_looking_counts_against_the_checks_of_an_address(client, monkeypatch):
    monkeypatch.setattr(limits, "checks", limits.Limit(2, 60))
    assert [look(client, PYTHON).status_code for _ in range(3)] == [200, 200, 429]


def test_the_form_of_a_try_is_documented(client):
    schema = client.get("/api/openapi.json").json()
    fields = schema["components"]["schemas"]["TryIn"]["properties"]
    assert set(fields) == {"program", "form", "language", "entry", "cls", "change"}
    assert "sandbox" in schema["components"]["schemas"]["TryIn"]["description"]
    assert "TryIn" in str(schema["components"]["schemas"]["CommandIn"]["properties"]["data"])
    assert schema["paths"]["/api/tries/check"]["post"]["summary"]


@pytest.mark.parametrize("language", ["python", "cuda"])
def test_no_text_is_parsed_compiled_or_run_by_the_web_process(client, session, monkeypatch, language):
    """Each hostile file of the sandbox's zoo is taken or refused as text."""
    import ast
    import builtins
    import ctypes
    import subprocess

    def opened(*_, **__):
        raise AssertionError("the web process opened a pasted text as code")

    for owner, name in ((ast, "parse"), (builtins, "exec"), (ctypes, "CDLL"), (subprocess, "Popen")):
        monkeypatch.setattr(owner, name, opened)
    folder, suffix = ("hostile", "*.py") if language == "python" else ("cuda_cheats", "*.cu")
    for path in sorted((zoo.HERE / folder).glob(suffix))[:40]:
        text = path.read_text()
        assert look(client, text).status_code == 200
        assert hand_in(client, session, program=text, form="kernel", language=language).status_code in (202, 422, 429)
    assert Session.objects.count() == 1
