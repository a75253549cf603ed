"""Check as you type, generate on request: what the editor of the page stands on."""

import time

import pytest

from playground.language import examples, service

PROGRAM = """program layer(x: f16[1024, 4096], w: f16[4096, 4096], b: f16[4096]) -> f16[1024, 4096] {
"""


def post(client, path, text):
    return client.post(path, {"text": text}, content_type="application/json")


@pytest.fixture(params=[e for e in examples.all_examples() if e["kind"] == "program"], ids=lambda e: e["id"])
def example(request):
    return request.param["text"]


def test_each_example_compiles_with_a_prediction_and_a_line_map(client, example):
    reply = post(client, "/api/compile", example).json()
    assert reply["ok"] and reply["diagnostics"] == [] and reply["sources"], reply
    assert reply["prediction"]["kind"] == "predicted" and reply["prediction"]["ms"] > 0
    lines = reply["resolved"].count("\n") + 1
    products = [r for r in reply["figures"]["roofline"]["rows"] if r["what"] == "trial"]
    assert products and all(0 < r["share of roof"] <= 1 for r in products), "no product beats its own roof"
    assert sum(r["ms"] for r in reply["figures"]["breakdown"]["rows"]) == pytest.approx(
        reply["prediction"]["ms"], rel=1e-3
    )
    for source in reply["sources"].values():
        for line, first, last in source["line_map"]:
            assert 1 <= line <= lines and 1 <= first <= last <= source["lines"]


def test_the_resolved_text_leaves_no_choice_and_checks_again(client, example):
    resolved = post(client, "/api/check", example).json()["resolved"]
    assert "auto" not in resolved
    assert post(client, "/api/check", resolved).json()["resolved"] == resolved


def test_a_mistake_has_a_code_a_place_and_a_caret(client):
    reply = post(client, "/api/check", PROGRAM).json()
    assert reply["ok"] is False and reply["resolved"] is None
    first = reply["diagnostics"][0]
    assert first["code"] and first["line"] >= 1 and first["col"] >= 1 and "^" in first["rendered"]
    assert post(client, "/api/compile", PROGRAM).json()["sources"] == {}


ODD = ["", " ", *(c * 60_000 for c in "({-x"), "é" * 30_000, "\r\n" * 30_000]


@pytest.mark.parametrize("text", ODD)
def test_any_text_is_answered_quickly(client, text):
    service.check.cache_clear()
    begun = time.process_time()
    assert post(client, "/api/check", text).json()["ok"] is False
    assert time.process_time() - begun < 2, "seconds of a core, however busy the machine is"


def test_a_text_over_the_limit_is_refused(client):
    assert post(client, "/api/check", "x" * 65_537).status_code == 413


def test_modules_among_the_examples_are_read_and_never_run():
    modules = [e for e in examples.all_examples() if e["kind"] == "module"]
    assert all("class " in e["text"] for e in modules)
    assert len({e["id"] for e in examples.all_examples()}) == len(examples.all_examples())


def test_what_a_first_visitor_is_shown_is_there_and_first():
    for kind, names in examples.FEATURED.items():
        shown = [e["id"] for e in examples.all_examples() if e["kind"] == kind]
        assert tuple(shown[: len(names)]) == names and len(set(names)) == len(names)
