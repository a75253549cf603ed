"""torch.compile runs ahead in other processes, in the order wanted, and whoever times finds its work in the caches."""

import sys
import time

import pytest

pytest.importorskip("torch")

from engine.bench.compilers import Compilers
from engine.bench.precompile import bytes_of, precompile
from engine.bench.turns import Turn
from engine.suite.cases import PROBLEMS


def command(folder):
    return [sys.executable, "-m", "engine.bench.child", "--device", "cpu", "--turn", str(folder / "turn")]


def where(module):
    return {module: {"module": str(PROBLEMS / f"{module}.py")}}


def test_what_another_process_compiled_is_found_in_the_caches(tmp_path, monkeypatch):
    todo, said = [("matmul_square", "compile"), ("matmul_square", "compile_max")], []
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    compilers = Compilers(todo, 1, command(tmp_path), {}, where("matmul_square"), said.append)
    try:
        for pair in todo:
            while not compilers.ready(pair):
                time.sleep(0.05)
    finally:
        compilers.close()
    assert said == []
    made = precompile(where("matmul_square")["matmul_square"], "compile", "cpu", Turn(tmp_path / "turn"))
    assert made["found"] == 1


def test_a_module_that_cannot_be_compiled_ahead_is_said_and_left_to_whoever_times(tmp_path):
    said = []
    compilers = Compilers(
        [("no_such_module", "compile")], 1, command(tmp_path), {}, where("no_such_module"), said.append
    )
    try:
        while not compilers.ready(("no_such_module", "compile")):
            time.sleep(0.05)
    finally:
        compilers.close()
    (line,) = said
    assert "no_such_module (compile) is not compiled ahead" in line


@pytest.mark.parametrize(("module", "gigabytes"), [("matmul_square", 3 * 4 * 4096**2 / 1e9)])
def test_what_a_module_needs_of_the_gpu_is_known_without_any_memory(module, gigabytes):
    assert bytes_of(PROBLEMS / f"{module}.py") / 1e9 == pytest.approx(gigabytes)
