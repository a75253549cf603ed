"""A CuTe worker that crashes, hangs or swells ends its build with a reason, and the next build gets a fresh one.

The workers here are small programs that speak the same protocol: the real one takes 10 s to start.
"""

import sys
import threading
import time

import pytest

from dsl.check.program import check
from dsl.lower import Source
from dsl.lower.cute import lower
from dsl.resolve import resolve
from engine.build import cute
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder
from engine.build.limited import BuildError

WORKER = """
import os, sys, time
from engine.jsonprocess import serve
def build(request):
    text = open(request["path"]).read()
    if "crash" in text: print("about to die", file=sys.stderr, flush=True); os.abort()
    if "hang" in text: time.sleep(600)
    if "swell" in text: keep = bytearray(400 << 20); keep[::4096] = b"x" * len(keep[::4096]); time.sleep(600)
    if "slow" in text:
        time.sleep(1.5)
        open(request["path"])
    if "fail" in text: raise TypeError("\\nmma atom does not fit\\nframe 1\\nframe 2")
    resources = [{"kernel": "k", "stage": "y", "pid": os.getpid()}]
    return {"seconds": 0.1, "cached": False, "objects": [], "resources": resources}
serve({"warm": lambda r: {"pid": os.getpid()}, "build": build})
"""


TWO = """program p(x: f16[256, 256], w: f16[256, 256]) -> f16[256, 256] {
  h = gemm(x, w.T) { tile 128x128x64 }
  y = gemm(h, w.T) { tile 128x128x64 }
  return y
}"""


@pytest.fixture
def builder(tmp_path, monkeypatch):
    monkeypatch.setattr(cute.toolchain.Toolchain, "missing", lambda self, *names: [])
    cute_builder = CuteBuilder(Cache(tmp_path), memory=200 << 20, command=[sys.executable, "-c", WORKER])
    yield cute_builder
    cute_builder.close()


def source(text: str) -> Source:
    return Source("cute", "python", text, text, "uc_0", ())


def failed(builder, text: str, **options) -> BuildError:
    with pytest.raises(BuildError) as caught:
        builder.build(source(text), **options)
    return caught.value


def test_a_crash_ends_one_build_and_no_more(builder):
    first = builder.build(source("fine")).resources[0]["pid"]
    error = failed(builder, "crash")
    assert error.code == "compiler_died" and "SIGABRT" in error.reason and "about to die" in error.log
    second = builder.build(source("fine too")).resources[0]["pid"]
    assert first != second


def test_a_stopped_build_takes_no_text_from_the_next_one_of_the_same_program(builder, tmp_path):
    """The worker reads the text again while it compiles."""
    stop, ends = threading.Event(), []

    def first():
        with pytest.raises(BuildError) as caught:
            builder.build(source("slow"), cancelled=stop.is_set)
        ends.append(caught.value.code)

    other = CuteBuilder(Cache(tmp_path), memory=200 << 20, command=[sys.executable, "-c", WORKER])
    other.warm()
    builder.warm()
    thread = threading.Thread(target=first)
    thread.start()
    time.sleep(0.5)
    threading.Timer(0.5, stop.set).start()
    try:
        assert other.build(source("slow")).resources
    finally:
        other.close()
    thread.join()
    assert ends == ["cancelled"]


def test_a_hang_is_ended_by_the_clock(builder):
    started = time.monotonic()
    error = failed(builder, "hang", seconds=1.0)
    assert error.code == "timeout" and "within 1 s" in error.reason
    assert time.monotonic() - started < 60
    assert builder.build(source("fine")).resources


def test_a_module_of_many_stages_has_longer(builder, monkeypatch):
    """As a whole model on two cores has, where one worker compiles all of it."""
    monkeypatch.setattr(cute, "SECONDS", 0.5)
    stages = "".join(f"\n# ---- stage {i} of 45: h{i} = gemm(x, w)" for i in range(1, 46))
    assert "within 0 s" in failed(builder, "hang").reason
    assert "within 2 s" in failed(builder, "hang" + stages).reason
    real = lower(resolve(check(TWO).program)).text
    assert cute.limit(source(real)) == 0.5 and cute.limit(source(real * 21)) == 1.5


def test_a_stop_request_ends_the_compiler(builder):
    deadline = time.monotonic() + 1.0
    assert failed(builder, "hang", cancelled=lambda: time.monotonic() > deadline).code == "cancelled"


def test_a_compiler_that_swells_is_ended_at_its_memory_cap(builder):
    error = failed(builder, "swell")
    assert error.code == "memory" and "200 MiB" in error.reason


def test_a_compile_error_keeps_the_worker(builder):
    first = builder.build(source("fine")).resources[0]["pid"]
    error = failed(builder, "fail")
    assert error.code == "compile_failed" and "TypeError: mma atom does not fit" in error.reason
    assert "frame 2" in error.log
    assert builder.build(source("fine again")).resources[0]["pid"] == first


def test_a_worker_that_died_between_builds_is_replaced_unseen(builder):
    import os
    import signal

    os.kill(builder.build(source("fine")).resources[0]["pid"], signal.SIGKILL)
    time.sleep(0.2)
    assert builder.build(source("other")).resources


def test_equal_sources_are_built_once(builder):
    assert not builder.build(source("fine")).cached
    again = builder.build(source("fine"))
    assert again.cached and again.seconds < 2.0 and again.path.read_text() == "fine"


def test_without_the_toolchain_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cute.toolchain.Toolchain, "missing", lambda self, *names: ["quack is not installed: do this"])
    error = failed(CuteBuilder(Cache(tmp_path)), "fine")
    assert error.code == "no_toolchain" and "do this" in error.reason
