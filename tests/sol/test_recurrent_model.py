"""Predicted times of recurrent stages: a chain of steps, and PyTorch's networks beside them."""

import pytest

from dsl.check.program import check
from dsl.resolve import resolve
from sol.attainable import predict
from sol.graph import Op, OpGraph, Tensor
from sol.hardware import load
from sol.model.eager import predict_eager
from sol.model.recurrent import LIBRARY_US
from tests.dsl.recurrent_programs import text

HW = load("h200")
MODEL = {"hidden": 256, "batch": 10, "steps": 512}


def ms(**case) -> float:
    return predict(resolve(check(text(**{**MODEL, **case})).program), HW).ms


def test_twice_the_steps_take_twice_as_long():
    assert ms(steps=1024) == pytest.approx(2 * ms(), rel=0.02)


@pytest.mark.parametrize(("op", "us"), [("lstm", 0.95), ("gru", 0.84), ("rnn_tanh", 0.70)])
def test_a_step_of_kernelbenchs_models_takes_what_an_h200_took(op, us):
    assert ms(op=op) * 1e3 / 512 == pytest.approx(us, rel=0.1)


def test_a_second_direction_runs_beside_the_first():
    assert ms(directions=2) < 1.1 * ms()


def test_more_sequences_than_clusters_run_at_once_take_turns():
    assert ms(batch=512) > 1.5 * ms(batch=64)


def test_f32_takes_longer_than_tf32_and_f16_less():
    assert ms(clauses="compute f16") < ms() < ms(clauses="compute f32")


def test_it_is_never_faster_than_memory():
    moved = 3 * 4096 * 64 * 4 * 4  # the gates alone
    assert ms(op="lstm", steps=3, batch=4096, hidden=64) > moved / HW.copy_rate * 1e3


def test_pytorchs_time_is_a_chain_too():
    attrs = {"num_layers": 6, "bidirectional": False, "batch_first": True, "has_biases": True}
    shapes = {"x": (10, 512, 256), "h": (6, 10, 256), "c": (6, 10, 256), "w": (1024, 256), "y": (10, 512, 256)}
    kinds = {"w": "parameter", "y": "intermediate"}
    tensors = {name: Tensor(name, shape, "f32", kinds.get(name, "input")) for name, shape in shapes.items()}
    graph = OpGraph(tensors, (Op("net", "lstm", ("x", "h", "c", "w"), ("y",), attrs),), ("x", "h", "c"), ("y",))
    assert predict_eager(graph, HW, "tf32").ms == pytest.approx(6 * 512 * LIBRARY_US["lstm"] * 1e-3, rel=0.01)
