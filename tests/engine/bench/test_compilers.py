"""torch.compile runs ahead in other processes, in the order wanted, and whoever times finds its work in the caches."""

import sys
import time

import pytest

pytest.importorskip("torch")

from engine.bench.run import precompile as precompiling
from engine.bench.run.compilers import Compilers
from engine.bench.run.precompile import bytes_of, precompile
from engine.evaluate.timing.gpu_lock import Turn
from engine.suite.cases import PROBLEMS
from tests.engine.bench.test_turns import free


def command(folder):
    return [sys.executable, "-m", "engine.bench.run.child", "--device", "cpu", "--turn", str(folder / "turn")]


def where(*modules):
    return {m: {"module": str(PROBLEMS / f"{m}.py")} for m in modules}


def test_what_another_process_compiled_is_found_in_the_caches_and_what_it_could_not_is_said(tmp_path, monkeypatch):
    todo, said = [("no_such_module", "compile"), ("matmul_square", "compile")], []
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    compilers = Compilers(todo, 1, command(tmp_path), {}, where(*dict(todo)), said.append)
    try:
        assert compilers.ready(("moe_layer#1", "compile"))  # never to be compiled ahead: whoever times may begin
        for pair in todo:
            while not compilers.ready(pair):
                time.sleep(0.05)
    finally:
        compilers.close()
    (line,) = said
    assert "no_such_module (compile) is not compiled ahead" in line
    made = precompile(where("matmul_square")["matmul_square"], "compile", "cpu", Turn(tmp_path / "turn"))
    assert made["found"] == 1


@pytest.mark.parametrize(("module", "gigabytes"), [("matmul_square", 3 * 4 * 4096**2 / 1e9)])
def test_what_a_module_needs_of_the_gpu_is_known_without_any_memory(module, gigabytes):
    assert bytes_of(PROBLEMS / f"{module}.py") / 1e9 == pytest.approx(gigabytes)


def test_inductor_measures_in_its_turn_alone_and_is_itself_again_afterwards(tmp_path):
    import torch._inductor.compile_fx as inductor
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    turn, seen = Turn(tmp_path / "turn"), []
    before = inductor.compile_fx, vars(AlgorithmSelectorCache)["benchmark_in_current_process"]
    names = {name for _, name in precompiling._measures()}
    assert {"benchmark_in_current_process", "benchmark_gpu", "should_pad"} <= names  # of the PyTorch of this machine

    def look(*args, **kwargs):
        seen.append(free(tmp_path / "turn"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inductor, "compile_fx", look)
        patch.setattr(AlgorithmSelectorCache, "benchmark_in_current_process", classmethod(look))
        with turn, precompiling._in_turn(turn):
            inductor.compile_fx()
            AlgorithmSelectorCache.benchmark_in_current_process([], [], None, None)
            seen.append(free(tmp_path / "turn"))
    assert seen == [True, False, False]
    assert before == (inductor.compile_fx, vars(AlgorithmSelectorCache)["benchmark_in_current_process"])
