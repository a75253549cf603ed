"""The engine finds nvcc and tells the sandbox, which has no PATH and sees no links into places that it lacks."""

import os

import pytest

pytest.importorskip("torch")

from engine.build import cuda_toolchain
from engine.build.cache import Cache
from engine.evaluate.integrity import verify
from engine.evaluate.integrity.process import compiler, nvcc_unit, raw_builds
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.sandbox import Sandbox, confine
from tests.engine.integrity import zoo

pytestmark = pytest.mark.toolchain


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """A machine whose nvcc is found by PATH alone, over a link in a folder that no sandbox sees."""
    wheel = cuda_toolchain._package("nvidia.cu13")
    if wheel is None or not (wheel / "bin/nvcc").exists():
        pytest.skip("needs requirements-gpu.txt")
    (tmp_path / "cuda").symlink_to(wheel)
    monkeypatch.setenv("PATH", f"{tmp_path}/cuda/bin:{os.environ['PATH']}")
    package = cuda_toolchain._package
    monkeypatch.setattr(cuda_toolchain, "_package", lambda name: None if name == "nvidia.cu13" else package(name))
    monkeypatch.setattr(compiler, "find", compiler.find.__wrapped__)
    return os.path.realpath(wheel)


def test_a_library_is_known_by_its_text_and_its_architecture():
    mine = raw_builds.key("text", "sm_90a")
    assert mine == raw_builds.key("text", "sm_90a")
    assert len({mine, raw_builds.key("text ", "sm_90a"), raw_builds.key("text", "sm_80")}) == 3


def test_its_folder_is_shown_to_a_sandbox_with_a_gpu(toolkit):
    assert confine.toolkit_folders() == [toolkit]
    roots = confine.python_roots.__wrapped__(True)
    assert any(toolkit == r or toolkit.startswith(r + "/") for r in roots)


def test_raw_cuda_is_compiled_inside_and_once(toolkit, tmp_path, monkeypatch):
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path / "cache"))
    toolchain = compiler.find()
    assert toolchain["nvcc"] == f"{toolkit}/bin/nvcc" and toolchain["runtime"].startswith("-l:libcudart.so.")
    assert not [p for p in toolchain["includes"] if p != os.path.realpath(p)]
    with verify.Verifier(zoo.module("gate")) as v, v.candidate("cuda") as c:
        text = (zoo.HERE / "cuda_honest" / "gate.cu").read_text()
        assert c.open(text, timeout=120)["entry"] == "run"
        # Built once: the next process gets what nvcc made, and nvcc is not started again.
        with monkeypatch.context() as m:
            m.setattr(raw_builds.sandbox, "take", lambda **_: pytest.fail("a compiler's sandbox was started"))
            assert c.open(text, timeout=120)["entry"] == "run"
            built = raw_builds.library(text, "sm_90a", Cache(), gpu=False)
            assert built.cached and len(built.base64) > 10_000
            assert [(k["kernel"], k["spill_bytes"]) for k in built.resources] == [("gate", 0)]
            assert 0 < built.resources[0]["registers"] < 64
        with pytest.raises(CandidateEnded, match='identifier "nonsense" is undefined') as e:
            c.open("__global__ void k() {\n  nonsense;\n}", timeout=120)
        assert e.value.line == 2 and nvcc_unit.errors(e.value.log)[0]["line"] == 2
        with pytest.raises(CandidateEnded, match='`run` is not declared extern "C"'):
            c.open(text.replace('extern "C" ', "") + '\nextern "C" int other() { return 0; }', timeout=120)


def test_without_a_compiler_it_is_said_how_to_get_one(tmp_path, monkeypatch):
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path / "cache"))  # a build that was kept needs no compiler
    monkeypatch.setattr(compiler, "find", lambda: None)
    with verify.Verifier(zoo.module("gate")) as v:
        report = v.verify((zoo.HERE / "cuda_honest" / "gate.cu").read_text(), "cuda")
    (finding,) = report.findings
    assert finding.code == "no_compiler" and "put CUDA's nvcc on PATH" in finding.sentence
    assert report.verdict == "unverified" and not report.accepted


def test_a_line_that_no_text_has_is_no_error_of_the_unit():
    """A text may print it: of 5,000 digits int() makes an error of ours."""
    for at in (f"({'9' * 5000})", f":{'9' * 5000}:1", f":1:{'9' * 5000}"):
        assert nvcc_unit.errors(f"candidate.cu{at}: error: x") == []
    (error,) = nvcc_unit.errors("candidate.cu(7): error: x")
    assert error == {"line": 7, "column": None, "message": "x"}
