"""The module's process while PyTorch is timed from outside, as the candidate is (engine.evaluate.timing.outside)."""

from __future__ import annotations

from typing import Any

from engine.evaluate.integrity.process.timed_calls import runner
from engine.evaluate.reference.module_state import get
from engine.evaluate.reference.pytorch_classes import permitted
from engine.evaluate.reference.pytorch_times import Baseline
from engine.evaluate.timing.outside.runner import Runner
from engine.trace import child, results


class ModuleClock:
    """`module`: engine.evaluate.reference.module_main.Held."""

    def __init__(self, module: Any):
        self.module = module
        self.runner: Runner | None = None
        self.baseline: tuple[str, Baseline] | None = None  # the last one that was opened, by its name

    def take(self, door: int, plan: dict) -> dict:
        self.close()
        self.runner = runner(door, plan, self.module.device)
        return {}

    def rest(self, long: bool) -> dict:
        self.runner.rest(long)
        return {}

    def open(self, name: str, calls: int, mode: str) -> dict:
        """From now on a batch is `calls` calls of PyTorch in one of its modes. Also {cls, note} of the mode."""
        module = self.module
        sets, rows = [self.runner.inputs(at) for at in range(calls)], []
        for tensors in sets:
            named = iter(module.graph.inputs)
            rows.append([self._argument(v, named, tensors) for v in module.inputs])
        if self.baseline is None or self.baseline[0] != name:  # torch.compile takes minutes
            self.baseline = name, Baseline(name, module.model, module.graph, rows, module.device, None)
        baseline = self.baseline[1]
        baseline.sets = rows

        def call(at: int, slots: list[Any]) -> list[Any]:
            for path, tensor in self._state(sets[at]):
                get(module.model, path).data = tensor
            with permitted(baseline.wanted):
                result = child.stage("forward", lambda: baseline.call(at))
            return results.split(result)[0]

        return {**self.runner.open(call, calls, mode), "cls": baseline.cls, "note": baseline.note}

    def serve(self) -> dict:
        """Run batches until the engine stops."""
        self.runner.serve()
        return {}

    def values(self, seed: int) -> dict:
        """The first slot's inputs are the data of the next requests with `seed`."""
        own = {n: v.clone() for n, v in self.runner.inputs(0).items()}
        self.module.right.data = (("normal", seed, None), {**self.module.own, **own})
        return {}

    def close(self) -> dict:
        """Give the memory back, and the module its own parameters."""
        if self.runner is not None:
            self.runner.close()
            for path, tensor in self._state(self.module.own):
                get(self.module.model, path).data = tensor
        self.runner, self.baseline = None, None
        return {}

    def _state(self, tensors: dict[str, Any]) -> list[tuple[str, Any]]:
        names = self.runner.plan.inputs
        graph = self.module.graph
        return [(graph.tensors[n].path, tensors[n]) for n in names if graph.tensors[n].kind == "parameter"]

    def _argument(self, value: Any, named: Any, tensors: dict[str, Any]) -> Any:
        if not isinstance(value, self.module.torch.Tensor):
            return value
        name = next(named)
        return tensors.get(name, self.module.own[name])
