"""Exports of one file: a KernelBench ModelNew and a notebook. PyTorch computes here what a GPU would."""

import json
import types
from dataclasses import replace

import nbformat
import pytest
import torch

from dsl.check.program import check
from engine.export import Exported, ExportError, command, history, model_new, notebook
from engine.session import recording

MODULE = """from __future__ import annotations
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.up = nn.Linear(n, 128)

    def forward(self, x):
        return torch.relu(self.up(x))


def get_inputs():
    return [torch.randn(4, 32, 64)]


def get_init_inputs():
    return [64]
"""
PROGRAM = """program mlp(x: f16[128, 64], up_weight: f16[128, 64], up_bias: f32[128]) -> f16[128, 128] {
  y = gemm(x, up_weight.T) { epilogue relu(acc + up_bias[n]) }
  return y
}
"""
WHAT = Exported(PROGRAM, "f16", module=MODULE, inputs={"x": 0}, outputs=(((4, 32, 128), "f32"),))


def executed(text: str) -> dict:
    names = {"__name__": "model_new"}
    exec(compile(text, "model_new.py", "exec"), names)
    return names


@pytest.mark.parametrize("bound", [{}, {"tensors": {"up_weight": "up.weight", "up_bias": "up.bias"}}])
def test_a_model_new_gives_what_the_module_gives(bound):
    assert check(PROGRAM).ok
    names = executed(model_new.text(replace(WHAT, **bound)))
    package = names["_program"]()
    assert package.FACTS["program"] == "mlp" and "cute" in package.BACKENDS
    names["_program"] = lambda: types.SimpleNamespace(
        PARAMETERS=package.PARAMETERS,
        torch_dtype=package.torch_dtype,
        call=lambda x, w, b: torch.relu(x.float() @ w.float().T + b).half(),
    )
    torch.manual_seed(7)
    theirs = names["Model"](*names["get_init_inputs"]())
    torch.manual_seed(7)
    ours = names["ModelNew"](*names["get_init_inputs"]())
    inputs = names["get_inputs"]()
    right, out = theirs(*inputs), ours(*inputs)
    assert out.shape == right.shape and out.dtype == right.dtype
    assert ((out - right).norm() / right.norm()).item() < 2e-3


def test_what_has_no_whole_module_is_no_model_new():
    for what, why in (
        (replace(WHAT, module=None), "has none"),
        (replace(WHAT, region={"number": 2, "of": 3}), "region 2 of 3"),
        (replace(WHAT, outputs=()), "does not say what the module returns"),
    ):
        with pytest.raises(ExportError, match=why):
            model_new.text(what)


def test_a_recorded_trial_as_file_and_notebook(tmp_path):
    path = next(p for p in (command.PROBLEMS.parents[1] / "playground/recordings").glob("linear_div_gelu.jsonl"))
    log = recording.read(path)
    what = history.of_trial(((r.kind, r.data) for r in log.rows), log.blobs.get)
    assert what.outputs and what.module in model_new.text(what)
    lines = [command.run(str(path), tmp_path / name) for name in ("x.py", "x.ipynb")]
    assert "class ModelNew" in lines[0] and "a notebook" in lines[1]
    compile((tmp_path / "x.py").read_text(), "x.py", "exec")
    book = nbformat.read(tmp_path / "x.ipynb", 4)
    nbformat.validate(book)
    assert "ms measured" in book.cells[0].source and book.cells[3].source.startswith("%%writefile model_new.py\n")
    assert book.cells[3].source.partition("\n")[2].strip() == (tmp_path / "x.py").read_text().strip()
    recorded = executed(book.cells[-1].source)["recorded"]
    assert json.loads(recorded)["trial"] == what.results["trial"]
    assert notebook.text(what) == notebook.text(what)
