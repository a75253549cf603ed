"""The profiler of a session: what it runs under ncu, what it answers, and what it says where it can count nothing."""

import ast
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from dsl.check.program import check
from engine.build.cache import Cache
from engine.evaluate.profiling import launch_main, ncu, profiler
from engine.session import events
from engine.session.events import blob_name
from engine.session.journal import Journal
from engine.session.script.turns import Turn
from engine.strategies.api import Profile
from tests.engine.counting import PROGRAM
from tests.engine.evaluate.profiling.reports import report, stand_in

NOW = Turn("profile 1", lambda: False)
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"


def journal(form="program", backend="cute"):
    proposed = events.TrialProposed(1, "f16", blob_name(PROGRAM), backend, "first", "", form=form)
    return Journal([proposed], lambda name: PROGRAM, lambda: 0.0)


def profiling(tool, tmp_path, **more):
    return profiler.Profiler(tool, journal(**more), "1", 132, Cache(tmp_path / "cache"))


def calls(folder):
    path = folder / "calls"
    return [ast.literal_eval(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_program_is_run_in_a_process_of_its_own_and_its_kernels_are_described(tmp_path):
    answer = profiling(stand_in(tmp_path, report()), tmp_path)(Profile(1), NOW)
    assert not answer.refusal and answer.text.startswith("Trial 1: 2 kernels by Nsight Compute") and answer.seconds > 0
    (args,) = calls(tmp_path)
    assert args[-4:-2] == ["-m", "engine.evaluate.profiling.launch_main"] and args[-1] == "cute"


def test_closed_counters_are_named_and_asked_for_once(tmp_path):
    closed = profiling(stand_in(tmp_path, "", DENIED, status=1), tmp_path)
    first, second = closed(Profile(1), NOW), closed(Profile(1), NOW)
    assert first.refusal == second.refusal == "no_profiler" and len(calls(tmp_path)) == 1
    assert first.reason == second.reason and "only an administrator" in first.reason


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("Segmentation fault", "it ended with status 3 and counted nothing"),
        ("==ERROR== The application returned an error code (1).", "The application returned an error code (1)"),
    ],
)
def test_a_run_that_counts_nothing_says_how_it_ended_and_may_be_tried_again(tmp_path, log, why):
    broken = profiling(stand_in(tmp_path, "", log, status=3), tmp_path)
    assert broken(Profile(1), NOW).reason == f"Nsight Compute did not run: {why}."
    broken(Profile(1), NOW)
    assert len(calls(tmp_path)) == 2


def test_a_raw_kernel_is_not_profiled(tmp_path):
    answer = profiling(stand_in(tmp_path, report()), tmp_path, form="kernel")(Profile(1), NOW)
    assert answer.refusal == "no_profiler" and "confined" in answer.reason and not calls(tmp_path)


@pytest.mark.parametrize(("kind", "tool", "there"), [("measured", True, True), ("measured", False, False),
                                                     ("predicted", True, False)])  # fmt: skip
def test_a_session_has_a_profiler_on_a_gpu_with_ncu_alone(tmp_path, monkeypatch, kind, tool, there):
    monkeypatch.setattr(ncu, "find", lambda: tmp_path / "ncu" if tool else None)
    machine = SimpleNamespace(visible="", hw=SimpleNamespace(sms=132))
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
