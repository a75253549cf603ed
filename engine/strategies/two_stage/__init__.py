"""Two stages after arXiv 2601.12698: refactor a kernel into a template that means the same, then search its parameters.

The study has roles that plan, generate, tune and test, in a loop. Stage one: `plan` says what shall become a parameter,
`generate` writes the template with ranges and inequalities, its default instance is a trial that is verified against
the module, and `test` names a wrong template's mistake, with which it goes back to `generate`. Stage two: the
parameters are searched inside the limits of the hardware, with starts from `tune`, and what the search found goes back
to `plan`, which may ask for another template.

The study's, as published: on three CUDA kernels of SGLang (SiLU-and-mul, fused-add RMSNorm, merge of two attention
states) 3.55, 1.09 and 2.03 times SGLang's own kernels, where the system Astra had 2.89, 1.06 and 1.95; the kernels took
199.15, 163.76 and 45.83 us before. Hardware and baselines differ from ours, so no figure here is comparable with these.

Ours: the prompts; the forms of the replies; the language of inequalities and its reader; the search (coordinate descent
with random restarts, as the study's tuner is unpublished); the repeats, main effects and their words; that `test` also
names corner cases from which the search starts; and templates that are programs of the language.
"""

from __future__ import annotations

from engine.strategies.api import Script
from engine.strategies.two_stage.options import TwoStageOptions
from engine.strategies.writing import Led, Writer


class TwoStage(Led):
    """See engine.strategies.api.Strategy."""

    name = "two_stage"
    title = "Two stages"
    about = (
        "A model turns the kernel into a template that means the same; then a search tunes the template's parameters."
    )
    Options = TwoStageOptions

    def write(self, writer: Writer) -> Script:
        from engine.strategies.two_stage.stages import Stages

        return (yield from Stages(writer, self.options).run())


STRATEGY = TwoStage
