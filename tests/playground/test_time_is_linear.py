"""The web process reads a visitor's text in time that is linear in its length: one request must not stop the others.

Each text below is 64 KiB of a case that a backtracking pattern or a nested loop reads in quadratic time. What is linear
takes milliseconds here, what is quadratic minutes: the bound lies between them, far from both.
"""

import functools
import json
import re
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager

import pytest

from dsl.check import check
from engine.session import kernel_text
from playground.access import bodies, limits, origins, redaction, requests
from playground.access.answers import Refused
from playground.language import reference
from playground.language import service as language
from playground.models import Session
from playground.words import scan, tokens, writer
from playground.words.request import request_of
from tests.playground.attack_texts import SIZE, attacks, filled, patterns
from tests.playground.conftest import ROOT
from tests.playground.test_web_process_is_light import SERVE

BOUND = 3  # seconds of processor time
SLOW = 0.3  # a pattern that takes longer than this backtracks: a linear one takes milliseconds

BLANKS = (" ", "\n", "\t", " \n", "\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u2028", "\u3000")
WORDS = ("x", "_", "1", "1x", "é", "#", "# ", "#\n", "# a\n", "-=", '"', "'", '"""', "\ufeff", "\x00")
LINES = ("class ", "class\n", "class a\n", "program ", "program\n", " program", "\nprogram", "^", "r", 'r"""')
BRACKETS = ("(", "[", "{", "((", "()", "}", "a = gemm(", "- ", "over ", "tile ", "let a ", "epilogue ")
HEAD = "program p(a: f16[128, 128], b: f16[128, 128]) -> f16[128, 128] {\n"
BLOCK = HEAD + "  c = gemm(a, b) { "


class TooSlow(BaseException):
    """Not an Exception, so that the API's handler of errors lets it pass."""


@contextmanager
def within(seconds: float):
    """Raises TooSlow when the block takes more seconds of this process's time, so that a busy machine changes nothing.

    The signal also ends a pattern's search in its middle.
    """

    def late(number, frame):
        raise TooSlow

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def names(unit: str) -> str:
    return ascii(unit)


@pytest.mark.parametrize("unit", [*BLANKS, *WORDS, *LINES], ids=names)
def test_a_title(unit):
    for head in ("", '"""a', "# a", "class", "program"):
        for kind in ("module", "program"):
            with within(BOUND):
                assert len(requests.title_of(filled(head, unit, "b"), kind)) <= 120


@pytest.mark.parametrize("unit", ["x", "1x", "é", "# a\n", '"', " ", "\n", *BRACKETS], ids=names)
def test_the_language_service(unit):
    text = filled(BLOCK + "epilogue ", unit, "\n}")
    with within(BOUND):
        language.check.__wrapped__(text)
        language.complete(text, text.count("\n"), SIZE)
        language.hover(text, text.count("\n"), 40)


