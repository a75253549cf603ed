"""A raw kernel of a rehearsal: the CuTe DSL code that a program of the planner becomes, as a class ModelNew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from engine.devices import Binding, SessionRefused, TrialError
from engine.llm.rehearse.mistakes import LIBRARY
from engine.llm.rehearse.pool import prepared
from engine.strategies.problem import Prepared
from sol.graph import OpGraph

BROKEN = "\ndef broken(:\n"
RESULT = ("results = tuple(y.reshape", "results = tuple((1.05 * y).reshape")  # right, and 5% off
NOTHING = "# There is no kernel to rehearse: {}.\n"
WRAPPER = """

# ---- the module: its own class, with another forward ----


class ModelNew(Model):
    READS = {reads}
    SHAPES = {shapes}

    def forward(self, *inputs):
        tensors = []
        for (kind, place), shape in zip(self.READS, self.SHAPES):
            tensor = inputs[place] if kind == "input" else operator.attrgetter(place)(self)
            tensors.append(tensor.detach().contiguous().reshape(shape))
        if not hasattr(self, "_run"):
            self._run = load()
        outputs = [torch.empty(shape, dtype=dtype, device=tensors[0].device) for _, dtype, shape in OUTPUTS]
        self._run(tensors, outputs)
        results = tuple(y.reshape(shape) for y, shape in zip(outputs, {results}))
        return results[0] if len(results) == 1 else results
"""


def raw_kernel(source: str, kind: str, classes: tuple[str, ...], mistake: str, title: str = "") -> dict[str, Any]:
    """The reply of the form Kernel for a module."""
    if mistake == "cheat":
        return _reply(LIBRARY, classes[0], "a call of the library")
    text, cls = _text(source, kind, classes, title)
    text = spoiled(text, mistake)
    return _reply(text, cls, "the planner's first program, as its CuTe DSL code")


def spoiled(text: str, mistake: str) -> str:
    """A kernel with a mistake: syntax (does not parse), result (5% off)."""
    if mistake == "syntax":
        return text + BROKEN
    return text.replace(*RESULT, 1) if mistake == "result" else text


def mended(text: str) -> str:
    """The kernel without the mistakes of `spoiled`."""
    return text.removesuffix(BROKEN).removesuffix(BROKEN.rstrip()).replace(*RESULT[::-1])


def kernel_of(program: str, cls: str, source: str, kind: str, classes: tuple[str, ...], title: str = "") -> str:
    """The kernel that a program of the planner for the whole module becomes; "" where it becomes none."""
    if kind != "module":
        return ""
    try:
        problem = prepared(source, kind, classes, title)
        inputs, outputs = problem.bind(program)
    except (SessionRefused, TrialError):
        return ""
    if problem.region(program) or problem.algebraic(program, cls) is not None:
        return ""
    return _wrapped(source, program, inputs, outputs, problem)


def _reply(text: str, cls: str, change: str) -> dict[str, Any]:
    return {"source": text, "language": "python", "cls": cls, "change": change, "why": "rehearsed"}


@lru_cache(maxsize=16)
def _text(source: str, kind: str, classes: tuple[str, ...], title: str) -> tuple[str, str]:
    """The kernel and its class; a comment that says why where there is none."""
    if kind != "module":
        return NOTHING.format("a program of the language needs none"), classes[0]
    try:
        problem = prepared(source, kind, classes, title)
    except SessionRefused as e:
        return NOTHING.format(" ".join(e.reason.split()).rstrip(".")), classes[0]
    for part in problem.parts:
        if part.region is None and part.algebraic is None:
            text = _wrapped(source, to_text(part.base), *part.bindings, problem)
            if text:
                return text, part.cls
    return NOTHING.format("the planner does not lower this module whole to CuTe DSL"), classes[0]


def _wrapped(
    source: str, program: str, inputs: Sequence[Binding], outputs: Sequence[Binding], problem: Prepared
) -> str:
    """The module's class over the CuTe DSL code of a program; "" where a program becomes no such code."""
    graph, compiled = problem.graph, generate(check(program).program, problem.hardware.sms)
    if "cute" not in compiled.sources or any(b.transposed for b in inputs):
        return ""
    wrapper = WRAPPER.format(
        reads=[_read(b, graph) for b in inputs], shapes=[tuple(b.shape) for b in inputs],
        results=[tuple(graph.tensors[b.tensor].shape) for b in outputs],
    )  # fmt: skip
    return f"{source}\n\nimport operator\n\n{compiled.sources['cute'].text}{wrapper}"


def _read(binding: Binding, graph: OpGraph) -> tuple[str, Any]:
    """Where the module has the tensor: (input, its position) or (state, its attribute path)."""
    if binding.tensor in graph.inputs:
        return "input", graph.inputs.index(binding.tensor)
    return "state", graph.tensors[binding.tensor].path
