"""A second process starts only where it helps: not for a large module, a stored time, max-autotune, a device that
predicts, or a session that goes on and has its times."""

from engine.devices import modelled
from engine.evaluate.evaluator import Evaluator
from engine.evaluate.timing import compiled_apart
from engine.session import events
from engine.session.runner import run
from engine.session.script.compiled import Compiling
from tests.engine.counting import spec
from tests.engine.evaluate.compiled_apart.fakes import Records
from tests.engine.graphs import linear


def test_a_large_module_is_not_loaded_twice(played, monkeypatch):
    monkeypatch.setattr(compiled_apart, "LARGEST", 100)
    played.open().compile_ahead("compile")
    assert len(played.processes) == 1


def test_inputs_parameters_and_results_count_and_what_is_between_does_not():
    graph = linear([("relu", {})], rows=1 << 15, k=1 << 10, n=1 << 12)  # 134 MB, 17 MB, 537 MB, 537 MB
    assert compiled_apart.fits(graph)
    assert not compiled_apart.fits(linear([("relu", {})], rows=1 << 18, k=1 << 10, n=1 << 10))
    kinds = {t.kind: t.bytes for t in graph.tensors.values()}
    assert kinds["intermediate"] > 4e8


def test_a_stored_time_and_max_autotune_begin_nothing(played):
    device = played.open()
    measured = events.Measurement(0.5, 0.5, 0.5, [0.5], "events", {}, 0.6)
    device.workbench.compile_times.write(events.Baseline("compile", "f32", measured))
    device.compile_ahead("compile")
    device.compile_ahead("compile_max")
    assert len(played.processes) == 1
    device.compile_ahead("compile_tf32")
    assert len(played.processes) == 2


def test_a_device_that_predicts_is_not_asked():
    device = Evaluator(modelled.Modelled("h200"))
    assert not device.times_compiled

    class Predicts(Records):
        times_compiled = False

    device = Predicts()
    list(run(spec(compile=True), device=device, compiling=Compiling(("compile",))))
    assert device.steps == ["build"] * 4


def test_a_session_that_goes_on_begins_only_what_has_neither_a_time_nor_a_remark():
    device, ways = Records(), Compiling(("compile", "compile_tf32"))
    log = list(run(spec(compile=True), device=device, compiling=ways))
    texts = {name: text for e in log for name, text in e.blobs.items()}
    timed = [e.event for e in log[:-1]]
    (second,) = [e for e in timed if isinstance(e, events.Baseline) and e.name == "compile_tf32"]
    remark = events.Noted("not_timed", "compile_tf32 was not timed", baseline="compile_tf32")

    def begun(history):
        device.steps.clear()
        past = list(enumerate(history, 1))
        list(run(spec(compile=True), device=device, history=past, read_blob=texts.__getitem__, compiling=ways))
        return [step[1] for step in device.steps if step[0] == "ahead"]

    assert begun([e for e in timed if e is not second]) == ["compile_tf32"]
    assert begun(timed) == [] and begun([remark if e is second else e for e in timed]) == []
