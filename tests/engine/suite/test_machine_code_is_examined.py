"""What runs as machine code is verified, timed, then examined: here a Python function stands where a kernel is."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch

from engine.suite import child as suite_child
from engine.suite.cases import PROBLEMS
from engine.suite.problem import Instance

PROGRAM = """program p(a: f32[{n}, {n}], b: f32[{n}, {n}]) -> f32[{n}, {n}] {{
  y = gemm(a, b) {{ compute tf32 }}
  return y
}}
"""
MODULE = """
calls = [0]
def kernel(a, b, y):
    calls[0] += 1
    BODY
STAGES = {"y": (kernel, None)}
def load(artifact=None):
    def run(inputs, outputs):
        kernel(*inputs, outputs[0])
    return run
"""


class Clock:
    """Counts calls in the place of CUDA events."""

    def sample(self, call):
        call()
        return 1.0


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """ran(body) -> the child's answer to a program whose kernel is this line."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def run(body, backend="cute", held=None):
        made = held or suite_child.Child("cpu")
        made.small, made._timer = False, Clock()
        if held is None:
            made.problem = Instance.make(PROBLEMS / "matmul_square.py", 0, "cpu", small=True)
            made.problem.prepare()
        path = Path(tmp_path / f"generated_{abs(hash(body))}_{backend}.py")
        path.write_text(MODULE.replace("BODY", body))
        n = made.problem.eager.shape[0]
        return made.run(
            {"op": "run", "case": "p", "backend": backend, "cls": "tf32", "text": PROGRAM.format(n=n),
             "path": str(path), "artifact": None}
        ), made  # fmt: skip

    return run


def test_a_right_program_is_timed_and_its_evidence_is_said(ran):
    answer, _ = ran("y.copy_(a @ b)")
    assert answer["ok"] and answer["ms"] == 1.0 and answer["ratio"] == 1.0
    said = {c["name"]: c["verdict"] for c in answer["checks"]}
    assert said["without kernels"] == said["clocks"] == said["timed results"] == said["repeated"] == "passed"
    assert said["kernels"] == "not looked at"  # nothing ran on a GPU


def test_a_second_back_end_is_held_against_the_first_and_against_its_own_repetition(ran):
    _, child = ran("y.copy_(a @ b)")
    answer, _ = ran("y.copy_(a @ b * (1 + 1e-6))", "cpp", child)
    assert answer["agrees"]["backend"] == "cute" and 0 < answer["agrees"]["error"] < 1e-5
    assert "same bits" in next(c["said"] for c in answer["checks"] if c["name"] == "repeated")


@pytest.mark.parametrize(("body", "code"), [
    ("y.copy_(a @ b) if calls[0] < 3 else y.zero_()", "timed_differs"),
    ("y[1:].copy_((a @ b)[1:])", "unwritten"),
    ("y.copy_(a @ b); a.mul_(2)", "input_written"),
    ("y.copy_(a @ a)", "wrong_result"),
])  # fmt: skip
def test_what_it_does_wrong_has_a_name(ran, body, code):
    assert ran(body)[0]["wrong"] == code
