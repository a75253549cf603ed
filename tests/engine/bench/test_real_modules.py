"""The study of real modules: a row says how far each came, a failure is a row, and a package is reloaded as it says."""

import importlib.util
import json
import sys

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from engine.bench.studies import packages, real_modules  # noqa: E402
from engine.bench.studies.packages import First, Real  # noqa: E402


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 128)

    def forward(self, x):
        return torch.relu(self.up(x)), x


def pair():
    return First(Pair()), (torch.randn(32, 64),)


def broken():
    raise ImportError("no module named nobody")


@pytest.fixture
def modules(monkeypatch, tmp_path):
    known = {
        "pair": Real("torch", "a pair", torch.float16, pair),
        "broken": Real("torch", "never made", torch.float16, broken),
    }
    monkeypatch.setattr(real_modules, "MODULES", known)
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_each_module_is_a_row_and_a_failure_names_its_step(modules, tmp_path, capsys):
    out = tmp_path / "real.json"
    asked = ["--device", "modelled:h200", "--seconds", "60", "--trials", "1", "--json", str(out)]
    assert real_modules.main(asked) == 1, "one of them failed"
    results = json.loads(out.read_text())
    row, failed = results["rows"]["pair"], results["rows"]["broken"]
    assert row["programs"] == 1 and row["stays"] == {} and row["kind"] == "predicted" and row["speedup"] > 1
    assert row["class"] == "f16" and row["version"] and "reloaded" in row["works"]
    assert failed["at"] == "make" and "nobody" in failed["error"]
    assert results["command"].startswith("python -m engine.bench.studies.real_modules --device")
    printed = capsys.readouterr().out
    assert "pair: " in printed and "broken: make failed: ImportError" in printed
    assert real_modules.main(asked) == 1 and capsys.readouterr().out == "", "the same command goes on"

    folders = [p for p in (tmp_path / "cache/optimized").iterdir() if p.name.startswith("ucutlass_pair")]
    real_modules.reload("pair", "cpu", folders[0], tmp_path / "result.pt")
    module, inputs = real_modules.MODULES["pair"].make()
    theirs = torch.load(tmp_path / "result.pt")
    assert torch.allclose(theirs, module(*inputs), atol=1e-2), "the module is made again with the same weights"


def test_a_row_without_max_autotune_is_made_again_when_it_is_asked_for():
    eager, best = {"eager": [1.0, 1.0, 1.0]}, {"compile_max": [0.5, 0.5, 0.5]}
    assert real_modules.lacks_autotune({"times": eager})
    assert not real_modules.lacks_autotune({"times": eager | best})
    assert not real_modules.lacks_autotune({"times": eager | {"compile_refused": "it does not compile"}})
    assert not real_modules.lacks_autotune({"error": "no memory", "at": "works"}), "a failure stays a failure"


@pytest.mark.parametrize("name", packages.MODULES)
def test_a_module_of_a_package_is_made_in_its_type(name):
    real = packages.MODULES[name]
    if importlib.util.find_spec(real.package) is None:
        pytest.skip(f"needs {real.package}, which nothing else here needs")
    module, inputs = real.make()
    assert not module.training and {p.dtype for p in module.parameters() if p.is_floating_point()} == {real.dtype}
    assert any(torch.is_tensor(x) and x.dtype == real.dtype for x in inputs)
