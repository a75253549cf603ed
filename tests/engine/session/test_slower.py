"""A session that ends with PyTorch as its result says why PyTorch is faster, from its own figures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.session import recording
from engine.session.fold import next_step
from engine.session.fold.reduce import fold
from engine.session.fold.slower import Loss

RECORDINGS = Path(__file__).resolve().parents[3] / "playground/recordings"
BOUND = {"bound_by": "matrix", "peak": 1e15, "ceiling": 8e14, "ceiling_ms": 0.8}
GEMM = {"name": "y", "kind": "gemm", "ms": 1.0, "bound_by": "tensor"}
LOSS = Loss("f16", 3, 1.0, 0.8, "measured", 2.0, BOUND, {"bytes": 100, "bytes_unfused": 400}, [GEMM])


def test_both_shares_of_the_limit_and_of_what_the_units_sustain_come_first():
    assert LOSS.sentence() == (
        "In float16, PyTorch reaches 62% of the limit's speed and trial 3 50%; the matrix units sustain 800 of their "
        "1000 TFLOP/s on this GPU, of which PyTorch reaches 100% and the program 80%; by the model, the "
        "program's stage y is bound by the matrix units."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stages": [GEMM | {"ms": 0.5}]}, "the program takes 2.00 times what the model predicts for its kernels"),
        ({"stages": [GEMM, {"name": "x", "kind": "transform", "ms": 0.25}]}, "copies of its operands take 20% of"),
        ({"totals": {"bytes": 100, "bytes_unfused": 100}}, "the module has nothing to fuse"),
    ],
)
def test_what_the_program_loses_is_named(changes, words):
    assert words in replace(LOSS, **changes).sentence()


def test_without_a_report_and_a_limit_nothing_is_claimed():
    assert replace(LOSS, gap=None, bound={}, totals={}, stages=[]).sentence() == ""
    memory = replace(LOSS, bound=BOUND | {"bound_by": "memory"})
    assert "sustain" not in memory.sentence()


def test_the_recording_that_loses_to_pytorch_says_why_at_its_end_alone():
    rows = recording.read(RECORDINGS / "matmul_square.jsonl")
    view = fold(rows.rows)
    report = json.loads(rows.blobs[view.report])
    why = next_step.sentence(view, report)
    assert why.startswith("In float16, PyTorch reaches 59% of the limit's speed and trial 3 58%; ")
    assert "In TF32, PyTorch reaches 80%" in why and "nothing to fuse" in why
    assert "so far" in next_step.sentence(fold(rows.rows, view.seq - 1), report)
    view.end.reason = f"The budget is used up. {why}"
    assert next_step.sentence(view, report) == ""
