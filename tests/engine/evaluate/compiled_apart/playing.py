"""A module whose torch.compile prints what it does and takes as long as a test wants, and what its processes did."""

import time

from engine.devices import Problem
from tests.engine.traced import once as trace

MODULE = """
import time, torch, torch.nn as nn

class Inductor:  # compiles nothing; it prints what is compiled and what runs
    def __init__(self, mode, *more): pass
    def __call__(self, graph, inputs, **more):
        print("compile", flush=True)
        time.sleep(SECONDS)
        return lambda *a: (print("run", flush=True), graph.forward(*a))[1]

torch._TorchCompileInductorWrapper = Inductor

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 96)
    def forward(self, x):
        return torch.relu(self.linear(x) * 2)
def get_inputs(): return [torch.randn(64, 128)]
"""
PATIENCE = 120.0  # seconds; the cores may be busy with other tests


class Played:
    """`device`: an evaluator; `processes`: the module's, in the order in which they were made."""

    def __init__(self, device, processes):
        self.device, self.processes = device, processes

    def open(self, seconds=0.0):
        """Open the module, which takes torch.compile so many seconds to compile."""
        graph = trace(MODULE.replace("SECONDS", "0"), local_user=True).graph
        self.device.open(Problem(MODULE.replace("SECONDS", str(seconds)), "module", graph, 3), lambda: False)
        return self.device

    def printed(self, number, word):
        """How often a process has printed a word."""
        return self.processes[number].log.split().count(word)

    def wait_until_it_compiles(self, number):
        until = time.monotonic() + PATIENCE
        while not self.printed(number, "compile"):
            assert time.monotonic() < until, "nothing was compiled"
            time.sleep(0.05)
