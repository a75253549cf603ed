"""A second process that is no process, and a device that only writes down what it is asked."""

from types import SimpleNamespace

from engine.evaluate.reference.module_process import Sample
from engine.evaluate.timing.compiled_apart import CompiledApart
from engine.session import events
from tests.engine.counting import CountingDevice


class Process:
    """`fails`: the error of each request, by its name."""

    def __init__(self, **fails):
        self.fails, self.requests, self.cancelled = fails, [], None

    def _ask(self, request):
        self.requests.append(request)
        if request in self.fails:
            raise self.fails[request]

    def start(self):
        self._ask("start")

    def compile(self, name, seconds):
        self._ask("compile")

    def baseline_open(self, name, seed, beside):
        self._ask("open")
        return "f32", "torch.compile"

    def baseline_sample(self, beside=False):
        return Sample(1.0, 1.0)

    def close(self):
        self.requests.append("close")


def apart_with(process, cancelled=lambda: False):
    """A CompiledApart with this process."""

    def reference(cancelled):
        process.cancelled = cancelled
        return process

    return CompiledApart(SimpleNamespace(), reference, cancelled, 7, lambda: {"name": "H200"})


class Records(CountingDevice):
    """Writes down what it is asked of torch.compile and of trials."""

    times_compiled = True

    def __init__(self):
        super().__init__()
        self.steps = []

    def compile_names(self, classes, ways=()):
        return list(ways)

    def compile_ahead(self, name, seconds=None, paused=lambda: False):
        self.steps.append(("ahead", name, seconds))

    def build(self, candidate):
        self.steps.append("build")
        return super().build(candidate)

    def compile(self, name, seconds=None):
        self.steps.append(("compile", name, seconds))

    def compiled(self, name, classes):
        self.steps.append(("time", name))
        return events.Baseline(name, "f16", events.Measurement(0.5, 0.5, 0.5, [0.5], "events", {}, 0.6))

    def end_compiling(self):
        self.steps.append("end")
