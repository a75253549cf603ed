"""A batch norm after a product is one scale and one shift of each column, computed before the product."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.ir import Acc, Call, Gemm, Load, Map, Number, expressions, loads  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.strategies.planner.lowering import program_builder  # noqa: E402
from engine.strategies.planner.lowering.choice import Choice  # noqa: E402
from engine.strategies.planner.lowering.folding import folded  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.strategies.planner.lowering.pipeline import program  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402

NAMES = ("weight", "bias", "running_mean", "running_var")


def normed(*before: str, after: tuple[str, ...] = (), conv: bool = False):
    """A product or a convolution, some operations, a batch norm, and others."""
    g = Builder()
    if conv:
        shape = (2, 48, 6, 6)
        y = g.op("conv2d", [g.input("x", (2, 32, 8, 8)), g.parameter("w", (48, 32, 3, 3))], shape)
    else:
        shape = (64, 48)
        y = g.op("linear", [g.input("x", (64, 32)), g.parameter("w", (48, 32)), g.parameter("b", (48,))], shape)
    for op in before:
        y = g.op(op, [y], shape)
    stats = [g.parameter(n, (48,)) for n in NAMES]
    y = g.op("batch_norm", [y, *stats], shape, training=False, eps=1e-5)
    for op in after:
        y = g.op(op, [y], shape)
    return g.graph(y)


def programs(graph, monkeypatch, least=0):
    monkeypatch.setattr(program_builder, "FOLDED", least)
    return check(to_text(program(lower(graph), "tf32", Choice()))).program


GRAPHS = {
    "alone": normed(), "then gelu": normed(after=("gelu", "relu")), "of a gelu": normed("gelu"),
    "of a convolution's softplus": normed("softplus", conv=True),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_the_numbers_stay(name, monkeypatch):
    graph = GRAPHS[name]
    torch.manual_seed(0)
    tensors = {n: torch.randn(t.shape) for n, t in graph.tensors.items() if t.kind != "intermediate"}
    tensors["running_var"] = tensors["running_var"].abs() + 0.5
    inputs = [tensors[b.tensor].reshape(b.shape) for b in lower(graph).inputs]
    (plain,) = oracle.run(programs(graph, monkeypatch, least=1 << 22), inputs)
    (result,) = oracle.run(programs(graph, monkeypatch), inputs)
    torch.testing.assert_close(result, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", GRAPHS)
def test_no_root_and_no_division_is_left_to_each_element(name, monkeypatch):
    program = programs(GRAPHS[name], monkeypatch)
    first, *_, product = (s for s in program.stages if not s.name.endswith(("padded", "nhwc")) and s.name != "y_nchw")
    names = {x.name for e in expressions(product) for x in loads(e)}
    assert isinstance(first, Map) and {"scale", "shift"} <= names and not names & {*NAMES}


def test_a_small_result_is_not_worth_another_kernel(monkeypatch):
    program = programs(normed(), monkeypatch, least=1 << 22)
    assert [type(s) for s in program.stages] == [Gemm]


@pytest.mark.parametrize(
    "e",
    [
        Call("add", (Call("mul", (Acc(), Load("s", ("n",)))), Load("b", ("n",)))),  # nothing costly
        Call("div", (Acc(), Load("rows", ("m",)))),  # not of a column
        Call("div", (Acc(), Load("whole", ("m", "n")))),
        Call("div", (Load("s", ("n",)), Acc())),  # not affine
        Call("mul", (Acc(), Call("sqrt", (Acc(),)))),
        Call("gelu", (Acc(),)),
        Call("div", (Acc(), Call("sqrt", (Number(2.0),)))),  # one number: the compiler's to fold
    ],
)
def test_what_is_left_as_it_is(e):
    assert folded(e, "n", lambda *_: pytest.fail("nothing here is a column's")) == e
