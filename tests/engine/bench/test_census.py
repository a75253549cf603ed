"""A census plans every module of a folder without running one, continues its file, and holds no line of their text."""

import json

import pytest

pytest.importorskip("torch")

from engine.bench.studies import census

HEAD = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
MODULES = {
    "easy/2_square": HEAD + "    def forward(self, a, b):\n        return torch.relu(a @ b)\n\n\n"
    "def get_inputs():\n    return [torch.randn(256, 256), torch.randn(256, 256)]\n",
    "easy/10_sums": HEAD + "    def forward(self, a, b):\n        return torch.logcumsumexp(a @ b, 1)\n\n\n"
    "def get_inputs():\n    return [torch.randn(256, 256), torch.randn(256, 256)]\n",
    "hard/1_sorted": HEAD + "    def forward(self, a):\n        return torch.sort(a, dim=1)[0]\n\n\n"
    "def get_inputs():\n    return [torch.randn(256, 256)]\n",
    "hard/2_drawn": HEAD + "    def forward(self, a):\n        return a + torch.randn(256, 256)\n\n\n"
    "def get_inputs():\n    return [torch.randn(256, 256)]\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in MODULES.items():
        path = tmp_path / "modules" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "modules"


def test_each_module_has_its_outcome_and_cause(folder, tmp_path, capsys):
    out = tmp_path / "census.json"
    assert census.main([str(folder), "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["problems"]
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "easy/2_square": "whole", "easy/10_sums": "part", "hard/1_sorted": "pytorch", "hard/2_drawn": "refused",
    }  # fmt: skip
    assert list(rows) == list(census.problems(folder)) == list(MODULES)  # 2 before 10
    assert rows["easy/2_square"]["eager"] == 1 and rows["easy/2_square"]["causes"] == []
    (cause,) = rows["easy/10_sums"]["causes"]
    assert cause["op"] == "logcumsumexp" and cause["why"] == "is not covered yet"
    assert rows["easy/10_sums"]["eager"] + cause["share"] == pytest.approx(1, abs=0.01)
    assert (rows["hard/2_drawn"]["step"], rows["hard/2_drawn"]["code"]) == ("trace", "random")
    assert "a + torch.randn" not in out.read_text() and "return" not in out.read_text()
    summary = json.loads(out.read_text())["summary"]
    assert summary["all"]["problems"] == 4 and summary["all"]["refused"] == summary["hard"]["refused"] == 1
    assert summary["easy"]["more_than_half"] in (1, 2) and "logcumsumexp" in summary["all"]["lacking"]

    capsys.readouterr()
    (folder / "easy/10_sums.py").write_text(MODULES["easy/2_square"])
    assert census.main([str(folder), "--json", str(out)]) == 0  # only the changed one is planned again
    lines = [text for text in capsys.readouterr().out.splitlines() if "/" in text and "_" in text]
    assert len(lines) == 1 and "easy/10_sums" in lines[0] and "whole" in lines[0]


def test_a_folder_without_modules_is_one_line(tmp_path, capsys):
    assert census.main([str(tmp_path)]) == 2
    assert "no Python file below" in capsys.readouterr().err
