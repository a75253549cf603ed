"""What a first visitor is offered runs: each featured module becomes a program, and nothing of it is refused."""

import json

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from dsl.check.program import check  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.session.kernel_text import has_entry, language_of  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from playground.language import examples  # noqa: E402
from sol.graph import OpGraph  # noqa: E402

FEATURED = [e for e in examples.all_examples() if e["featured"]]


@pytest.mark.parametrize("example", [e for e in FEATURED if e["kind"] == "module"], ids=lambda e: e["id"])
def test_a_featured_module_becomes_a_program(example):
    names = {}
    exec(compile(example["text"], example["id"], "exec"), names)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        arguments = names["get_init_inputs"]() if "get_init_inputs" in names else []
        model, inputs = names["Model"](*arguments).eval(), tuple(names["get_inputs"]())
    graph = OpGraph.from_json(json.dumps(Capture(export(model, inputs)).graph()))
    assert check(to_text(lower(graph).program("f16"))).ok


@pytest.mark.parametrize("example", [e for e in FEATURED if e["kind"] == "program"], ids=lambda e: e["id"])
def test_a_featured_program_is_right(example):
    assert check(example["text"]).ok


def test_a_kernel_beside_a_module_can_be_handed_in_as_it_is():
    rows = [e for e in examples.all_examples() if e["kernel"]]
    assert len(rows) >= 6 and {e["kind"] for e in rows} == {"module"}
    assert all(language_of(e["kernel"]) == "cuda" and has_entry(e["kernel"], "cuda") for e in rows)
