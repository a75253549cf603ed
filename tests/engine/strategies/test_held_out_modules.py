"""The modules that were written down before they were ever run: each is taken, and what stays PyTorch is named."""

import json

import pytest

torch = pytest.importorskip("torch")

from engine.devices import Problem  # noqa: E402
from engine.suite.cases import PROBLEMS, beside  # noqa: E402
from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from sol.hardware import load  # noqa: E402
from tests.engine import planning  # noqa: E402
from tests.engine.small_modules import names_of  # noqa: E402

STAYS = {  # PyTorch, beside the regions
    "grouped_attention": ["repeat_interleave", "repeat_interleave"],
}


def planned(name):
    """The planner on the module at its full size, without a byte of it."""
    names = names_of(PROBLEMS / f"{name}.py")
    with torch.no_grad(), torch.device("meta"):
        model, inputs = names["Model"](*names["get_init_inputs"]()).eval(), names["get_inputs"]()
        graph = Capture(export(model, tuple(inputs))).graph()
    problem = Problem("", "module", OpGraph.from_json(json.dumps(graph)))
    return planning.planned(problem, ("tf32",), load("h200"))


@pytest.mark.parametrize("name", sorted(beside("heldout")))
def test_module(name):
    planner = planned(name)
    assert [u.op for u in planner.problem.uncovered] == STAYS.get(name, [])
    assert all(line.structures for line in planner.all)
    if name in STAYS:
        assert "PyTorch" in planner.problem.covered.text
