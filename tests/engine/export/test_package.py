"""An exported program: what its zip holds, that pip installs it without a network, and that it says what it needs."""

import ast
import io
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from engine.export import Exported, ExportError, archive, history, package, write

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "dsl" / "examples"
MLP = (EXAMPLES / "mlp.ucutlass").read_text()
MODULE = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return package.files(history.of_program(MLP, MODULE))


def test_it_holds_the_program_both_sources_a_package_and_a_check(files):
    assert {name.partition("/")[0] for name in files} == {"ucutlass-mlp"}
    names = {name.partition("/")[2] for name in files}
    assert names == {
        "program.ucutlass", "resolved.ucutlass", "module.py", "check.py", "_wheel.py", "pyproject.toml",
        "requirements.txt", "README.md", "ucutlass_mlp/__init__.py", "ucutlass_mlp/facts.json",
        "ucutlass_mlp/program.ucutlass", "ucutlass_mlp/cute_kernel.py", "ucutlass_mlp/cpp_kernel.cu",
        "ucutlass_mlp/cpp_kernel.py", "ucutlass_mlp/_nvcc.py",
    }  # fmt: skip
    output = generate(check(MLP).program)
    assert files["ucutlass-mlp/program.ucutlass"] == MLP and files["ucutlass-mlp/module.py"] == MODULE
    assert files["ucutlass-mlp/ucutlass_mlp/cute_kernel.py"] == output.sources["cute"].text
    assert files["ucutlass-mlp/ucutlass_mlp/cpp_kernel.cu"] == output.sources["cpp"].text
    assert files["ucutlass-mlp/ucutlass_mlp/cpp_kernel.py"] == output.sources["cpp"].binding


def test_its_python_imports_nothing_of_ours(files):
    """The package runs where this repository is not installed; a relative import names a file of the package."""
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level:
                folder = path.rpartition("/")[0]
                assert all(f"{folder}/{a.name}.py" in files for a in node.names), path
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            assert not {n.partition(".")[0] for n in names} & {"dsl", "sol", "engine", "playground"}, path


def test_every_python_file_is_python_and_every_requirement_is_pinned_here(files):
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
    pinned = (ROOT / "requirements-gpu.txt").read_text().splitlines()
    assert set(files["ucutlass-mlp/requirements.txt"].splitlines()) <= set(pinned)
    project = tomllib.loads(files["ucutlass-mlp/pyproject.toml"])
    assert project["build-system"]["requires"] == []
    facts = json.loads(files["ucutlass-mlp/ucutlass_mlp/facts.json"])
    assert facts["backends"] == ["cute", "cpp"] and facts["class"] == "bf16" and facts["arch"] == "sm_90a"


@pytest.mark.parametrize("name", ["gemm_scale_leaky", "conv_bn_relu", "mixture_of_experts", "fp8_linear"])
def test_a_back_end_that_refuses_is_left_out_and_the_readme_says_why(name):
    text = (EXAMPLES / f"{name}.ucutlass").read_text()
    output, files = generate(check(text).program), package.files(history.of_program(text))
    readme = next(text for path, text in files.items() if path.endswith("/README.md"))
    for backend in ("cute", "cpp"):
        has = any(path.endswith("/cute_kernel.py" if backend == "cute" else "/cpp_kernel.cu") for path in files)
        assert has == (backend in output.sources)
        if not has:
            assert f"no `{backend}`: {output.refused[backend].code}" in readme


def test_the_zip_has_no_times_and_no_way_out(files):
    with zipfile.ZipFile(io.BytesIO(archive(files))) as zipped:
        assert zipped.testzip() is None and zipped.namelist() == sorted(files)
        for entry in zipped.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert ".." not in entry.filename and not entry.filename.startswith("/")


def test_pip_installs_the_folder_without_a_network_and_the_package_imports_without_torch(files, tmp_path):
    write(files, tmp_path / "out")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", tmp_path / "site", tmp_path / "out"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    code = (
        "import sys, ucutlass_mlp as p; print(p.PARAMETERS[0], p.RESULTS, p.BACKENDS, p.__file__);"
        "print([m for m in sys.modules if m in ('torch', 'cutlass', 'dsl', 'engine')])"
    )
    output = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True, env={"PYTHONPATH": "site"})
    assert "('x', (4096, 1024), 'bf16')" in output and str(tmp_path / "site") in output and output.endswith("[]\n")


def test_the_check_says_what_is_missing_on_a_machine_that_cannot_run_it(files, tmp_path):
    write(files, tmp_path / "out")
    bare = [sys.executable, "-S", tmp_path / "out" / "check.py"]  # -S: the standard library alone, so no PyTorch
    done = subprocess.run(bare, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path / "out")}, cwd=tmp_path)
    assert done.returncode == 2 and "PyTorch is not installed" in done.stderr and "NVIDIA GPU" in done.stderr


def test_a_folder_is_never_written_over(files, tmp_path):
    write(files, tmp_path / "out")
    with pytest.raises(ExportError, match="exists already"):
        write(files, tmp_path / "out")
    write(files, tmp_path / "a.zip")
    write(files, tmp_path / "a.zip")


def test_a_rejected_program_is_no_package():
    with pytest.raises(ExportError, match="E101"):
        history.of_program(MLP.replace("w2.T", "w3.T"))
    with pytest.raises(ExportError, match="does not pass its checks: line"):
        package.files(Exported(MLP.replace("w2.T", "w3.T"), "bf16"))
