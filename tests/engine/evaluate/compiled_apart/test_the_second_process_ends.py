"""The second process ends with its session, whatever it does then, and gives its memory to work that needs it."""

import threading
import time

from engine.devices import NO_ROOM, TrialError
from engine.session.runner import run
from engine.session.script.compiled import Compiling
from engine.session.spec import SessionSpec
from tests.engine.evaluate.compiled_apart.fakes import Process, apart_with
from tests.engine.evaluate.compiled_apart.playing import MODULE, PATIENCE


def ended(process):
    """Return True if nothing of it is left."""
    threads = [thread for thread in threading.enumerate() if thread.name == "compile apart"]
    return process._box is None and not threads


def test_closing_the_evaluator_ends_one_that_compiles(played):
    device = played.open(seconds=600)
    device.compile_ahead("compile")
    played.wait_until_it_compiles(1)
    box, began = played.processes[1]._box, time.monotonic()
    device.close()
    assert ended(played.processes[1]) and not box.alive and time.monotonic() - began < PATIENCE


def test_a_session_that_is_stopped_while_it_compiles_leaves_nothing(played):
    commands = []

    def control():
        if not commands and len(played.processes) > 1 and played.printed(1, "compile"):
            commands.append("stop")
            return [("stop", {})]
        return []

    source = MODULE.replace("SECONDS", "600")
    session = SessionSpec(source=source, classes=("tf32",), strategy="sweep", trials=1, compile=True)
    log = list(
        run(
            session, device=played.device, local_user=True, teaches=False, memory="", control=control,
            compiling=Compiling(("compile",)),
        )
    )  # fmt: skip
    assert log[-1].event.state == "stopped" and commands == ["stop"]
    assert all(ended(process) for process in played.processes)


def test_it_ends_when_all_times_are_taken(played):
    device = played.open()
    device.compile_ahead("compile")
    device.compile("compile")
    device.compiled("compile", ["tf32"])
    assert not ended(played.processes[1])
    device.end_compiling()
    assert ended(played.processes[1]) and played.processes[0]._box.alive


def test_a_pause_ends_one_that_compiles_and_the_first_compiles_later():
    process, paused = Process(), []

    def compile_(name, seconds):
        while not process.cancelled():
            time.sleep(0.01)
        raise TrialError("measure", "reference_cancelled", "stopped")

    process.compile = compile_
    apart = apart_with(process)
    apart.begin("compile", None, lambda: bool(paused))
    paused.append(True)
    apart._wait()
    assert not apart.compile("compile")


def test_another_session_gets_its_memory_until_the_search_is_over(played):
    device = played.open(seconds=600)
    device.compile_ahead("compile")
    device.trim(hard=True)
    assert ended(played.processes[1]) and device._ahead is None


def test_one_whose_time_is_wanted_keeps_its_memory(played):
    device = played.open()
    device.compile_ahead("compile")
    device.compile("compile")
    device.trim(hard=True)
    assert not ended(played.processes[1])


def test_the_sessions_own_work_gets_its_memory(played):
    device, outcomes = played.open(seconds=600), [TrialError("measure", NO_ROOM[0], "too little memory"), "measured"]

    def work():
        if isinstance(outcome := outcomes.pop(0), Exception):
            raise outcome
        return outcome

    device.compile_ahead("compile")
    assert device._with_room(work) == "measured" and ended(played.processes[1])


def test_what_was_closed_starts_no_more():
    process = Process()
    apart = apart_with(process)
    apart.close()
    apart.begin("compile")
    assert not apart.compile("compile") and process.requests == ["close"]
