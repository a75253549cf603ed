"""The profiler of a session: what it runs under ncu, what it answers, and what it says where it can count nothing."""

import ast
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from dsl.check.program import check
from engine.build.limited import BuildError
from engine.evaluate.profiling import launch_main, launchers, ncu, profiler
from engine.session import events
from engine.session.events import blob_name
from engine.session.journal import Journal
from engine.session.script.turns import Turn
from engine.strategies.api import Profile
from tests.engine.devices.on_cpu import Builds, compile_meanings
from tests.engine.evaluate.profiling.reports import report, stand_in, without_quack

PROGRAM = """program scale(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] {
  y = gemm(x, w.T) { }
  return y
}"""
NOW = Turn("profile 1", lambda: False)
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"


def journal(form="program", backend="cute"):
    proposed = events.TrialProposed(1, "f16", blob_name(PROGRAM), backend, "first", "", form=form)
    return Journal([proposed], lambda name: PROGRAM, lambda: 0.0)


@pytest.fixture
def profiling(tmp_path, monkeypatch):
    """A function of ncu and the trial: a profiler whose programs run on the CPU, in processes of their own. `ahead`:
    the next process imports torch while this one counts, 4 s of a core that few tests need."""
    compile_meanings(monkeypatch, "engine.evaluate.profiling.profiler")
    environment, builds, every = without_quack(tmp_path), Builds(tmp_path), []

    def make(tool, loadable=builds.loadable, ahead=False, **trial):
        ours = launchers.Launchers(tool, environment)
        if not ahead:
            monkeypatch.setattr(ours, "ahead", lambda: None)
        every.append(ours)
        return profiler.Profiler(ours, journal(**trial), 132, loadable, "cpu")

    yield make
    for ours in every:
        ours.close()


def calls(folder):
    path = folder / "calls"
    return [ast.literal_eval(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_program_is_run_in_a_process_of_its_own_and_its_kernels_are_described(profiling, tmp_path):
    answer = profiling(stand_in(tmp_path, report()))(Profile(1), NOW)
    assert not answer.refusal and answer.text.startswith("Trial 1: 2 kernels by Nsight Compute") and answer.seconds > 0
    assert set(answer.counts) == {"memory", "occupancy", "instructions"}
    args = calls(tmp_path)[0]
    assert args[-4:-1] == ["-m", "engine.start", "engine.evaluate.profiling.launch_main"]


def test_the_next_process_imports_ahead_and_the_next_profile_is_quick(profiling, tmp_path):
    twice = profiling(stand_in(tmp_path, report()), ahead=True)
    assert twice.launchers.spare is None
    first = twice(Profile(1), NOW)
    spare = twice.launchers.spare
    assert spare.wait_imported(60.0) and len(calls(tmp_path)) == 2
    second = twice(Profile(1), NOW)
    assert second.text == first.text and len(calls(tmp_path)) == 3
    assert not spare.alive and twice.launchers.spare is not spare


def test_a_process_that_ended_while_it_waited_is_replaced(profiling, tmp_path):
    again = profiling(stand_in(tmp_path, report()), ahead=True)
    again(Profile(1), NOW)
    launcher = again.launchers.spare
    launcher._process.kill()
    launcher._process.wait()
    again.launchers.take = lambda: (launcher, True)
    assert not again(Profile(1), NOW).refusal


def test_closed_counters_are_named_and_asked_for_once(profiling, tmp_path):
    closed = profiling(stand_in(tmp_path, "", DENIED), ahead=True)
    first = closed(Profile(1), NOW)
    known = len(calls(tmp_path))
    second = closed(Profile(1), NOW)
    assert first.refusal == second.refusal == "no_profiler" and len(calls(tmp_path)) == known
    assert first.reason == second.reason and "only an administrator" in first.reason
    assert closed.launchers.spare is None


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("Segmentation fault", "it ended with status 3 and counted nothing"),
        ("==ERROR== The application returned an error code (1).", "The application returned an error code (1)"),
    ],
)
def test_a_run_that_counts_nothing_says_how_it_ended_and_may_be_tried_again(profiling, tmp_path, log, why):
    broken = profiling(stand_in(tmp_path, "", log, status=3))
    assert broken(Profile(1), NOW).reason == f"Nsight Compute did not run: {why}."
    broken(Profile(1), NOW)
    assert len(calls(tmp_path)) == 2


