"""A norm that a module writes out becomes one stage that reads its input once, and means what is written."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Normalize
from dsl.printer import to_text
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.lower import lower
from engine.strategies.planner.lowering.rules.written_norms import recognised
from sol.graph import OpGraph
from tests.engine.strategies.functions import traced

WRITTEN = {
    "rms by rsqrt": ("rmsnorm", lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "rms by division": ("rmsnorm", lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
    "rms by an inverse": ("rmsnorm", lambda x: (1 / x.square().mean(-1, keepdim=True).add(1e-6).sqrt()) * x),
    "rms by a power": ("rmsnorm", lambda x: x * (x.square().mean((-1,), True) + 1e-6) ** -0.5),
    "layer by squares": (
        "layernorm",
        lambda x: (
            (x - x.mean(-1, keepdim=True))
            / torch.sqrt((x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True) + 1e-5)
        ),
    ),
    "layer by var": (
        "layernorm",
        lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5),
    ),
    "softmax": ("softmax", lambda x: (e := (x - x.amax(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True)),
    "softmax by max": ("softmax", lambda x: (e := (x - x.max(-1, True)[0]).exp()) / e.sum(-1, keepdim=True)),
    "log softmax": ("log_softmax", lambda x: x - torch.logsumexp(x, -1, keepdim=True)),
}
AS_WRITTEN = {
    "an unbiased variance": lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5),
    "an eps outside of the root": lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6),
    "channels": lambda x: x / torch.sqrt(x.square().mean(1, keepdim=True) + 1e-6),
    "another tensor's size": lambda x: (x + 1) * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
    "a softmax that overflows": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    "the maximum of another axis": lambda x: (e := (x - x.amax(1, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
}


def program(graph: OpGraph, cls: str, *inputs):
    """The checked program, whose two back ends write code, and its results in double precision."""
    lowered = lower(graph)
    result = check(to_text(lowered.program(cls)))
    assert result.ok and set(generate(result.program, 132).sources) == {"cute", "cpp"}, result.diagnostics
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    results = oracle.run(result.program, [tensors[b.tensor].reshape(b.shape) for b in lowered.inputs], exact=True)
    return result.program, results


@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_one_stage_that_means_it(name):
    torch.manual_seed(0)
    op, function = WRITTEN[name]
    x = torch.randn(3, 20, 32, dtype=torch.float64) * 3 + 1
    pipeline, (out,) = program(traced(lambda x: function(2 * x) + 1, x.float()), "tf32", x)
    assert [(s.op, s.name) for s in pipeline.stages if isinstance(s, Normalize)] == [(op, "y")]
    assert len(pipeline.stages) == 1
    torch.testing.assert_close(out.reshape(x.shape), function(2 * x) + 1)


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_what_is_not_the_norm_stays_as_it_is_written(name):
    x = torch.randn(3, 20, 32, dtype=torch.float64)
    graph = traced(AS_WRITTEN[name], x.float())
    assert recognised(graph) is graph


def test_a_norm_of_two_axes_is_of_rows_of_both():
    def norm(x):
        return x * torch.rsqrt(x.square().mean((-2, -1), keepdim=True) + 1e-6)

    x = torch.randn(3, 20, 32, dtype=torch.float64)
    pipeline, (out,) = program(traced(norm, x.float()), "tf32", x)
    assert [s.x.name for s in pipeline.stages] == ["inputs_0"]
    torch.testing.assert_close(out.reshape(x.shape), norm(x))


def test_half_precision_rounds_where_the_module_does():
    def norm(x, w):
        wide = x.float()
        return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    x, w = torch.randn(16, 64).half(), torch.randn(64).half()
    graph = traced(norm, x, w)
    pipeline, (out,) = program(graph, "f16", x.double(), w.double())
    (stage,) = pipeline.stages
    assert stage.type.dtype.value == "f16"
    torch.testing.assert_close(out, norm(x, w).double(), rtol=2e-3, atol=2e-3)


def test_a_statistic_with_another_reader_is_computed_for_it():
    def both(x):
        size = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(size + 1e-6), size

    x = torch.randn(16, 64, dtype=torch.float64)
    pipeline, (y, size) = program(traced(both, x.float()), "tf32", x)
    assert [type(s).__name__ for s in pipeline.stages] in (["Reduce", "Normalize"], ["Normalize", "Reduce"])
    torch.testing.assert_close(y, both(x)[0])
    torch.testing.assert_close(size.reshape(16, 1), both(x)[1])


def test_an_rms_norm_without_an_eps_has_that_of_its_f32_input():
    graph = traced(lambda x: torch.nn.functional.rms_norm(x, (64,)), torch.randn(8, 64))
    lowered = lower(graph)
    (norm,) = [d for d in lowered.stages if getattr(d, "op", "") == "rmsnorm"]
    assert norm.eps == torch.finfo(torch.float32).eps


def test_of_a_half_input_it_depends_on_pytorch_and_is_left_to_it():
    graph = traced(lambda x: torch.nn.functional.rms_norm(x, (64,)), torch.randn(8, 64).half())
    with pytest.raises(Exception, match="eps of f16"):
        lower(graph)
