"""The process that owns the GPU for a bench: the suite's child, which also traces a module and times PyTorch.

    python -m engine.bench.run.child --device cuda|cpu [--turn FILE]     JSON lines over pipes

The modules are this repository's own, so they need no sandbox. With `--device cpu` they are small, and a program's
meaning runs in the place of its machine code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from engine import jsonprocess
from engine.bench.run import whole_module
from engine.bench.run.precompile import MODES, found, precompile
from engine.bench.run.region import Region, opened
from engine.evaluate.candidate.faults import Wrong
from engine.evaluate.timing.gpu_lock import Turn
from engine.evaluate.timing.samples import interval, paired_ratio
from engine.suite.child import PAIRS, SLOW_MS, SLOW_PAIRS, WARM_UP, Child
from engine.suite.problem import Instance
from engine.trace import capture
from engine.trace import child as tracing
from sol.graph import OpGraph


class BenchChild(Child):
    """Every public method is a request by its name. `turn`: the file that its GPU is waited for with, or None."""

    def __init__(self, device: str, turn: str | None = None):
        self.turn = Turn(turn)
        with self.turn:
            super().__init__(device)

    def open(self, request: dict) -> dict:
        """As the suite's, of a module or of one `region` of it; with `times_only` nothing is computed that a program
        would be held against."""
        began = time.perf_counter()
        self.close({})
        self.problem = opened(request, request["seed"], self.device, self.small)
        if not request.get("times_only"):
            self.problem.prepare()
        return {"scope": self.problem.scope(), "seconds": time.perf_counter() - began}

    def precompile(self, request: dict) -> dict:
        """A module compiled into Inductor's caches, beside another process that times: {seconds} or {left_out}."""
        return precompile(request, request["name"], self.device, self.turn)

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
        state = self.problem.model.state_dict() if not isinstance(self.problem.model, Region) else self.problem.values
        found = []
        for p in program.params:
            place = request["places"][p.name]
            x = self.problem.inputs[place] if isinstance(place, int) else state[place].detach()
            found.append(x.reshape(p.type.shape).contiguous())
        return found

    def compose(self, request: dict) -> dict:
        """The module with programs in its regions, verified and timed as a whole: as `run` answers of a program."""
        return self._told(self._composed, request)

    def _composed(self, request: dict) -> dict:
        began, cls = time.perf_counter(), request["cls"]
        graph = OpGraph.from_json(request["graph"])
        if len(graph.outputs) != 1:
            raise Wrong("results", f"the module has {len(graph.outputs)} results; a bench holds one against another")
        values = whole_module.values(graph, self.problem)
        if self.small:
            made = whole_module.meaning(graph, request["placed"], values, self.device, cls)
            answer, _ = self._verified(made[graph.outputs[0]], cls)
            return answer | {"seconds": time.perf_counter() - began}
        self.loaded = loaded = whole_module.Whole.load(graph, request["placed"], values, self.device, cls)
        wrong: list[tuple[str, str] | None] = []
        self._once(lambda: wrong.append(loaded.first()), loaded.inputs, loaded.outputs)
        if wrong[0] is not None:
            raise Wrong(*wrong[0])
        answer, first = self._verified(loaded.outputs[0].tensor, cls)
        tensors = [o.tensor for o in loaded.outputs]
        answer |= self._time(lambda: loaded.run(loaded.inputs, tensors))
        loaded.module.deliver()
        answer["checks"] = self._checks(first, cls, answer)
        return answer | {"seconds": time.perf_counter() - began}

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
        model, inputs, began, held = self.problem.model, self.problem.inputs, time.perf_counter(), 0
        if name in MODES:
            held = found()
            torch.compiler.reset()
            model = torch.compile(model, mode=MODES[name])
        tf32 = self.problem.call

        def call() -> Any:
            with torch.no_grad(), _as(name):
                return model(*inputs)

        if name in MODES:
            call()  # compiles, or finds it compiled
        compiled = time.perf_counter() - began
        for _ in range(WARM_UP):
            slow = max(self._sample(call), self._sample(tf32))
        pairs = []
        for _ in range(SLOW_PAIRS if slow > SLOW_MS else PAIRS):
            pairs.append((self._sample(call), self._sample(tf32)))
        told = {"ms": interval([a for a, _ in pairs])[0], "ratio": paired_ratio(pairs)[0]}
        return told | ({"seconds": round(compiled, 2), "ahead": found() > held} if name in MODES else {})


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
    parser.add_argument("--turn", help="file whose lock says whose turn the GPU is")
    args = parser.parse_args()
    child = BenchChild(args.device, args.turn)
    torch.set_grad_enabled(False)

    def alone(work: Callable[[dict], dict]) -> Callable[[dict], dict]:
        """Nobody else's work on the GPU meanwhile."""

        def handler(request: dict) -> dict:
            with child.turn:
                return work(request)

        return handler

    handlers = {name: alone(getattr(child, name)) for name in ("warm", "open", "close", "run", "compose", "baselines")}
    jsonprocess.serve(handlers | {"trace": child.trace, "precompile": child.precompile})


if __name__ == "__main__":
    main()
