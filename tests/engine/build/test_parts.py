"""A large module is compiled by several workers, stage by stage, and is then as if one had compiled it."""

import threading
import time

import pytest

from dsl.lower.cute import lower
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder
from engine.build.limited import BuildError
from engine.build.parts import Parts
from engine.build.pool import BuildPool
from tests.dsl.lower.cute import programs

STAGES = [f"s{number}" for number in range(20)]
CASTS = """program p(a: f32[64, 256], b: f32[64, 512], c: f32[64, 768], d: f32[64, 1024])
  -> (f16[64, 256], bf16[64, 512], f16[64, 768], bf16[64, 1024]) {
  w = transform(a) { to f16 }
  x = transform(b) { to bf16 }
  y = transform(c) { to f16 }
  z = transform(d) { to bf16 }
  return w, x, y, z
}"""


def workers(parts, compile_, many=3):
    threads = [threading.Thread(target=parts.work, args=(compile_,)) for _ in range(many)]
    for thread in threads:
        thread.start()
    return threads


def test_each_stage_is_compiled_once_and_the_wait_ends_after_the_last():
    parts, compiled = Parts(STAGES), []

    def compile_(stage):
        time.sleep(0.01)
        compiled.append((stage, threading.current_thread().name))

    threads = workers(parts, compile_)
    for thread in threads:
        thread.join()
    parts.wait()
    assert sorted(stage for stage, _ in compiled) == sorted(STAGES) and not parts.left
    assert len({name for _, name in compiled}) == 3


def test_after_an_error_no_stage_is_begun_and_the_wait_raises_it():
    parts, begun = Parts(STAGES), []

    def compile_(stage):
        begun.append(stage)
        raise BuildError("compile_failed", f"{stage} does not compile")

    parts.work(compile_)
    with pytest.raises(BuildError, match="s0 does not compile"):
        parts.wait()
    assert begun == ["s0"]


def test_an_unexpected_error_of_a_helper_ends_no_thread():
    parts = Parts(STAGES)
    parts.work(lambda stage: 1 // 0)
    with pytest.raises(BuildError, match="ZeroDivisionError"):
        parts.wait()


def test_a_cancelled_build_begins_no_further_stage():
    stop = threading.Event()
    parts, begun = Parts(STAGES, stop.is_set), []

    def compile_(stage):
        begun.append(stage)
        stop.set()

    parts.work(compile_)
    parts.wait()
    assert begun == ["s0"]


@pytest.mark.toolchain
def test_two_workers_compile_one_module_and_the_cache_has_all_of_it(tmp_path, monkeypatch):
    by = []
    alone, both = CuteBuilder.part, threading.Barrier(2)

    def part(builder, path, stage, *args):
        if builder not in {one for one, _ in by}:
            both.wait(60)  # each has begun a stage before one ends
        by.append((builder, stage))
        return alone(builder, path, stage, *args)

    monkeypatch.setattr(CuteBuilder, "part", part)
    source, pool = lower(programs.program(CASTS)), BuildPool(Cache(tmp_path), size=2)
    try:
        built = pool.build(source)
        assert sorted(stage for _, stage in by) == ["w", "x", "y", "z"] and len({one for one, _ in by}) == 2
        assert [r["stage"] for r in built.resources] == ["w", "x", "y", "z"] and not built.cached
        again = pool.find(source)
        assert again is not None and again.resources == built.resources
    finally:
        pool.close()


TWINS = """program p(a: f32[64, 256], b: f32[64, 256], c: f32[64, 512])
  -> (f32[64, 256], f32[64, 256], f32[64, 512], f32[64, 512]) {
  h1 = map(a) { epilogue acc * 2.0 }
  h2 = map(b) { epilogue acc * 2.0 }
  h3 = map(c) { epilogue acc * 2.0 }
  h4 = map(c) { epilogue acc * 3.0 }
  return h1, h2, h3, h4
}"""


@pytest.mark.toolchain
def test_stages_with_the_same_kernels_are_compiled_once_and_each_has_its_resources(tmp_path, monkeypatch):
    stages, alone = [], CuteBuilder.part

    def part(builder, path, stage, *args):
        stages.append(stage)
        return alone(builder, path, stage, *args)

    monkeypatch.setattr(CuteBuilder, "part", part)
    pool = BuildPool(Cache(tmp_path), size=2)
    try:
        built = pool.build(lower(programs.program(TWINS)))
    finally:
        pool.close()
    assert sorted(stages) == ["h1", "h3", "h4"]
    assert [r["stage"] for r in built.resources] == ["h1", "h2", "h3", "h4"]
    h1, h2, *_ = ({k: v for k, v in r.items() if k != "stage"} for r in built.resources)
    assert h1 == h2


@pytest.mark.toolchain
def test_what_one_stage_lacks_is_the_error_of_the_build(tmp_path, monkeypatch):
    source, pool = lower(programs.program(CASTS)), BuildPool(Cache(tmp_path), size=2)
    broken = source.text.replace("def build(stages=STAGES):", "def build(stages=STAGES):\n    raise ValueError('no z')")
    assert broken != source.text
    try:
        with pytest.raises(BuildError, match="no z"):
            pool.build(type(source)(**{**vars(source), "text": broken}))
    finally:
        pool.close()
