"""CuTeGen (arXiv 2604.01489): one evolving CuTe kernel, generated, tested and refined.

The study's: one kernel instead of a search over many; structured debugging, with up to 5 fixes of a candidate and then
up to 3 regenerations; one optimisation a step, chosen by the workload's class; each depth starts from the last kernel
that passed, even if an earlier one was faster; 10 depths; and the late profile, which the model sees from depth 6 on
for products and convolutions, 5 for reductions and norms, 3 for losses and 2 for activations.

Ours: the rule that finds the class in the op graph, the class `other` and its depth, the items of each menu and their
order, every prompt, the role that writes down what a profile shows, and that a depth whose attempts all fail is left
out instead of ending the session. The study's kernels are CUDA C++ over CuTe. With the default `form` ours are Python
with CuTe DSL on a GPU, and programs of the language on a modelled device, which can predict their times.
"""

from __future__ import annotations

from engine.strategies.api import Script
from engine.strategies.cutegen.options import CutegenOptions
from engine.strategies.writing import Led, Writer


class Cutegen(Led):
    """See engine.strategies.api.Strategy."""

    name = "cutegen"
    title = "CuTeGen"
    about = "A model evolves one CuTe kernel: one optimisation a step, structured debugging, and the profile only late."
    Options = CutegenOptions

    def write(self, writer: Writer) -> Script:
        from engine.strategies.cutegen.evolution import Evolution

        return (yield from Evolution(writer, self.options).run())


STRATEGY = Cutegen