def test_a_program_that_fails_and_one_that_is_not_built_say_why(profiling, tmp_path):
    tool, broken = stand_in(tmp_path), tmp_path / "broken.py"
    broken.write_text("raise OSError('no such kernel')")
    answer = profiling(tool, lambda source, cancelled: (broken, None))(Profile(1), NOW)
    assert answer.reason == "Nsight Compute did not run: the program failed under it: OSError: no such kernel."

    def unbuilt(source, cancelled):
        raise BuildError("compile_failed", "nvcc failed: no tile")

    assert profiling(tool, unbuilt)(Profile(1), NOW).reason == "Nsight Compute did not run: nvcc failed: no tile."


def test_one_that_takes_too_long_or_is_stopped_ends_at_once(profiling, tmp_path, monkeypatch):
    slow = tmp_path / "slow.py"
    slow.write_text("import time; time.sleep(60)")
    slowly = profiling(stand_in(tmp_path), lambda source, cancelled: (slow, None))
    began = time.monotonic()
    stopped = slowly(Profile(1), Turn("profile 1", lambda: time.monotonic() > began + 0.5))
    assert time.monotonic() - began < 40 and stopped.reason.endswith("it was stopped on request.")
    monkeypatch.setattr(profiler, "SECONDS", 1.0)
    assert slowly(Profile(1), NOW).reason == "Nsight Compute did not run: it took longer than 1 s to prepare."


def test_a_program_runs_in_the_lane_alone(profiling, tmp_path):
    """Twice, and not while it prepares."""
    counting, ran = tmp_path / "counting.py", tmp_path / "ran"
    counting.write_text(f"def load(artifact):\n    return lambda ins, outs: open({str(ran)!r}, 'a').write('x')\n")
    phases = profiling(stand_in(tmp_path, report()), lambda *_: (counting, None)).phases(Profile(1), NOW)
    try:
        assert phases.prepare() is None and not ran.exists()
        assert phases.count() is None and ran.read_text() == "xx"
        assert phases.reply().text.startswith("Trial 1: 2 kernels")
    finally:
        phases.close()


def test_a_raw_kernel_is_not_profiled(profiling, tmp_path):
    answer = profiling(stand_in(tmp_path, report()), form="kernel")(Profile(1), NOW)
    assert answer.refusal == "no_profiler" and "confined" in answer.reason and not calls(tmp_path)


@pytest.mark.parametrize(("kind", "tool", "there"), [("measured", True, True), ("measured", False, False),
                                                     ("predicted", True, False)])  # fmt: skip
def test_a_session_has_a_profiler_on_a_gpu_with_ncu_alone(tmp_path, monkeypatch, kind, tool, there):
    monkeypatch.setattr(ncu, "find", lambda: tmp_path / "ncu" if tool else None)
    machine = SimpleNamespace(visible="", hw=SimpleNamespace(sms=132), pool=Builds(tmp_path))
    device = SimpleNamespace(kind=kind, machine=machine)
    assert bool(profiler.handlers(device, journal())) == there


GROUPED = """program p(x: f16[100, 64], w: f16[3, 32, 64], sizes: i32[3]) -> f16[100, 32] {
  y = grouped_gemm(x, w.T, sizes) { }
  return y
}"""


def test_inputs_fit_the_program():
    program = check(GROUPED).program
    x, _, sizes = (launch_main.tensor(program, p, "cpu") for p in program.params)
    assert sizes.tolist() == [34, 33, 33] and tuple(x.shape) == (100, 64) and str(x.dtype) == "torch.float16"
