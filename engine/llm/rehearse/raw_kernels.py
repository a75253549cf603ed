"""A raw kernel of a rehearsal: the CuTe DSL code that a program of the planner becomes, as a class ModelNew."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from engine.devices import Binding, SessionRefused
from engine.llm.rehearse.mistakes import LIBRARY
from engine.llm.rehearse.pool import prepared
from sol.graph import OpGraph

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
    if mistake == "syntax":
        text += "\ndef broken(:\n"
    elif mistake == "result":
        text = text.replace("results = tuple(y.reshape", "results = tuple((1.05 * y).reshape", 1)
    return _reply(text, cls, "the planner's first program, as its CuTe DSL code")


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
    graph = problem.graph
    for part in problem.parts:
        whole = part.region is None and part.algebraic is None
        compiled = generate(check(to_text(part.base)).program, problem.hardware.sms) if whole else None
        if compiled is None or "cute" not in compiled.sources or any(b.transposed for b in part.bindings[0]):
            continue
        wrapper = WRAPPER.format(
            reads=[_read(b, graph) for b in part.bindings[0]], shapes=[tuple(b.shape) for b in part.bindings[0]],
            results=[tuple(graph.tensors[b.tensor].shape) for b in part.bindings[1]],
        )  # fmt: skip
        return f"{source}\n\nimport operator\n\n{compiled.sources['cute'].text}{wrapper}", part.cls
    return NOTHING.format("the planner does not lower this module whole to CuTe DSL"), classes[0]


def _read(binding: Binding, graph: OpGraph) -> tuple[str, Any]:
    """Where the module has the tensor: (input, its position) or (state, its attribute path)."""
    if binding.tensor in graph.inputs:
        return "input", graph.inputs.index(binding.tensor)
    return "state", graph.tensors[binding.tensor].path
