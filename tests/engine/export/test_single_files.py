"""Exports of one file: a KernelBench ModelNew and a notebook. PyTorch computes here what a GPU would."""

import json
import sys
from dataclasses import replace

import nbformat
import pytest
import torch

from engine.export import Exported, ExportError, command, forms, history, model_new, module_package, notebook
from engine.session import recording
from tests.engine.export.packages import TWO_REGIONS

RECORDINGS = command.PROBLEMS.parents[1] / "playground/recordings"
PROGRAM = """program mlp(x: f16[128, 64], up_weight: f16[128, 64], up_bias: f32[128]) -> f16[128, 128] {
  y = gemm(x, up_weight.T) { epilogue relu(acc + up_bias[n]) }
  return y
}
"""


def executed(text: str) -> dict:
    names = {"__name__": "model_new"}
    exec(compile(text, "model_new.py", "exec"), names)
    return names


def test_a_model_new_gives_what_the_module_gives():
    names = executed(
        model_new.text(command.of_module("from __future__ import annotations\n" + TWO_REGIONS, title="one"))
    )
    torch.manual_seed(7)
    theirs = names["Model"](*names.get("get_init_inputs", list)())
    torch.manual_seed(7)
    ours = names["ModelNew"](*names.get("get_init_inputs", list)())
    (x,) = names["get_inputs"]()
    assert isinstance(ours, names["Model"]) and list(ours.state_dict()) == list(theirs.state_dict())
    with torch.no_grad():
        assert torch.allclose(ours(x), theirs(x), atol=1e-5)
        ours.load_state_dict(names["Model"]().state_dict())
        assert not torch.allclose(ours(x), theirs(x), atol=1e-5)


@pytest.mark.parametrize("form", [".py", ".ipynb"])
def test_a_program_by_itself_is_no_model_new(form):
    one = Exported(PROGRAM, "f16", module="# the module")
    for what, why in ((one, "has none"), (replace(one, region={"number": 2, "of": 3}), "region 2 of 3")):
        with pytest.raises(ExportError, match=why):
            forms.SINGLE[form](what)


def test_a_whole_module_without_its_text_is_no_model_new():
    with pytest.raises(ExportError, match="has none"):
        model_new.text(replace(command.of_module(TWO_REGIONS), module=None))


@pytest.mark.parametrize("name", ["linear_div_gelu", "linear_silu_f16"])  # the second log is older
def test_a_recorded_session_as_file_and_notebook(name, tmp_path):
    path = RECORDINGS / f"{name}.jsonl"
    log = recording.read(path)
    what = history.of_session(((r.kind, r.data) for r in log.rows), log.blobs.get)
    assert what.module in model_new.text(what)
    lines = [command.run(str(path), tmp_path / name) for name in ("x.py", "x.ipynb")]
    assert "class ModelNew" in lines[0] and "a notebook" in lines[1] and all("whole module" in x for x in lines)
    compile((tmp_path / "x.py").read_text(), "x.py", "exec")
    book = nbformat.read(tmp_path / "x.ipynb", 4)
    nbformat.validate(book)
    assert "ms measured" in book.cells[0].source and book.cells[3].source.startswith("%%writefile model_new.py\n")
    assert book.cells[3].source.partition("\n")[2].strip() == (tmp_path / "x.py").read_text().strip()
    recorded = executed(book.cells[-1].source)["recorded"]
    assert json.loads(recorded)["trial"] == what.results["trial"]
    assert notebook.text(what) == notebook.text(what)


def test_a_title_begins_no_html_in_the_files_of_an_export():
    what = command.of_module(TWO_REGIONS, title="<img src=x onerror=alert(1)> & one")
    book = json.loads(notebook.text(what))
    readme = next(text for name, text in module_package.files(what).items() if name.endswith("/README.md"))
    for text in ("".join(book["cells"][0]["source"]), readme):
        assert "&lt;img src=x onerror=alert(1)&gt; &amp; one" in text and "<img" not in text


NET = """import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor = None


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.LazyLinear(width)

    def forward(self, batch, *, scale=2.0, mask=None):
        y = torch.relu(self.a(batch.x)) * scale
        return {"y": y if mask is None else y * mask, "z": [y * 2]}


def get_init_inputs():
    return {"width": 64}


def get_inputs():
    return {"batch": Batch(torch.randn(32, 64)), "mask": None}
"""


def test_a_notebook_reads_a_module_as_a_session_does(tmp_path, monkeypatch, capsys):
    """A class of another name, with lazy layers, called with a dataclass by name. Its ModelNew is one, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    book, names = json.loads(notebook.text(command.of_module(NET, title="notebook of a net"))), {}
    for cell in book["cells"]:
        text = "".join(cell["source"]).replace('DEVICE = "cuda"', 'DEVICE = "cpu"')
        if text.startswith("%%writefile"):
            first, _, text = text.partition("\n")
            (tmp_path / first.split()[1]).write_text(text)
        elif cell["cell_type"] == "code" and not text.startswith(("%pip", "def median_ms")):
            exec(compile(text, "cell", "exec"), names)
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("highest")
    assert type(names["module"].model).__name__ == "Net"
    assert issubclass(sys.modules["model_new"].ModelNew, sys.modules["model_new"].Net)
    assert names["error"] < 1e-5 and "against the module in float64" in capsys.readouterr().out
    for name in ("model_new", "_checks"):
        sys.modules.pop(name)
