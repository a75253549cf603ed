"""The web process reads a visitor's text in time that is linear in its length: one request must not stop the others.

Each text below is 64 KiB of a case that a backtracking pattern or a nested loop reads in quadratic time. What is linear
takes milliseconds here, what is quadratic minutes: the bound lies between them, far from both.
"""

import signal
from contextlib import contextmanager

import pytest

from dsl.check import check
from playground.access import limits, requests
from playground.language import service as language
from playground.models import Session

SIZE = 64 << 10
BOUND = 3  # seconds of processor time

BLANKS = (" ", "\n", "\t", " \n", "\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u2028", "\u3000")
WORDS = ("x", "_", "1", "1x", "é", "#", "# ", "#\n", "# a\n", "-=", '"', "'", '"""', "\ufeff", "\x00")
LINES = ("class ", "class\n", "class a\n", "program ", "program\n", " program", "\nprogram", "^", "r", 'r"""')
BRACKETS = ("(", "[", "{", "((", "()", "}", "a = gemm(", "- ", "over ", "tile ", "let a ", "epilogue ")
HEAD = "program p(a: f16[128, 128], b: f16[128, 128]) -> f16[128, 128] {\n"
BLOCK = HEAD + "  c = gemm(a, b) { "


class TooSlow(Exception):
    pass


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


def filled(head: str, unit: str, tail: str, size: int = SIZE) -> str:
    return head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail


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
    assert check(text).ok
    with within(BOUND):
        language.check.__wrapped__(text)
        language.format_.__wrapped__(text)
        for line in (1, 2, 3, 4):
            language.complete(text, line, SIZE)
            language.hover(text, line, 12)


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
