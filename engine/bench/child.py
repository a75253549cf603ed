"""The process that owns the GPU for a bench: the suite's child, which also traces a module and times PyTorch.

    python -m engine.bench.child --device cuda|cpu      JSON lines over pipes

The modules are this repository's own, so they need no sandbox. With `--device cpu` they are small, and a program's
meaning runs in the place of its machine code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from engine import jsonprocess
from engine.evaluate.timing import interval, paired_ratio
from engine.suite.child import PAIRS, SLOW_MS, SLOW_PAIRS, WARM_UP, Child
from engine.suite.problem import Instance
from engine.trace import capture
from engine.trace import child as tracing

COMPILED = {"compile": "default", "compile_max": "max-autotune-no-cudagraphs"}
TIMED = ("eager", "eager_tf32", "eager_f16", *COMPILED)


class BenchChild(Child):
    """Every public method is a request by its name."""

    def trace(self, request: dict) -> dict:
        """{graph: the module's op graph as JSON}; with `small` of a little instance."""
        path = Path(request["module"])
        if not request.get("small"):
            return {"graph": json.dumps(tracing._trace(path.read_text(encoding="utf-8"), fake=True)["graph"])}
        problem = Instance.make(path, request.get("seed", 0), "cpu", small=True)
        with torch.no_grad():
            return {"graph": json.dumps(capture.Capture(capture.export(problem.model, tuple(problem.inputs))).graph())}

    def _inputs(self, request: dict, program: Any) -> list[torch.Tensor]:
        """Each parameter is a tensor of the graph: an input by its place, or state by its path."""
        state = self.problem.model.state_dict()
        found = []
        for p in program.params:
            place = request["places"][p.name]
            x = self.problem.inputs[place] if isinstance(place, int) else state[place].detach()
            found.append(x.reshape(p.type.shape).contiguous())
        return found

    def baselines(self, request: dict) -> dict:
        """{name: {ms, ratio} or {error}}: PyTorch's ways to run the module; `ratio` is the way's time over eager
        TF32's, from alternating pairs."""
        found: dict[str, dict] = {}
        for name in request["names"]:
            try:
                found[name] = self._baseline(name)
            except Exception as e:
                found[name] = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
                torch.cuda.empty_cache()
        return found

    def _baseline(self, name: str) -> dict:
        model, inputs = self.problem.model, self.problem.inputs
        if name in COMPILED:
            torch.compiler.reset()
            model = torch.compile(model, mode=COMPILED[name])
        tf32 = self.problem.call

        def call() -> Any:
            with torch.no_grad(), _as(name):
                return model(*inputs)

        for _ in range(WARM_UP):
            slow = max(self._timer.sample(call), self._timer.sample(tf32))
        pairs = []
        for _ in range(SLOW_PAIRS if slow > SLOW_MS else PAIRS):
            pairs.append((self._timer.sample(call), self._timer.sample(tf32)))
        return {"ms": interval([a for a, _ in pairs])[0], "ratio": paired_ratio(pairs)[0]}


@contextlib.contextmanager
def _as(name: str) -> Iterator[None]:
    """PyTorch as it ships (float32 products without TF32, cuDNN with), or in half precision by autocast; else with
    TF32 allowed."""
    if name == "eager":
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = True
    elif name == "eager_f16":
        with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
            yield
    else:
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    child = BenchChild(parser.parse_args().device)
    torch.set_grad_enabled(False)
    handlers: dict[str, Callable] = {
        name: getattr(child, name) for name in ("warm", "open", "close", "run", "trace", "baselines")
    }
    jsonprocess.serve(handlers)


if __name__ == "__main__":
    main()
