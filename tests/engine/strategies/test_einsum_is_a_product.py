"""An einsum of two tensors that sums over indices of both is one product, in whatever order its indices stand."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.ir import Gemm  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.devices import SessionRefused  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402

SIZES = dict(zip("abcdehijklmnpqt", (3, 2, 4, 16, 4, 4, 8, 16, 24, 8, 8, 12, 4, 8, 8), strict=True))
PRODUCTS = (
    "bnd,hdk->bhnk", "nd,edh->neh", "neh,ehd->ned", "bhnd,bhne->bhde", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd",
    "btnh,nhd->btd", "btd,dnh->btnh", "bij,bjk->bki", "ij,jk", "b n d, h d k -> b h n k",
)  # fmt: skip
DOTS = (("...ij,...jk->...ik", (2, 3, 8, 16), (2, 3, 16, 24)), ("...d,dk->...k", (2, 3, 16), (16, 24)),
        ("...ij,...jk", (2, 3, 8, 16), (2, 3, 16, 24)))  # fmt: skip


def shapes(equation):
    return [tuple(SIZES[c] for c in factor.strip() if c != " ") for factor in equation.split("->")[0].split(",")]


def graph(equation, left, right):
    g, out = Builder(), torch.einsum(equation, torch.ones(left), torch.ones(right)).shape
    return g.graph(g.op("einsum", [g.input("x", left), g.input("y", right)], tuple(out), equation=equation))


@pytest.mark.parametrize(("equation", "left", "right"), [*((e, *shapes(e)) for e in PRODUCTS), *DOTS])
def test_it_gives_what_pytorch_gives(equation, left, right):
    program = check(to_text(lower(graph(equation, left, right)).program("tf32"))).program
    assert sum(isinstance(stage, Gemm) for stage in program.stages) == 1
    x, y = torch.randn(left), torch.randn(right)
    arguments = [{"x": x, "y": y}[p.name[0]].reshape(p.type.shape) for p in program.params]
    right_result = torch.einsum(equation, x, y)
    (result,) = oracle.run(program, arguments)
    torch.testing.assert_close(result.reshape(right_result.shape).float(), right_result, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("equation", ["bi,bj->bij", "ab,cd->acbd", "bhnd,bhd->bhn", "bij,bkl->bik"])
def test_other_equations_are_refused(equation):
    with pytest.raises(SessionRefused, match="is not covered yet"):
        lower(graph(equation, *shapes(equation)))
