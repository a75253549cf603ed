"""An exported module on a GPU: right when it is called, in a CUDA graph, on another stream, compiled and exported;
and its own check.py agrees."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from engine.bench.studies import host_time  # noqa: E402
from engine.export import command, forms, write  # noqa: E402
from tests.engine.export.packages import MODULES, TWO_REGIONS, exported  # noqa: E402

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]


@pytest.mark.parametrize("cls", ["tf32", "f16"])
def test_it_works_in_every_way_of_pytorch(cls, tmp_path):
    package, original = exported(TWO_REGIONS, tmp_path / "out", (cls,))
    with torch.no_grad():
        model, inputs = original.Model().eval().cuda(), [x.cuda() for x in original.get_inputs()]
        results = host_time.works(model, package.optimized(model), inputs)
    assert set(results.values()) == {True}, results


@pytest.mark.parametrize("name", sorted(MODULES))
def test_its_check_says_right(name, tmp_path):
    write(forms.files(command.of_module(MODULES[name], ("f16",), name)), tmp_path / "out")
    done = subprocess.run([sys.executable, "check.py"], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_optimize_returns_a_module_that_is_right_and_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(ROOT / "engine" / "python")
    import ucutlass

    model = torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 2048)).eval().cuda()
    x = torch.randn(4096, 2048, device="cuda")
    fast = ucutlass.optimize(model, x, classes="f16", seconds=120, trials=4, verbose=False)
    with torch.no_grad():
        error = ((fast(x) - model(x)).norm() / model(x).norm()).item()
    assert fast.report.kind == "measured" and error < host_time.TOLERANCE, fast.report
