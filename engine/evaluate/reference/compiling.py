"""torch.compile of the pasted module, in its process: compiled first, and run only later, with the GPU's lane.

torch.compile compiles in the first call. Its back end is wrapped here, so that a call can end between the compilation
and the first kernel of the module. What a graph break leaves, and all of max-autotune, which tries kernels on the GPU,
is compiled in the first call that runs. In the default mode Inductor still times a product whose sizes it may pad.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from engine.trace import child

MODES = {"compile": "default", "compile_max": "max-autotune"}  # torch.compile's


class _Ready(BaseException):
    """The module is compiled, and its first kernel would run now. No `except Exception` of a module stops it."""


class Compiled:
    """The module in one way of MODES. `model`: what to call; `ahead`: whether it can be compiled before it runs."""

    def __init__(self, module: Any, way: str):
        import torch

        child.allow_compilers()
        # In this process, because Inductor's own pool of compilers would exceed the sandbox's limit of processes.
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        torch._dynamo.reset()
        self._waits, mode = False, MODES[way]
        inductor = getattr(torch, "_TorchCompileInductorWrapper", None)
        self.ahead = way == "compile" and inductor is not None
        how = {"backend": self._waiting(inductor(mode, None, False))} if self.ahead else {"mode": mode}
        self.model = torch.compile(module, fullgraph=False, dynamic=False, **how)

    def _waiting(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        def inductor(graph: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
            compiled = compile_(graph, inputs, **options)

            def run(*arguments: Any) -> Any:
                if self._waits:
                    raise _Ready
                return compiled(*arguments)

            return run

        return inductor

    def compile(self, call: Callable[[], Any]) -> None:
        """Compile for what `call` does with the model, and end before its first kernel runs."""
        self._waits = self.ahead
        try:
            call()
        except _Ready:
            pass
        finally:
            self._waits = False
