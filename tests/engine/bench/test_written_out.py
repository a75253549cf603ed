"""Models of packages become a folder that a census takes, with the reason of each that could not be written."""

import importlib.metadata
import json

import pytest

torch = pytest.importorskip("torch")

from engine.bench.studies import census, written_out, zoo  # noqa: E402


class Reads(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


MODELS = {
    "timm/mlp": torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU()),
    "timm/reads": Reads(),
    "transformers/wide": torch.nn.Linear(8, 8),
}


@pytest.fixture
def models(monkeypatch):
    """Three models; the last does not take its input."""
    calls = []

    def make(name):
        calls.append(name)
        if name == "transformers/wide":
            raise zoo.NotMade("RuntimeError: shapes cannot be multiplied")
        return MODELS[name].eval().requires_grad_(False), (torch.randn(32, 64),)

    monkeypatch.setattr(zoo, "NAMES", tuple(MODELS))
    monkeypatch.setattr(zoo, "make", make)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "1.2")
    return calls


def test_each_model_has_a_file_or_a_reason(models, tmp_path, capsys):
    folder, out = tmp_path / "texts", tmp_path / "census.json"
    assert written_out.main([str(folder)]) == 0
    left = json.loads((folder / "left_out.json").read_text())
    assert list(left["models"]) == ["timm/reads"] and "reads the value of a tensor" in left["models"]["timm/reads"]
    assert left["packages"] == {"timm": "1.2", "transformers": "1.2"}
    assert "transformers/wide: not made here: RuntimeError" in capsys.readouterr().out

    models.clear()
    assert written_out.main([str(folder)]) == 0 and models == ["transformers/wide"], "the same command continues"

    assert census.main([str(folder), "--classes", "f16", "--json", str(out)]) == 0
    rows = json.loads(out.read_text())
    assert {name: row["outcome"] for name, row in rows["problems"].items()} == {
        "timm/mlp": "whole", "timm/reads": "refused"
    }  # fmt: skip
    assert rows["packages"] == left["packages"] and "reads the value" in rows["problems"]["timm/reads"]["reason"]


def test_the_zoo_names_each_model_once():
    assert len(set(zoo.NAMES)) == len(zoo.NAMES) > 250
    with pytest.raises((zoo.NotMade, ImportError)):
        zoo.make("timm/no_such_model")
