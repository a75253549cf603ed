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


@pytest.mark.parametrize("how", [{}, {"captured": True}, {"fused": True}, {"captured": True, "fused": True}])
@pytest.mark.parametrize("cls", ["tf32", "f16"])
def test_it_works_in_every_way_of_pytorch(cls, how, tmp_path):
    text = TWO_REGIONS.replace("torch.logcumsumexp(", "torch.roll(torch.logcumsumexp(").replace(
        ", 1)\n", ", 1), 1, 0)\n"
    )
    package, original = exported(text, tmp_path / "out", (cls,), **how)
    with torch.no_grad():
        model, inputs = original.Model().eval().cuda(), [x.cuda() for x in original.get_inputs()]
        results = host_time.works(model, package.optimized(model), inputs)
    assert set(results.values()) == {True}, results


def test_a_graph_follows_the_module_and_keeps_no_result(tmp_path):
    package, original = exported(TWO_REGIONS, tmp_path / "out", ("tf32",), captured=True)
    model, x = original.Model().eval().cuda(), original.get_inputs()[0].cuda()
    fast, plain = package.optimized(model), exported(TWO_REGIONS, tmp_path / "plain", ("tf32",))[0].optimized(model)
    with torch.no_grad():
        first, second = fast(x), fast(2 * x)  # the first call captures, the second one replays
        assert fast._ucutlass.graph._call is not None
        assert torch.equal(first, plain(x)) and torch.equal(second, plain(2 * x))
        before = second.clone()
        third = fast(3 * x)
        assert torch.equal(second, before) and third.data_ptr() != second.data_ptr()
        model.a.weight.mul_(2)  # written in place
        assert torch.equal(fast(x), plain(x))
        model.b.bias = torch.nn.Parameter(torch.ones_like(model.b.bias))  # another tensor
        assert torch.equal(fast(x), plain(x)) and torch.equal(fast(x), plain(x))
        with pytest.raises(ValueError, match="optimised for"):
            fast(x[:4])


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
