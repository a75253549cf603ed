"""A raw kernel of a rehearsal: the CuTe DSL code of the first program of the planner that becomes some, as a class
ModelNew.

For a module that the planner does not lower whole it is the row kernel in CUDA (row_kernels.py), if the module works
row by row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from engine.devices import Binding, SessionRefused, TrialError
from engine.llm.rehearse.mistakes import LIBRARY
from engine.llm.rehearse.pool import pool, prepared
from engine.llm.rehearse.row_graph import NotRows, rows_of
from engine.llm.rehearse.row_kernels import row_kernel
from engine.strategies.problem import Prepared
from engine.strategies.two_stage.space import instance
from sol.graph import OpGraph

BROKEN = "\ndef broken(:\n"
RESULT = ("results = tuple(y.reshape", "results = tuple((1.05 * y).reshape")  # right, and 5% off
STORED, OFF = re.compile(r"narrow\(([vr]_)"), "narrow(1.05f * "  # the same in a row kernel
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


@dataclass(frozen=True)
class _Kernel:
    """A text in `language` (python or cuda) that declares class `cls`."""

    text: str
    cls: str
    language: str = "python"
    change: str = "the planner's first program, as its CuTe DSL code"


def raw_kernel(source: str, kind: str, classes: tuple[str, ...], mistake: str, title: str = "") -> dict[str, Any]:
    """The reply of the form Kernel for a module."""
    if mistake == "cheat":
        return _reply(_Kernel(LIBRARY, classes[0], change="a call of the library"), "")
    return _reply(_kernel(source, kind, classes, title), mistake)


def spoiled(text: str, mistake: str) -> str:
    """A kernel with a mistake: syntax (does not parse), result (5% off)."""
    if mistake == "syntax":
        return text + BROKEN
    return STORED.sub(OFF + r"\1", text.replace(*RESULT, 1)) if mistake == "result" else text


def mended(text: str) -> str:
    """The kernel without the mistakes of `spoiled`."""
    text = text.removesuffix(BROKEN).removesuffix(BROKEN.rstrip())
    return text.replace(*RESULT[::-1]).replace(OFF, "narrow(")


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


def _reply(kernel: _Kernel, mistake: str) -> dict[str, Any]:
    return {
        "source": spoiled(kernel.text, mistake), "language": kernel.language, "cls": kernel.cls,
        "change": kernel.change, "why": "rehearsed",
    }  # fmt: skip


@lru_cache(maxsize=16)
def _kernel(source: str, kind: str, classes: tuple[str, ...], title: str) -> _Kernel:
    """The kernel; a comment that says why where there is none."""
    if kind != "module":
        return _Kernel(NOTHING.format("a program of the language needs none"), classes[0])
    try:
        problem = prepared(source, kind, classes, title)
    except SessionRefused as e:
        return _Kernel(NOTHING.format(" ".join(e.reason.split()).rstrip(".")), classes[0])
    for part in problem.parts:
        if part.region is None and part.algebraic is None:
            text = _wrapped(source, to_text(part.base), *part.bindings, problem)
            if text:
                return _Kernel(text, part.cls)
    for drawn in pool(source, kind, classes, title):
        if text := kernel_of(drawn.text, drawn.cls, source, kind, classes, title):
            return _Kernel(text, drawn.cls)
    try:
        rows = rows_of(problem.graph)
    except NotRows as e:
        why = f"the planner does not lower this module whole to CuTe DSL, and it is no row kernel: {e}"
        return _Kernel(NOTHING.format(" ".join(why.split()).rstrip(".")), classes[0])
    reply = row_kernel(rows, classes)
    text = instance(reply["text"], {p["name"]: p["default"] for p in reply["parameters"]})
    return _Kernel(text, reply["cls"], reply["language"], reply["change"])


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
