"""One of PyTorch's own ways to run the module, ready to be timed a call at a time, in the process that holds it.

The ways, by name: `eager` as PyTorch ships it; `compile` and `compile_max` (torch.compile in its default mode and with
max-autotune); each of them with a precision class behind it (`eager_tf32`, `compile_max_f16`): TF32 allowed, or
torch.autocast with its casts timed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from engine.evaluate.correctness import inputs as data
from engine.evaluate.reference.baseline_cache import parts
from engine.evaluate.reference.pytorch_classes import HALF, casting, permitted
from engine.trace import child
from engine.trace.load import Bad

if TYPE_CHECKING:
    from engine.evaluate.reference.module_main import Held

BUFFERS = 4
MODES = {"compile": "default", "compile_max": "max-autotune"}  # torch.compile's
WORDS = {"eager": "as PyTorch ships it", "compile": "torch.compile", "compile_max": "torch.compile, max-autotune"}


class Baseline:
    """`cls`: the precision class that it computes in; `note`: what it is, in words. Inputs rotate through several
    buffers."""

    def __init__(self, held: Held, name: str, seed: int):
        import torch

        from engine.evaluate.timing.samples import Timer

        try:
            self.way, self.wanted = parts(name)
        except ValueError as e:
            raise Bad("unknown_baseline", str(e)) from None
        self.held, self.torch, self.turn = held, torch, 0
        for t in held.graph.tensors.values():
            if t.kind == "parameter" and t.name in held.own:
                held._state(held.model, t.path).data = held.own[t.name]
        self.sets = [self._arguments(seed + i) for i in range(BUFFERS)]
        self.settings = contextlib.ExitStack()  # until it is closed, also where a compiler reads them
        self.settings.enter_context(permitted(self.wanted))
        self.model = held.model if self.way == "eager" else _compiled(held.model, MODES[self.way])
        self.cls = self._class()
        also = {"tf32": "TF32 allowed", "f16": "its casts timed", "bf16": "its casts timed"}.get(self.wanted or "", "")
        said = "torch.autocast" if self.way == "eager" and self.wanted in HALF else WORDS[self.way]
        self.note = also if said == WORDS["eager"] and also else ", ".join(filter(None, (said, also)))
        self.timer = Timer()
        for _ in range(3):
            child.stage("forward", self._call)
        torch.cuda.synchronize()

    def _arguments(self, seed: int) -> list:
        fresh = data.fill_graph(self.held.graph, "normal", seed, "cuda", only="input")
        named = iter(self.held.graph.inputs)
        row = []
        for v in self.held.inputs:
            if isinstance(v, self.torch.Tensor):
                n = next(named)
                v = fresh.get(n, self.held.own[n])
            row.append(v)
        return row

    def _class(self) -> str:
        if self.wanted in HALF:
            return self.wanted
        graph = self.held.graph
        first = graph.tensors[graph.inputs[0]].dtype if graph.inputs else "f32"
        if first != "f32":
            return first
        return "tf32" if self.torch.get_float32_matmul_precision() != "highest" else "f32"

    def _call(self) -> Any:
        arguments = self.sets[self.turn % len(self.sets)]
        with self.torch.no_grad(), casting(self.wanted, "cuda"):
            return self.model(*arguments)

    def sample(self) -> dict:
        self.turn += 1
        ms = child.stage("forward", lambda: self.timer.sample(self._call))
        return {"ms": ms, "call_ms": self.timer.call_time(self._call)}

    def close(self) -> None:
        self.settings.close()
        self.sets.clear()
        del self.timer
        self.torch.cuda.empty_cache()


def _compiled(model: Any, mode: str) -> Any:
    """torch.compile in this process: its own pool of compilers would be processes without end to the sandbox."""
    import os

    import torch

    child.allow_compilers()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    torch._dynamo.reset()
    return torch.compile(model, mode=mode, fullgraph=False, dynamic=False)
