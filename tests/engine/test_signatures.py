"""A program that prepacks may read the module's weights, and nothing that is new in each call."""

import dataclasses

import pytest

from dsl.check.program import check
from engine import signatures
from engine.devices import Problem, TrialError
from engine.strategies.problem import prepare
from sol.hardware import load
from tests.engine.graphs import Builder

PACKED = """program p(x: f32[256, 512], w: f32[512, 512]) -> f32[256, 512] {
  packed = transform(%s) { to f16 prepack }
  again = transform(packed) { to bf16 prepack }
  cast = transform(%s) { to bf16 }
  y = gemm(%s) { store f32 }
  return y
}
"""
OF_THE_WEIGHT = PACKED % ("w", "x", "cast, again.T")
OF_THE_INPUT = PACKED % ("x", "w", "again, cast.T")


def product():
    g = Builder()
    return g.graph(g.op("linear", [g.input("x", (256, 512)), g.parameter("w", (512, 512))], (256, 512)))


@pytest.fixture(scope="module")
def problem():
    return prepare(Problem("", "module", product()), ("tf32", "bf16"), load("h200"))


def test_a_weight_may_be_prepacked(problem):
    inputs, _ = problem.bind(OF_THE_WEIGHT)
    assert [b.tensor for b in inputs] == ["x", "w"]
    assert check(OF_THE_WEIGHT).program.packed == {"packed": ("w",), "again": ("w",)}


def test_an_input_may_not_whose_packing_would_be_free_in_no_call(problem):
    with pytest.raises(TrialError, match="packed is prepacked, but x is an input of the module") as refused:
        problem.bind(OF_THE_INPUT)
    assert (refused.value.step, refused.value.code) == ("check", "prepack")


def test_nor_what_the_module_computes_or_writes(problem):
    program, graph = check(OF_THE_WEIGHT).program, problem.graph
    inputs, _ = problem.bind(OF_THE_WEIGHT)
    tensors = {b.name: b.tensor for b in inputs}
    computed = tensors | {"w": graph.outputs[0]}
    assert "w is computed by the module" in signatures.changing_pack(program, computed, graph)
    written = dataclasses.replace(graph, outputs=(*graph.outputs, "w2"), writes=("w",))
    assert "the module writes w at every call" in signatures.changing_pack(program, tensors, written)
    assert signatures.changing_pack(program, tensors, graph) == ""
