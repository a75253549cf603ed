"""A reply is read as its schema however a model wraps it, and no text takes long."""

import time

import pytest
from pydantic import BaseModel, RootModel

from engine.llm.reader import read
from engine.strategies.api import Ask


class Plan(BaseModel):
    tile: int
    why: str = ""


class Plans(RootModel[list[Plan]]):
    pass


READABLE = {
    "alone": '{"tile": 64}',
    "in a fence": '```json\n{"tile": 64}\n```',
    "between sentences": 'I think {tile} is small. So:\n{"tile": 64}\nThat is all {really}.',
    "trailing commas": '{"tile": 64, "why": "a, }", }',
    "a line end in a string": '{"tile": 64, "why": "two\nlines"}',
    "after a draft": 'First {"tile": 32}. No: {"tile": 64}.',
    "after code": "void f() { if (x) { g(\"}\"); } }\n" * 200 + '{"tile": 64}',
    "after an open quote": 'a 5" pipe { and "\n{"tile": 64}',
    "another object after it": '{"tile": 64}\n{"note": 1}',
    "other languages": 'Voilà, 答え: {"tile": 64, "why": "größer ist schneller 🚀"} конец',
}  # fmt: skip


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE)
def test_the_object_is_taken(text):
    value, error = read(text, Plan)
    assert value is not None and value.tile == 64 and error == ""


def test_braces_and_commas_in_strings_stay():
    assert read('{"tile": 1, "why": "{,} \\" ,]",}', Plan)[0].why == '{,} " ,]'


def test_a_list_is_read_where_a_list_is_expected():
    assert [p.tile for p in read('Two: [{"tile": 1}, {"tile": 2},]', Plans)[0].root] == [1, 2]


UNREADABLE = {
    "": "the reply: it is empty",
    " \n": "the reply: it is empty",
    "no": "the reply: it holds no JSON object",
    '{"tile": "big"}': "tile: ",
    'Here: {"tile": "big"}': "tile: ",
    '{"answer": {"tile": 64}}': "tile: Field required",
    '{"tile": 64': "the reply: Invalid JSON",
    '{"tile": "\\ud800"}': "the reply: Invalid JSON",
}


@pytest.mark.parametrize(("text", "error"), UNREADABLE.items())
def test_what_is_wrong_is_said(text, error):
    value, words = read(text, Plan)
    assert value is None and words.startswith(error)


HOSTILE = {
    "open brackets": "{" * 2_000_000,
    "deep": '{"a":' * 400_000,
    "open strings": '{"' * 1_000_000,
    "backslashes": '{"' + "\\" * 2_000_000,
    "pairs": "{}" * 1_000_000,
    "commas": "{" + ", " * 1_000_000 + "}",
    "spaces": "{" + " " * 2_000_000 + "}",
    "closed at the end": "{ " * 60 + " " * 2_000_000 + "}" * 60,
    "a long number": '{"tile": ' + "9" * 2_000_000 + "}",
    "fences": "```" * 700_000,
    "objects": '{"tile": "x"}' * 150_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_two_megabytes_of_anything_are_read_in_bounded_time(text):
    began = time.process_time()
    assert read(text, Plan)[0] is None
    assert time.process_time() - began < 2


def test_a_verb_reads_with_the_same_rule():
    assert Ask("plan", "?", Plan).parsed("```\n{'tile'}\n{\"tile\": 64,}```")[0] == Plan(tile=64)
    assert Ask("plan", "?").parsed("anything") == (None, "")