def test_a_program_of_one_long_name():
    name = "c" * (SIZE // 2 - len(HEAD) // 2 - 30)
    text = f"{HEAD}  {name} = gemm(a, b)\n  return {name}\n}}\n"
    with within(BOUND):
        language.check.__wrapped__(text)
        language.format_.__wrapped__(text)
        for line in (1, 2, 3, 4):
            language.complete(text, line, SIZE)
            language.hover(text, line, 12)
    assert check(text).ok  # afterwards: the checker keeps its answers


def test_many_mistakes_in_a_text_of_many_lines():
    text = HEAD + "".join(f"  c{i} = gemm(z{i}, b)\n" for i in range(240)) + "\n" * 55_000 + "  return c9\n}\n"
    with within(BOUND):
        reply = language.check.__wrapped__(text)
    assert len(reply["diagnostics"]) == 480 and all("gemm" in d["rendered"] for d in reply["diagnostics"][2:])


@pytest.mark.django_db
def test_the_request_that_froze_the_server(client):
    """Issue 12: 5,000 spaces behind a docstring's first word took 10 s, 65,000 would have taken half an hour."""
    with within(BOUND):
        body = {"source": '"""a' + " " * 65_000 + "b"}
        assert client.post("/api/sessions", body, content_type="application/json").status_code == 201


@pytest.mark.django_db
def test_an_address_over_its_limit_has_nothing_read(client, monkeypatch):
    monkeypatch.setattr(limits, "sessions", limits.Limit(1, 3600))
    body = {"source": "class Model: ..."}
    wrong = client.post("/api/sessions", body | {"trials": 0}, content_type="application/json")
    assert wrong.status_code == 422, "a request that is refused does not count"
    assert client.post("/api/sessions", body, content_type="application/json").status_code == 201
    monkeypatch.setattr(requests, "spec_of", lambda asked: pytest.fail("the text was read"))
    assert client.post("/api/sessions", body, content_type="application/json").status_code == 429
    assert Session.objects.count() == 1


# ---- every pattern and scanner of the web process ----

ROOMS = ("dsl", "sol", "engine", "playground", "ucutlass_web")
# What reads only our own texts: the reference of the language, generated code, a CPU's description.
OWN = ("playground.language.reference", "dsl.lower.", "dsl.codes", "engine.export.", "sol.hardware.cpu", "sol.figures.")


@functools.cache
def modules() -> list[str]:
    """The modules of ours that a web process has imported when it has answered each kind of request."""
    environ = {"PATH": "/usr/bin:/bin", "UCUTLASS_DEBUG": "1", "DJANGO_SETTINGS_MODULE": "ucutlass_web.settings"}
    import tempfile

    with tempfile.TemporaryDirectory() as var:
        environ |= {"UCUTLASS_VAR": var, "UCUTLASS_HOSTS": "testserver"}
        done = subprocess.run([sys.executable, "-c", SERVE], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    return [m for m in loaded if m.split(".")[0] in ROOMS and not m.startswith("playground.management")]


def test_every_pattern_of_the_web_process_reads_its_worst_case_in_time():
    """The patterns are collected from the modules, so that a new one is read here without being listed."""
    collected = patterns(modules())
    mine = {p: where for p, where in collected.items() if not where.startswith(OWN)}
    assert len(mine) > 25 and {"dsl.syntax", "engine.session.kernel_text", "playground.access.redaction"} <= set(
        mine.values()
    )
    slow, calls = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (pattern, flags, searched), where in mine.items():
            compiled = re.compile(pattern, flags)
            for text in attacks(pattern, flags):
                try:
                    with within(BOUND):
                        for _ in compiled.finditer(text) if searched else (compiled.match(text),):
                            pass
                        compiled.fullmatch(text)
                        calls += 1
                except TooSlow:
                    slow.append((where, pattern, text[:20]))
                    break
    assert slow == [] and calls > 500, slow


@pytest.mark.parametrize(
    "slow", [r"(a+)+$", r"(\s+\S*)*x", r"x\s*\s*\s*y", r"(?m)^[ \t]*class[ \t]*\s+\w+:", r"(a|a)*b"]
)
def test_the_attacks_meet_a_pattern_that_backtracks(slow):
    with pytest.raises(TooSlow):
        for text in attacks(slow, 0):
            with within(SLOW):
                for _ in re.finditer(slow, text):
                    pass
                re.fullmatch(slow, text)


COMMON = (*BLANKS[:4], *WORDS, "(", "{", "/*", "//", "\\", '\\"', "run(", "def ", "class M(", '{"a":', "/c/", "%25")


@pytest.mark.parametrize("unit", COMMON, ids=names)
def test_every_scanner_of_a_kernel_a_log_line_an_address_and_a_body(unit):
    for text in (filled("", unit, ""), filled('extern "C" int run(', unit, ") {"), filled("def kernel(", unit, "):\n")):
        with within(BOUND):
            for kind in kernel_text.LANGUAGES:
                kernel_text.complaint(text, kind)
                kernel_text.complaint(text, kind, "kernel")
        with within(BOUND):
            redaction.redact(text)
            redaction.redact(f"/c/{text}")
        with within(BOUND):
            origins.foreign(f"http://{text}", text)
            origins.unreadable(text, text.encode(errors="replace").decode("latin-1"))
            reference.near(text[:64])
            reference.word_page(text)
            reference.code_page(text)
        with within(BOUND):
            for body in (text, json.dumps({"text": text}), f'{{"text": {text}'):
                try:
                    bodies.check(bodies.parsed(body.encode(errors="replace")))
                except Refused as e:
                    assert e.status in (400, 422)


DESCRIBED = (
    "relu ", "linear 8 to 8, ", "64 channels ", "3x3 ", "relu of ", "relu(", "[", "1,", "1 ", "-1 ", "8x8 times ", "1x",
    "to 1 ", "\n", "after relu ", "clamp 1 ", "sum over ", "import torch", "zzz ", "twice ",
)  # fmt: skip


@pytest.mark.parametrize("unit", DESCRIBED, ids=names)
def test_every_scanner_of_a_description(unit):
    """A description is refused above 4,000 characters; its scanners are linear all the same."""
    text = filled("sum ", unit, " relu", SIZE // 4)
    with within(BOUND):
        for part in (text, text[: writer.LONGEST]):
            try:
                writer.write(part)
                assert len(part) <= writer.LONGEST
            except tokens.Unclear as e:
                assert str(e) and e.fix
    with within(BOUND):
        try:
            request_of(scan.Scan(tokens.tokens(text)), text)
        except tokens.Unclear as e:
            assert e.fix


UNITS = (" ", '"', "(", "{", "# a\n", "program ", "let a ", "class a\n", '"""', "\\")


@pytest.mark.django_db
@pytest.mark.parametrize("unit", UNITS, ids=names)
def test_every_text_of_every_request(client, monkeypatch, unit):
    """The fields come from the API's description, so that a new one is fed here without being listed."""
    for name in ("sessions", "checks", "assists"):
        monkeypatch.setattr(limits, name, limits.Limit(10_000, 60))
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "100")
    session = client.post("/api/sessions", {"source": "class Model: ..."}, content_type="application/json").json()
    schema = client.get("/api/openapi.json").json()
    texts_sent = 0
    for path, methods in schema["paths"].items():
        if "post" not in methods:
            continue
        fields = _texts(schema, methods["post"]["requestBody"]["content"]["application/json"]["schema"])
        path = path.replace("{session_id}", session["id"])
        for field in fields:
            text = filled(BLOCK if unit in BRACKETS else "", unit, "x")
            body = {"text": "x", "source": "x", "line": 3, "col": 40, "kind": "try", "control_token": ""}
            body = {k: v for k, v in body.items() if k in fields or k in ("line", "col")} | {field: text}
            if path.endswith("/commands"):
                body = {"kind": "try", "control_token": session["control_token"], "data": {"program": text}}
            elif not path.endswith(("/complete", "/hover")):
                body = {k: v for k, v in body.items() if k not in ("line", "col")}
            with within(BOUND):
                reply = client.post(path, body, content_type="application/json")
            assert reply.status_code < 500, (path, field, reply.content[:200])
            texts_sent += 1
    assert texts_sent > 15


def _texts(schema: dict, form: dict) -> list[str]:
    """The names of the fields of a body that take a text."""
    if "anyOf" in form:  # a body that may be left out
        return [name for one in form["anyOf"] for name in _texts(schema, one)]
    if "$ref" in form:
        form = schema["components"]["schemas"][form["$ref"].rpartition("/")[2]]
    return [
        name
        for name, field in form.get("properties", {}).items()
        if "string" in json.dumps(field) or name in ("data", "options")
    ]
