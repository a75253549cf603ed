"""Under a guard what products alone read is rounded where it is made; everything else stays as the module has it."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.compile import compile as generate  # noqa: E402
from dsl.ir import DType, Normalize  # noqa: E402
from dsl.narrowed import rounded, watched_stores  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.evaluate.correctness.tolerance import verdict  # noqa: E402
from engine.strategies.planner.lowering.choice import Choice  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.strategies.planner.lowering.pipeline import program  # noqa: E402
from engine.strategies.planner.search.structures import structures  # noqa: E402
from engine.suite.cases import PROBLEMS  # noqa: E402
from sol.hardware import load  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402
from tests.engine.small_modules import Instance, compare  # noqa: E402

from .test_the_suite_is_lowered import traced  # noqa: E402

H200 = load("h200")
GUARDED = Choice(guard=True, narrow=True)
ROUNDED = {  # what each module's guarded program rounds where it is made
    "transformer_block": 8,  # both norms, q, k, v, softmax, what it weighs, the wide layer; not the residual
    "mlp_swiglu": 1,  # not the gate, which an epilogue reads
    "resnet_basic_block": 1,
    "groupnorm_residual_block": 2,  # the norms, not the convolution between them
}


@pytest.mark.parametrize("name", ROUNDED)
def test_module(name):
    problem = Instance.make(PROBLEMS / f"{name}.py", 7)
    problem.prepare()
    graph, values = traced(problem)
    lowered = lower(graph)
    checked = check(to_text(program(lowered, "f16", GUARDED)))
    assert checked.ok, [d.message for d in checked.diagnostics]
    p = checked.program
    assert sum(len(rounded(s)) for s in p.stages) == ROUNDED[name]
    inputs = [values[b.tensor].reshape(b.shape) for b in lowered.inputs]
    assert oracle.tripped(p, inputs) is None
    (out,) = oracle.run(p, inputs)
    comparison = compare(out.reshape(problem.right.shape), problem.right)
    assert verdict("tf32", comparison, problem.rounded_error("tf32")) is None


def attention(tokens: int):
    b = Builder()
    q, v = b.input("q", (2, 64, tokens)), b.input("v", (2, tokens, 32))
    p = b.op("softmax", [q], (2, 64, tokens), dim=-1)
    return b.graph(b.op("matmul", [p, v], (2, 64, 32)))


@pytest.mark.parametrize(("tokens", "scaled"), [(1024, True), (1 << 15, True), (1 << 16, False)])
def test_a_softmax_is_stored_times_a_power_of_two_that_the_product_takes_back(tokens, scaled):
    p = check(to_text(program(lower(attention(tokens)), "f16", GUARDED))).program
    softmax = next(s for s in p.stages if isinstance(s, Normalize))
    assert softmax.type.dtype is DType.F16
    assert ("epilogue acc * 32768.0" in to_text(p)) == ("acc * 3.0517578125e-05" in to_text(p)) == scaled
    assert watched_stores(p, softmax) == (() if scaled else (softmax.name,))


def test_the_scaled_softmax_means_the_same_where_a_cast_of_its_own_would_trip():
    torch.manual_seed(4)
    inputs = [torch.randn(2, 64, 1024) * 0.1, torch.randn(2, 1024, 32)]
    scaled, cast = (
        check(to_text(program(lower(attention(1024)), "f16", Choice(guard=True, narrow=n)))).program
        for n in (True, False)
    )
    assert oracle.tripped(scaled, inputs) is None and oracle.tripped(cast, inputs) is not None
    right = torch.softmax(inputs[0].double(), -1) @ inputs[1].double()
    (out,) = oracle.run(scaled, inputs)
    assert torch.linalg.vector_norm(out - right) < 5e-4 * torch.linalg.vector_norm(right)


def test_casts_of_their_own_are_left_to_what_no_back_end_stores_in_half():
    candidates = structures(lower(attention(1024)), "tf32", H200, [])
    guarded = [s for s in candidates if s.base.guard]
    assert [s.words for s in guarded] == ["intermediates stored in half precision, tf32 by guarded f16"]
    assert all("cute" in generate(s.base).sources for s in guarded)
