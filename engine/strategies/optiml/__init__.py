"""OptiML (arXiv 2602.12305): a first candidate from a mixture of strategies, then a tree search over a model's edits.

The study's: two stages that are independent. OptiML-G (a mixture of thoughts) proposes implementation strategies for
words and writes a first kernel. OptiML-X refines that kernel, or a given one, by Monte Carlo tree search over a model's
edits. Each edit is compiled, verified and profiled. The reward joins run time with hardware bottleneck proxies and
guards against regressions.

Ours, because the study's are not known to us: the constants (PUCT with C = 1.0, depth 8, widening 2 + 3 sqrt(n) and its
fit to the evaluations, without which a dozen of them all go to edits of the first candidate), the weights and bounds of
the reward, the tolerance of the guardrail, how the mixture is drawn, and every prompt.

Memory traffic, occupancy and executed instructions are Nsight Compute's where it measured both candidates that are
compared; else traffic comes from the model of the GPU and occupancy from the compiler's resources. Arithmetic is always
the model's. The words of a session are its module, which the tab Words makes of a description. Candidates may be
programs of the language.
"""

from __future__ import annotations

from engine.strategies.api import Script
from engine.strategies.optiml.options import OptimlOptions
from engine.strategies.writing import Led, Writer


class OptiML(Led):
    """See engine.strategies.api.Strategy."""

    name = "optiml"
    title = "OptiML"
    about = "A model proposes strategies and writes a first candidate; a tree search then tries edits of it."
    Options = OptimlOptions

    def write(self, writer: Writer) -> Script:
        from engine.strategies.optiml.search import Search

        return (yield from Search(writer, self.options).run())


STRATEGY = OptiML
