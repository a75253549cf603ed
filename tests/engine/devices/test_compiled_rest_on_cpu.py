"""A session's last trial: its best composition, what stays PyTorch compiled by the real Inductor (for a CPU)."""

import json
import re

import pytest

pytest.importorskip("torch")

from engine.evaluate.candidate import gpu_session
from engine.evaluate.evaluator import Evaluator
from engine.export import forms, history
from engine.session import events
from engine.session.fold.reduce import fold
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.devices.on_cpu import compile_meanings, cuda_on_cpu
from tests.engine.devices.test_measured_sessions_on_cpu import MODULE, of

FLIPPED = MODULE.replace("self.linear(x) * 2", "torch.logcumsumexp(torch.roll(self.linear(x), 1, 0), 0)")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the log of a session that compiles, its texts)"""
    with pytest.MonkeyPatch.context() as patch:
        compile_meanings(patch, "engine.session.trial")
        patch.setattr(gpu_session, "REST_SECONDS", 600.0)  # the cores may be busy with other tests
        device = Evaluator(cuda_on_cpu(tmp_path_factory.mktemp("device"), patch))
        device.compiles_rest = True
        try:
            spec = SessionSpec(source=FLIPPED, classes=("tf32",), trials=2, eps=0.0)
            emitted = list(run(spec, device=device, local_user=True, teaches=False, memory=""))
        finally:
            device.close()
            device.machine.shutdown()
    return emitted


@pytest.fixture
def log(played):
    return [e.event for e in played]


def last(log, kind):
    return next(e for e in reversed(log) if isinstance(e, kind))


def test_the_last_trial_is_the_best_one_with_a_compiled_rest(log):
    strategys, engines = of(log, events.TrialProposed)[:-1], of(log, events.TrialProposed)[-1]
    assert [e.by for e in strategys] == ["strategy"] * 2 and engines.by == "engine" and engines.rest == "inductor"
    judged = {e.trial: e.ms for e in of(log, events.TrialJudged) if e.trial != engines.trial}
    assert engines.parent == min(judged, key=judged.get)
    assert log[-1].state == "done" and log[-1].trials == 3


def test_it_passes_every_check_and_says_what_was_compiled(log):
    assert not of(log, events.TrialFailed), last(log, events.TrialFailed).reason
    note = last(log, events.TrialCompiled).note
    assert re.match(r"Inductor compiled [23] operations of PyTorch in 1 call in", note), note
    measured = last(log, events.TrialMeasured)
    assert measured.part["rest"] == "inductor"
    assert {c["name"]: c["verdict"] for c in measured.checks}["without kernels"] == "passed"
    assert last(log, events.TrialJudged).verdict == "clean"
    assert "what stays PyTorch compiled by Inductor" in last(log, events.TrialJudged).text


def test_the_budget_does_not_count_it(log):
    rows = [{"seq": i, "kind": e.KIND, "t": 0.0, "data": events.encode(e)} for i, e in enumerate(log, 1)]
    assert fold(rows).used == 2


def test_its_export_compiles_the_rest_too(played):
    rows, blobs = [(e.event.KIND, events.encode(e.event)) for e in played], {}
    for e in played:
        blobs |= e.blobs
    number = last([e.event for e in played], events.TrialProposed).trial
    whole = history.of_session(rows, blobs.get, number, drawn=False)
    files = forms.files(whole)
    described = next(text for name, text in files.items() if name.endswith("composition.json"))
    fused = [step for step in json.loads(described)["steps"] if "fused" in step]
    (run,) = [[op["op"] for op in step["fused"]] for step in fused]
    assert {"roll", "logcumsumexp"} <= set(run)
