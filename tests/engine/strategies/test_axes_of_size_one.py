"""Reductions and normalisations along axes of size 1: the program is valid text and computes what PyTorch does."""

from itertools import combinations, product

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.compile import compile as generate  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.devices import SessionRefused  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402

REDUCED = ("sum", "mean", "amax", "amin", "logsumexp")
SHAPES = [s for rank in (1, 2, 3) for s in product((1, 6), repeat=rank)] + [(6, 1, 1, 6), (1, 6, 6, 1)]
BEFORE = ("nothing", "relu", "linear", "linear and relu")


def begun(before, shape):
    """A graph's builder and the tensor that the operation under test reads."""
    g = Builder()
    x = g.input("x", shape)
    if before.startswith("linear"):
        x = g.op("linear", [x, g.parameter("w", (shape[-1], shape[-1]))], shape, bias=None)
    if before.endswith("relu"):
        x = g.op("relu", [x], shape)
    return g, x


def theirs(before, shape, then):
    """(inputs by name, PyTorch's result in float64)."""
    torch.manual_seed(0)
    tensors = {"x": torch.randn(shape, dtype=torch.float64)}
    x = tensors["x"]
    if before.startswith("linear"):
        tensors["w"] = torch.randn(shape[-1], shape[-1], dtype=torch.float64)
        x = torch.nn.functional.linear(x, tensors["w"])
    return tensors, then(x.relu() if before.endswith("relu") else x)


def agree(graph, before, shape, then):
    """The module's program is valid, some back end takes it, and its result is PyTorch's."""
    lowered = lower(graph)
    result = check(to_text(lowered.program("tf32")))
    assert result.ok, result.diagnostics[0]
    if len(shape) < 3 and before == "relu":  # it takes most of the time
        assert generate(result.program, 132).sources
    tensors, expected = theirs(before, shape, then)
    inputs = [tensors[b.tensor].reshape(b.shape) for b in lowered.inputs]
    (out,) = oracle.run(result.program, inputs, exact=True)
    torch.testing.assert_close(out.reshape(expected.shape), expected)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("op", REDUCED)
def test_reductions_over_one_over_several_and_over_all_axes(op, before):
    cases = 0
    for shape in SHAPES:
        for dims in (d for k in range(1, len(shape) + 1) for d in combinations(range(len(shape)), k)):
            keep = bool(cases % 2)
            cases += 1
            out = tuple(1 if i in dims else n for i, n in enumerate(shape) if keep or i not in dims)
            g, x = begun(before, shape)
            graph = g.graph(g.op(op, [x], out, dim=list(dims), keepdim=keep))
            if before == "nothing" and all(shape[d] == 1 for d in dims):
                with pytest.raises(SessionRefused, match="nothing to optimise"):  # the module is a view
                    lower(graph)
                continue
            agree(graph, before, shape, lambda x, d=dims, k=keep: getattr(torch, op)(x, d, keepdim=k))


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_along_each_axis(op, before):
    for shape in SHAPES:
        for dim in range(len(shape)):
            g, x = begun(before, shape)
            agree(g.graph(g.op(op, [x], shape, dim=dim)), before, shape, lambda x, d=dim: getattr(x, op)(d))


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_norms_of_rows(op, before):
    for shape in SHAPES:
        for k in range(1, len(shape) + 1):
            g, x = begun(before, shape)
            y = g.op(op, [x], shape, normalized_shape=list(shape[-k:]), eps=1e-5)
            f = getattr(torch.nn.functional, op)
            agree(g.graph(y), before, shape, lambda x, s=shape[-k:], f=f: f(x, s, eps=1e-5))


def test_softmax_of_one_element_is_nan_where_pytorchs_is():
    g, x = begun("linear", (6, 1))
    lowered = lower(g.graph(g.op("softmax", [x], (6, 1), dim=1)))
    program = check(to_text(lowered.program("tf32"))).program
    x = torch.tensor([1.0, float("inf"), -float("inf"), float("nan"), 0.0, 3e38]).reshape(6, 1)
    tensors = {"x": x, "w": torch.ones(1, 1)}
    (out,) = oracle.run(program, [tensors[b.tensor].reshape(b.shape) for b in lowered.inputs])
    torch.testing.assert_close(out.reshape(6, 1), x.softmax(1), equal_nan=True)


@pytest.mark.parametrize("op, attrs", [("sum", {"dim": [1], "keepdim": False}), ("softmax", {"dim": 1})])
def test_what_adds_up_an_expanded_tensor_is_refused(op, attrs):
    """Its reader sees the tensor as it lies, where the axis has one element and not eight."""
    g = Builder()
    y = g.op("expand", [g.op("relu", [g.input("x", (4, 1))], (4, 1))], (4, 8), size=[4, 8])
    out = (4,) if op == "sum" else (4, 8)
    with pytest.raises(SessionRefused, match="of an expanded tensor"):
        lower(g.graph(g.op(op, [y], out, **attrs)))
