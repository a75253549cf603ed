"""A function of the language has a way from PyTorch and back: a new one in dsl.functions fails here for each table that
lacks it."""

import pytest

pytest.importorskip("torch")

from dsl import functions
from dsl.ir import Call, Load, Number
from engine.evaluate.candidate.allowed_aten import ALLOWED
from engine.evaluate.integrity.texts.names import COMPUTE
from engine.evaluate.reference import eager_graph
from engine.strategies.planner.lowering import pointwise
from sol.cost.op_table import POINTWISE

# ATen's operations that become a function of another name, with their arguments.
SPELLED = {"gelu_tanh": ("gelu", {"approximate": "tanh"}), "min": ("minimum", {}), "max": ("maximum", {})}
MEANT = {"neg": "mul", "hardtanh": "clamp"}  # what an operation becomes, if not the function of its name
NAMES = sorted({**functions.TABLE, **functions.INDEXED})


def spelled(name: str) -> tuple[str, dict]:
    return SPELLED.get(name, (name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_a_pasted_module_that_uses_it_gets_a_program(name):
    op, attributes = spelled(name)
    assert op in pointwise.OPS, f"engine.strategies.planner.lowering.pointwise.OPS lacks {op}"
    tensors = 2 if op in ("minimum", "maximum") else sum(not a.number for a in functions.EVERY[name].args)
    operands = [Load(f"x{i}", ()) for i in range(tensors)]
    expression = pointwise.OPS[op](operands, attributes)
    assert isinstance(expression, Call) and expression.fn == MEANT.get(name, name)
    assert all(isinstance(a, Load | Number) for a in expression.args)


@pytest.mark.parametrize("name", NAMES)
def test_its_cost_is_known(name):
    assert spelled(name)[0] in POINTWISE, "sol.cost.op_table.POINTWISE lacks it"


@pytest.mark.parametrize("name", NAMES)
def test_pytorch_computes_it_for_a_pasted_program_and_beside_regions(name):
    op, _ = spelled(name)
    assert op in {**eager_graph._UNARY, **eager_graph._BINARY, **eager_graph._OTHERS}, "eager_graph lacks it"
    assert op in ALLOWED, "engine.evaluate.candidate.allowed_aten lacks it"


@pytest.mark.parametrize("name", sorted(set(functions.NAMED) - {"abs", "gelu_tanh", "min", "max"}))
def test_a_raw_kernel_that_only_calls_pytorchs_is_named_as_such(name):
    assert name in COMPUTE, "engine.evaluate.integrity.texts.names.COMPUTE lacks it"
