"""PyTorch's own modes of running the module, ready to be timed one call at a time, in the module's process.

The modes, by name: `eager` as PyTorch ships it; `compile` and `compile_max` (torch.compile in its default mode and with
max-autotune); each of them with a precision class as suffix (`eager_tf32`, `compile_max_f16`): TF32 allowed, or
torch.autocast with its casts timed. Two modes may be open at once, to be timed in alternation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.evaluate.correctness import inputs as data
from engine.evaluate.reference.baseline_cache import parts
from engine.evaluate.reference.compiling import Compiled
from engine.evaluate.reference.pytorch_classes import HALF, casting, permitted
from engine.evaluate.timing.samples import CallTimes, input_sets
from engine.trace import child
from engine.trace.load import Bad
from sol.graph import OpGraph

WORDS = {"eager": "as PyTorch ships it", "compile": "torch.compile", "compile_max": "torch.compile, max-autotune"}


def argument_sets(
    graph: OpGraph, arguments: Sequence[Any], own: Mapping[str, Any], seed: int, device: str
) -> list[list[Any]]:
    """Lists of arguments of forward to rotate through: fresh normal inputs, and other arguments unchanged. `arguments`:
    the module's own; `own`: its tensors by their names in the graph."""
    import torch

    sets = []
    for i in range(input_sets(data.input_bytes(graph))):
        fresh = data.fill_graph(graph, "normal", seed + i, device, only="input")
        named = iter(graph.inputs)
        row = []
        for value in arguments:
            if isinstance(value, torch.Tensor):
                name = next(named)
                value = fresh.get(name, own[name])
            row.append(value)
        sets.append(row)
    return sets


class Baseline:
    """One mode. `cls`: the precision class that it computes in; `note`: its description. Inputs rotate through `sets`;
    `timer`: see engine.evaluate.timing.samples. `restore(at)`: puts back what a call on set number `at` changes, before
    each call and outside of its time. `compiled`: the module, if it was compiled before (`compiled_ahead`)."""

    def __init__(
        self, name: str, model: Any, graph: OpGraph, sets: list[list[Any]], device: str, timer: Any,
        restore: Callable[[int], None] = lambda at: None, compiled: Compiled | None = None,
    ):  # fmt: skip
        try:
            self.way, self.wanted = parts(name)
        except ValueError as e:
            raise Bad("unknown_baseline", str(e)) from None
        self.sets, self.device, self.timer, self.turn = sets, device, timer, 0
        self.restore, self.calls = restore, CallTimes()
        self.model = model if self.way == "eager" else (compiled or Compiled(model, self.way)).model
        self.cls = self._class(graph)
        also = {"tf32": "TF32 allowed", "f16": "its casts timed", "bf16": "its casts timed"}.get(self.wanted or "", "")
        words = "torch.autocast" if self.way == "eager" and self.wanted in HALF else WORDS[self.way]
        self.note = also if words == WORDS["eager"] and also else ", ".join(filter(None, (words, also)))
        with permitted(self.wanted):  # a compiler reads the settings here
            for _ in range(3):
                self._restore()
                child.stage("forward", self._call)

    def _class(self, graph: OpGraph) -> str:
        import torch

        if self.wanted in HALF:
            return self.wanted
        first = graph.tensors[graph.inputs[0]].dtype if graph.inputs else "f32"
        if first != "f32":
            return first
        with permitted(self.wanted):
            return "tf32" if torch.get_float32_matmul_precision() != "highest" else "f32"

    def _call(self) -> Any:
        import torch

        arguments = self.sets[self.turn % len(self.sets)]
        with torch.no_grad(), casting(self.wanted, self.device):
            return self.model(*arguments)

    def call(self, at: int) -> Any:
        """One call on the set number `at`."""
        self.turn = at
        return self._call()

    def sample(self) -> dict[str, float]:
        """{ms, call_ms} of one call, under the mode's own settings."""
        self.turn += 1
        with permitted(self.wanted):
            ms = child.stage("forward", lambda: self.timer.sample(self._call, self._restore))
            return {"ms": ms, "call_ms": self.calls.beside(ms, lambda: self.timer.call_time(self._call, self._restore))}

    def _restore(self) -> None:
        self.restore(self.turn % len(self.sets))


def compiled_ahead(name: str, model: Any, arguments: Sequence[Any], device: str) -> Compiled | None:
    """The module, compiled for a baseline of torch.compile and not run; None for one that can only be compiled when it
    runs."""
    way, wanted = parts(name)
    if way == "eager":
        return None
    import torch

    compiled = Compiled(model, way)
    if not compiled.ahead:
        return None
    with permitted(wanted), torch.no_grad(), casting(wanted, device):
        child.stage("forward", lambda: compiled.compile(lambda: compiled.model(*arguments)))
    return compiled
