"""Products and convolutions in tf32 by `cute` on a real GPU: within the tolerance of their class, of every kind."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from engine.devices import Candidate, Problem
from engine.strategies.planner.lowering import program_graph
from sol.hardware import load
from tests.dsl.lower.cute.tensor_floats import texts

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", texts())
def test_it_is_right(cuda, name):
    text = texts()[name]
    compiled = generate(check(text).program, load("h200").sms)
    assert list(compiled.sources) == ["cute"]
    cuda.open(Problem(text, "program", program_graph.graph_of(check(text).program), 1), lambda: False)
    try:
        one = Candidate(
            1, compiled.resolved, compiled.text, "tf32", "cute", compiled.sources,
            *program_graph.bindings(compiled.resolved),
        )  # fmt: skip
        assert cuda.build(one).how == "machine code"
        right = cuda.validate(one)
        assert right.error <= right.tolerance
    finally:
        cuda.close()
