"""The second process compiles while candidates are timed in the first one; a session begins it before its search."""

from engine.session import events
from engine.session.runner import run
from engine.session.script.compiled import Compiling
from tests.engine.counting import spec
from tests.engine.evaluate.compiled_apart.fakes import Records


def test_the_first_process_times_pytorch_meanwhile(played):
    device = played.open(seconds=600)
    device.compile_ahead("compile")
    played.wait_until_it_compiles(1)
    assert device.baseline("eager", "eager_tf32").ratio > 0
    assert played.printed(0, "compile") == 0


def test_a_session_begins_before_its_first_trial_and_takes_the_times_after_its_last():
    device, ways = Records(), ("compile", "compile_tf32")
    log = [e.event for e in run(spec(compile=True), device=device, compiling=Compiling(ways, 90.0))]
    assert log[-1].state == "done" and device.steps.count("build") == 4
    assert device.steps[:3] == [("ahead", "compile", 90.0), ("ahead", "compile_tf32", 90.0), "build"]
    assert device.steps[-5:] == [
        ("compile", "compile", 90.0), ("time", "compile"),
        ("compile", "compile_tf32", 90.0), ("time", "compile_tf32"), "end",
    ]  # fmt: skip


def test_a_session_that_takes_no_times_of_torch_compile_begins_nothing():
    device = Records()
    list(run(spec(), device=device, compiling=Compiling(("compile",))))
    assert device.steps == ["build"] * 4


def test_a_process_that_is_lost_before_its_time_is_taken_costs_a_second_compilation():
    class Loses(Records):
        def compiled(self, name, classes):
            timed = super().compiled(name, classes)
            return timed if self.steps.count(("time", name)) == 2 else None

    device = Loses()
    log = [e.event for e in run(spec(compile=True), device=device, compiling=Compiling(("compile",)))]
    assert device.steps[-5:-1] == [("compile", "compile", None), ("time", "compile")] * 2
    assert [e.name for e in log if isinstance(e, events.Baseline)][-1] == "compile"
