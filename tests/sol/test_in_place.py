"""A cache of which forward writes a part costs that part: in the bound and in PyTorch's predicted time."""

import json

import pytest

pytest.importorskip("torch")

from sol.bounds import external_bytes, t_sol
from sol.graph import OpGraph
from sol.hardware import load
from sol.model.eager import predict_eager
from tests.engine.trace.test_edges import graph

H200 = load("h200")
ROWS, WIDTH, ONE = 4096, 1024, 1024 * 4
CACHE = f'self.register_buffer("cache", torch.zeros({ROWS}, {WIDTH}))'
X = f"torch.randn(1, {WIDTH}), torch.tensor([7])"


def traced(forward):
    return graph(forward, X, CACHE)


@pytest.mark.parametrize(
    "forward",
    [
        "self.cache[5:6] = args[0]\nreturn args[0] + 1",
        "self.cache[5] = args[0][0]\nreturn args[0] + 1",
        "self.cache.index_copy_(0, args[1], args[0])\nreturn args[0] + 1",
        "self.cache.index_add_(0, args[1], args[0])\nreturn args[0] + 1",
    ],
)
def test_a_row_of_a_cache_is_a_row_of_traffic(forward):
    g = traced(forward)
    assert g.writes == ("cache",)
    total = sum(external_bytes(g).values())
    assert 3 * ONE <= total <= 4 * ONE + 16  # x, the row, the result, and the index
    assert predict_eager(g, H200, "f32").ms < 0.02


def test_what_is_read_of_the_cache_still_counts():
    g = traced("self.cache[5:6] = args[0]\nreturn self.cache.mean(0)")
    assert ROWS * ONE <= sum(external_bytes(g).values()) <= (ROWS + 3) * ONE


def test_two_writes_count_both_and_never_more_than_the_cache():
    g = traced("self.cache[5:6] = args[0]\nself.cache[7:8] = args[0] * 2\nreturn args[0] + 1")
    assert external_bytes(g)["write:" + g.written["cache"]] == 2 * ONE
    g = traced(f"self.cache[:] = args[0]\nself.cache[1:] = args[0] * 2\nreturn args[0] + {ROWS}")
    assert external_bytes(g)["write:" + g.written["cache"]] == ROWS * ONE


def test_a_tensor_that_is_made_anew_is_written_whole():
    g = traced("self.cache = self.cache * 0.9 + args[0]\nreturn args[0] + 1")
    assert sum(external_bytes(g).values()) == (2 * ROWS + 2) * ONE


def test_an_operation_on_a_tensor_that_forward_does_not_keep_costs_all_of_it():
    text = "y = args[0] * torch.ones(4096, 1)\ny[5:6] = args[0]\nreturn y + 1"
    g = traced(text)
    assert g.writes == () and predict_eager(g, H200, "f32").ms > t_sol(g, H200, "f32")
    assert OpGraph.from_json(json.dumps(json.loads(g.to_json()))) == g
