"""Nsight Compute counts what a session's program does on this GPU, for both back ends."""

import os
import select
import time
from pathlib import Path

import pytest

from engine.build.cache import Cache
from engine.build.pool import BuildPool
from engine.evaluate.profiling import launchers, ncu, profiler
from engine.evaluate.timing import gpu_condition
from engine.session import events
from engine.session.events import blob_name
from engine.session.journal import Journal
from engine.session.script.turns import Turn
from engine.strategies.api import Profile

pytestmark = pytest.mark.gpu

M, N, K = 4096, 4096, 1024
PROGRAM = f"""\
program scaled(x: f16[{M}, {K}], w: f16[{N}, {K}], b: f32[{N}]) -> f16[{M}, {N}] {{
  y = gemm(x, w.T) {{
    epilogue relu(acc * 2 + b[n])
  }}
  return y
}}
"""
NOW = Turn("profile 1", lambda: False)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    pool = BuildPool(Cache(tmp_path_factory.mktemp("cache")), size=1)
    yield pool
    pool.close()


@pytest.fixture
def profiling(cuda, pool):
    """A function of the back end: a profiler of one trial, whose program is built as a session has built it."""
    tool = ncu.find()
    if tool is None:
        pytest.skip("there is no ncu here")
    ours = launchers.Launchers(tool, profiler.environment(pool))

    def make(backend):
        proposed = events.TrialProposed(1, "f16", blob_name(PROGRAM), backend, "first", "", form="program")
        journal = Journal([proposed], lambda name: PROGRAM, lambda: 0.0)
        pool.loadable(profiler.source_of(PROGRAM, backend, cuda.hw.sms))
        return profiler.Profiler(ours, journal, cuda.hw.sms, pool.loadable)

    yield make
    ours.close()


def write(name, text):
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / f"{name}.txt").write_text(text)


@pytest.mark.parametrize("backend", ["cute", "cpp"])
def test_the_kernels_of_a_program_are_counted_also_a_second_time(profiling, backend):
    two, seconds = profiling(backend), []
    for _ in range(2):
        phases, began = two.phases(Profile(1), NOW), time.monotonic()
        marks = []
        try:
            answer = None
            for phase in (phases.prepare, phases.count, phases.reply):
                answer = phase()
                marks.append(time.monotonic())
                if answer is not None:
                    break
        finally:
            phases.close()
        assert not answer.refusal, answer.reason
        assert answer.text.startswith("Trial 1: 1 kernel by Nsight Compute"), answer.text
        seconds.append([round(end - start, 2) for start, end in zip([began, *marks], marks, strict=False)])
        assert two.launchers.spare.wait_imported(120.0)
    write(f"profile-{backend}", answer.text)
    write(f"profile-{backend}-seconds", f"prepare, count, reply: {seconds}\n")


def test_a_process_that_waits_holds_nothing_of_the_gpu(profiling):
    waits = profiling("cute").launchers
    free = gpu_condition.free_bytes(None)
    waits.ahead()
    assert waits.spare.wait_imported(120.0)
    time.sleep(1.0)
    assert free is None or free - gpu_condition.free_bytes(None) < 32 << 20


def test_a_stop_while_it_counts_ends_every_process(profiling):
    one = profiling("cute")
    phases = one.phases(Profile(1), Turn("profile 1", lambda: time.monotonic() > until))
    until = float("inf")
    try:
        assert phases.prepare() is None
        handle = os.dup(phases._launcher._handle)
        began = time.monotonic()
        until = began + 0.05
        ended = phases.count() or phases.reply()
        assert time.monotonic() - began < 2.5 and "stopped on request" in ended.reason
    finally:
        phases.close()
    assert select.select([handle], [], [], 2.0)[0]
    os.close(handle)
