"""Whatever happens to the second process alone, the first one compiles and times, as if there were no second one."""

from unittest.mock import Mock

import pytest

from engine.devices import SessionRefused, TrialError, cuda
from tests.engine.evaluate.compiled_apart.fakes import Process, apart_with


def lost(code):
    return TrialError("measure", code, "it was lost")


def test_where_the_second_cannot_start_the_first_compiles_and_times(played, monkeypatch):
    device = played.open()
    no_memory = Mock(side_effect=SessionRefused("gpu_memory", "the GPU has too little memory"))
    monkeypatch.setattr(cuda.module_process.sandbox, "take", no_memory)
    device.compile_ahead("compile")
    device.compile("compile", 300.0)
    assert device.compiled("compile", ["tf32"]).ratio > 0
    assert played.printed(0, "compile") == 1 and played.printed(0, "run") > 0


@pytest.mark.parametrize(
    "fails",
    [
        {"start": SessionRefused("slow_start", "the machine is busy")},
        {"start": SessionRefused("time_limit", "its __init__ took too long")},
        {"start": OSError("too many open files")},
        {"compile": lost("gpu_memory")},
        {"compile": lost("reference_crashed")},
        {"compile": lost("reference_memory_limit")},
    ],
    ids=["slow", "loads", "files", "gpu", "killed", "memory"],
)
def test_it_compiles_what_the_second_could_not(fails):
    apart = apart_with(Process(**fails))
    apart.begin("compile")
    assert not apart.compile("compile") and not apart.holds("compile")


@pytest.mark.parametrize("code", ["reference_time_limit", "module_raised", "shape_mismatch"])
def test_an_error_of_the_module_is_final(code):
    process = Process(compile=lost(code))
    apart = apart_with(process)
    apart.begin("compile")
    with pytest.raises(TrialError) as caught:
        apart.compile("compile")
    assert caught.value.code == code
    process.fails.clear()
    assert apart.compile("compile_tf32") and apart.holds("compile_tf32")  # another way may still be compiled there


def test_one_that_is_lost_while_it_is_timed_has_no_time():
    process = Process(open=lost("gpu_memory"))
    apart = apart_with(process)
    apart.begin("compile")
    assert apart.compile("compile") and apart.holds("compile")
    assert apart.baseline("compile", "eager") is None and not apart.holds("compile")


def test_the_session_then_compiles_again_in_the_first(played, monkeypatch):
    device = played.open()
    device.compile_ahead("compile")
    device.compile("compile")
    monkeypatch.setattr(played.processes[1], "baseline_open", Mock(side_effect=lost("gpu_memory")))
    assert device.compiled("compile", ["tf32"]) is None
    device.compile("compile")
    assert device.compiled("compile", ["tf32"]).ratio > 0
    assert played.printed(0, "compile") == 1


def test_max_autotune_is_left_to_the_first(played):
    device, asked = played.open(), []
    device.workbench.programs.timing.compile = lambda name, seconds: asked.append(name)
    device.compile_ahead("compile")
    device.compile("compile_max")
    assert asked == ["compile_max"]
