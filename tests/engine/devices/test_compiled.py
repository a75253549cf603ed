"""torch.compile's times are taken once a module, GPU and driver, read back in later sessions, and asked for by name."""

import time
from dataclasses import replace

import pytest

from engine.bench.run.fold import row_of
from engine.build.cache import Cache
from engine.devices import Problem, TrialError
from engine.evaluate.reference import compile_times as compiled
from engine.evaluate.reference.baseline_cache import NAMES, parts
from engine.session import events
from engine.session.runner import run
from engine.session.script.compiled import Compiling
from engine.session.spec import BadSpec
from tests.engine.counting import CountingDevice, spec
from tests.engine.graphs import linear

PROBLEM = Problem("class Model: ...", "module", linear([("relu", {})], rows=1024, k=4096, n=4096))
TIMED = events.Baseline(
    "compile_tf32", "tf32", events.Measurement(0.5, 0.49, 0.51, [0.5], "events", {"name": "H200"}, 0.6), "torch.compile"
)


def cache_of(cache, *, problem=PROBLEM, gpu="H200", driver="580"):
    return compiled.Kept(cache, problem, gpu, driver)


def test_what_was_timed_is_read_back_with_its_day(tmp_path):
    cache = Cache(tmp_path)
    assert cache_of(cache).read("compile_tf32") is None
    cache_of(cache).write(TIMED, 1_796_000_000.0)
    baseline = cache_of(cache).read("compile_tf32")
    assert (baseline.cls, baseline.time) == ("tf32", TIMED.time)
    assert baseline.note == "torch.compile, timed on 2026-11-30 in another run"
    assert list(cache_of(cache).known(["compile", "compile_tf32"])) == [baseline]


@pytest.mark.parametrize(
    "other",
    [
        {"gpu": "H100"}, {"driver": "581"}, {"problem": Problem("class Other: ...", "module", PROBLEM.graph)},
        {"problem": Problem(PROBLEM.source, "module", linear([("relu", {})], rows=512, k=4096, n=4096))},
    ],
    ids=["gpu", "driver", "module", "shapes"],
)  # fmt: skip
def test_another_module_shape_gpu_or_driver_has_its_own(tmp_path, other):
    cache = Cache(tmp_path)
    cache_of(cache).write(TIMED, 0.0)
    assert cache_of(cache, **other).read("compile_tf32") is None


def test_its_classes_are_those_of_the_session():
    assert compiled.names(["tf32", "f16"], "f32") == [
        "compile_tf32",
        "compile_max_tf32",
        "compile_f16",
        "compile_max_f16",
    ]
    assert compiled.names(["f16"], "f16") == ["compile", "compile_max"]


def test_a_name_is_a_way_and_a_class():
    assert parts("compile_max") == ("compile_max", None) and parts("compile_max_bf16") == ("compile_max", "bf16")
    assert parts("eager") == ("eager", None) and parts("eager_tf32") == ("eager", "tf32")
    assert all(parts(name) for name in NAMES) and len(NAMES) == 12
    with pytest.raises(ValueError, match="there is no baseline 'compile_f64'; there are eager, eager_tf32"):
        parts("compile_f64")


class Compiles(CountingDevice):
    """`fails`: the baseline that cannot be compiled in the given seconds."""

    times_compiled = True

    def __init__(self, fails=""):
        super().__init__()
        self.fails, self.steps = fails, []

    def compile_names(self, classes, ways=()):
        return list(ways) or [f"compile_{cls}" for cls in classes]

    def compile(self, name, seconds=None):
        self.steps.append(("compile", name, seconds))
        if name == self.fails:
            raise TrialError("measure", "reference_time_limit", "it did not end in time")

    def compiled(self, name, classes):
        self.steps.append(("time", name, *classes))
        return replace(TIMED, name=name)


def test_a_session_times_them_when_its_search_is_over_and_only_when_asked():
    for asked in (False, True):
        device = Compiles()
        log = [e.event for e in run(spec(compile=asked), device=device)]
        places = [i for i, e in enumerate(log) if isinstance(e, events.Baseline) and e.name == "compile_f16"]
        assert device.steps == [("compile", "compile_f16", None), ("time", "compile_f16", "f16")] * asked
        last = max(i for i, e in enumerate(log) if isinstance(e, events.TrialJudged))
        assert len(places) == asked and all(i > last for i in places) and log[-1].state == "done"


def test_one_that_cannot_be_compiled_in_its_time_is_named_and_the_others_are_timed():
    device, ways = Compiles(fails="compile"), ("compile", "compile_tf32")
    log = list(run(spec(compile=True), device=device, compiling=Compiling(ways, 90.0)))
    (remark,) = [e.event for e in log if isinstance(e.event, events.Noted) and e.event.baseline]
    assert (remark.code, remark.baseline) == ("not_timed", "compile")
    assert remark.text == "compile was not timed: it did not end in time"
    assert device.steps == [("compile", "compile", 90.0), ("compile", "compile_tf32", 90.0),
                            ("time", "compile_tf32", "f16")]  # fmt: skip
    end = log[-1].event
    assert end.state == "done" and "not timed" not in end.reason
    row = row_of("L1/1", log, {name: text for e in log for name, text in e.blobs.items()})
    assert list(row["not_timed"]) == ["compile"] and "compile" in row["baselines"]


def test_a_session_that_goes_on_takes_no_time_twice():
    device, ways = Compiles(fails="compile"), ("compile", "compile_tf32")
    log = list(run(spec(compile=True), device=device, compiling=Compiling(ways)))
    texts = {name: text for e in log for name, text in e.blobs.items()}
    cut = [(i, e.event) for i, e in enumerate(log[:-1], 1)]
    device.steps.clear()
    list(run(spec(compile=True), device=device, history=cut, read_blob=texts.__getitem__, compiling=Compiling(ways)))
    assert device.steps == []


def test_one_that_is_stopped_while_it_compiles_ends_as_stopped():
    commands = []

    class Stops(Compiles):
        def compile(self, name, seconds=None):
            commands.append(("stop", {}))
            time.sleep(0.2)  # until the session hears it
            raise TrialError("measure", "reference_cancelled", "stopped")

    control = lambda: [commands.pop()] if commands else []  # noqa: E731
    log = list(run(spec(compile=True), device=Stops(), control=control))
    assert log[-1].event.state == "stopped" and not any(getattr(e.event, "baseline", "") == "compile_f16" for e in log)


def test_whether_to_compile_is_yes_or_no():
    with pytest.raises(BadSpec, match="compile: true or false"):
        spec(compile="yes")
