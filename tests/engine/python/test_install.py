"""pip installs the package alone, with the rooms that it drives; torch.compile knows the backend without an import."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "engine" / "python"
CODE = """
import sys
import torch
assert "ucutlass" in torch._dynamo.list_backends(), torch._dynamo.list_backends()
backend = torch._dynamo.lookup_backend("ucutlass")
import ucutlass, engine
assert backend is ucutlass.backend and "_rooms" in engine.__file__
module, x = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU()).eval(), torch.randn(128, 128)
fast = ucutlass.optimize(module, x, seconds=20, trials=1, verbose=False, device="modelled:h200")
assert torch.allclose(fast(x), module(x), atol=1e-4) and fast.report.kind == "predicted"
print(fast.report)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    there = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", there, FOLDER], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return there


def run(code, site, tmp_path):
    environ = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True)


def test_it_optimises_where_the_checkout_is_not(site, tmp_path):
    done = run(CODE, site, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "predicted" in done.stdout


def test_another_package_of_the_same_name_is_named(site, tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("")
    done = run("import ucutlass", site, tmp_path)
    assert done.returncode == 1 and "another package is called 'engine'" in done.stderr


def test_it_asks_for_nothing_that_the_app_does_not():
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "requirements.txt").read_text().splitlines()}
    names = {wanted.partition(">")[0].lower() for wanted in project["dependencies"]} - {
        "pydantic"
    }  # django-ninja brings it
    assert names <= pinned
