"""While a device gets ready for a problem, the strategy plans, and the first candidate's build begins."""

import threading

from engine.devices import SessionRefused
from engine.session import events
from engine.session import runner as sessions
from tests.engine.counting import CountingDevice, spec


class Slow(CountingDevice):
    """Builds ahead, and is ready only once the first build was asked for."""

    kind, builds_ahead = "measured", True

    def __init__(self):
        super().__init__()
        self.begun, self.hinted, self.in_time = [], [], threading.Event()

    def build_ahead(self, source):
        self.begun.append(source)
        self.in_time.set()

    def prefetch(self, candidates):
        self.hinted += candidates

    def open(self, problem, cancelled):
        assert self.in_time.wait(30), "no build began while the device got ready"
        super().open(problem, cancelled)


def test_the_first_candidate_s_build_begins_before_the_device_is_ready():
    device = Slow()
    log = [e.event for e in sessions.run(spec(trials=2), device=device)]
    first = next(e for e in log if isinstance(e, events.TrialGenerated))
    begun = [events.blob_name(source.text) for source in device.begun]
    assert log[-1].state == "done" and begun in [[of["text"]] for of in first.sources.values()]
    assert device.hinted, "what may come later is hinted at once the device is ready"


def test_a_device_that_builds_nothing_ahead_is_asked_for_no_build():
    class Quick(CountingDevice):
        def build_ahead(self, source):
            raise AssertionError

    assert [e.event for e in sessions.run(spec(trials=2), device=Quick())][-1].state == "done"


def test_a_device_that_cannot_be_opened_ends_the_session_by_its_reason():
    class Broken(Slow):
        def open(self, problem, cancelled):
            raise SessionRefused("gpu_lost", "The GPU cannot be used.")

    ended = [e.event for e in sessions.run(spec(trials=2), device=Broken())][-1]
    assert (ended.state, ended.code, ended.reason) == ("refused", "gpu_lost", "The GPU cannot be used.")
