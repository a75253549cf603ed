"""A module of several generated programs and a PyTorch rest, with the interface of one program, for the worker.

    program = RegionProgram(graph, placed, "cuda", "tf32")
    program.run(inputs, outputs); program.deliver()

`run` leaves a result of PyTorch in PyTorch's memory, because a copy would be timed and the baseline makes none;
`deliver` copies it into its output afterwards. Needs torch; only for workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import torch

from engine.build.cute_worker import import_generated
from engine.devices.parts import subgraph
from engine.evaluate.candidate.guarded_outputs import Guarded, wrong_writes
from engine.evaluate.candidate.noop_probe import Launches, silenced
from engine.evaluate.candidate.probes import raised
from engine.evaluate.candidate.region_runtime import Place, RegionRuntime
from engine.evaluate.captured_call import CapturedCall
from engine.evaluate.compiled_rest import CompiledRest, Told
from engine.evaluate.correctness.inputs import torch_dtype
from sol.graph import OpGraph

SAMPLES = 5
MOST_COPIED = 256 << 20  # bytes into and out of a graph: more of them take longer than what the host could save


class RegionProgram:
    """`placed`: engine.devices.parts.to_json of each program, with the `path` of its module and its `artifact`; the
    first is the trial's program. `rest`: compiles what stays PyTorch; None: its operations run one by one. Raises
    engine.evaluate.candidate.aten.UnknownOp, what importing a module raises, and what `rest` does."""

    def __init__(self, graph: OpGraph, placed: list[dict], device: str, cls: str, rest: CompiledRest | None = None):
        self.graph, self.device, self.cls, self.placed, self.rest = graph, device, cls, placed, rest
        self.modules = [(import_generated(p["path"]), p.get("artifact")) for p in placed]
        self.runs = [module.load(artifact) for module, artifact in self.modules]
        self.composed = self._composed(self.runs)
        tensors = graph.tensors
        self.inputs = [_whole(n, tensors) for n in self.composed.read]
        self.outputs = [_whole(n, tensors) for n in graph.outputs]
        self._late: list[tuple[torch.Tensor, torch.Tensor]] = []

    def _composed(self, runs: list[Callable]) -> RegionRuntime:
        composed = RegionRuntime(self.graph, _places(self.placed, runs), self.device, self.cls)
        if self.rest is not None:
            self.rest.into(composed)
        return composed

    def run(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        self._run(self.composed, inputs, outputs, None)

    def watched(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> tuple[str, str] | None:
        """An untimed run with the programs' intermediate results between guard bands: (code, sentence) of a wrong
        write."""
        guards: list[Guarded] = []
        self._run(self.composed, inputs, outputs, guards)
        self.deliver()
        return wrong_writes(guards, [], [])

    def _run(
        self,
        composed: RegionRuntime,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        guards: list[Guarded] | None,
    ) -> None:
        values = dict(zip(composed.read, inputs, strict=True))
        own = len(self.graph.returned)
        into = dict(zip(self.graph.returned, outputs[:own], strict=True))
        results = composed.run(values, into, guards)
        # A written tensor gets its new value by a copy, which is part of the module's work and of its time.
        for n, out in zip(self.graph.outputs[own:], outputs[own:], strict=True):
            out.copy_(results[n])
        self._late = [
            (out, results[n])
            for n, out in zip(self.graph.returned, outputs[:own], strict=True)
            if results[n].data_ptr() != out.data_ptr()
        ]

    def captured(self, inputs: list[torch.Tensor], moving: Sequence[int]) -> Callable[[list, list], None] | None:
        """`run` as one CUDA graph, for inputs of which only those at the places `moving` are other tensors next time.
        None for a module that writes its state, which a capture would write too, that moves much, or that cannot be
        captured."""
        if self.graph.writes or self.device != "cuda":
            return None
        stored = sum(self.graph.tensors[b["tensor"]].bytes for b in self.outputs)
        if stored + sum(inputs[at].nbytes for at in moving) > MOST_COPIED:
            return None

        def call(own: list[torch.Tensor]) -> list[torch.Tensor]:
            tensors = list(inputs)
            for at, x in zip(moving, own, strict=True):
                tensors[at] = x
            outputs = [torch.empty(b["shape"], dtype=torch_dtype(b["dtype"]), device=self.device) for b in self.outputs]
            self.run(tensors, outputs)
            late, self._late = {id(out): result for out, result in self._late}, []
            return [late.get(id(out), out) for out in outputs]

        try:
            graph = CapturedCall(call, [inputs[at] for at in moving])
        except RuntimeError:  # an operation that waits for the GPU, or too little memory
            torch.cuda.synchronize()  # raises what ended the context
            return None
        return lambda tensors, outputs: graph.into([tensors[at] for at in moving], outputs)

    def deliver(self) -> None:
        for out, result in self._late:
            out.copy_(result)
        self._late = []

    def times(
        self, inputs: list[torch.Tensor], timer: Any, own: Mapping[str, torch.Tensor] | None = None
    ) -> dict[str, float]:  # fmt: skip
        """{region_ms: the trial's program alone, covered_ms: all programs, region_eager_ms: PyTorch in the class on the
        operations of the trial's region}, each the median of a few calls. `own`: the module's own tensors, for those
        that PyTorch's operations read and no program does, such as the buffer of a mask."""
        mine = frozenset(self.placed[0]["ops"])
        region = covered = 0.0
        calls, tensors = self.composed.alone(dict(zip(self.composed.read, inputs, strict=True)))
        for place, call in calls:
            ms = _time(call, timer)
            covered += ms
            region += ms * (place.ops == mine)
        part = subgraph(self.graph, [op for op in self.graph.live if op.name in mine])
        theirs = RegionRuntime(part, [], self.device, self.cls)
        tensors = {**(own or {}), **tensors}
        operands = {n: tensors[n] for n in theirs.read}
        eager = _time(lambda: theirs.play(operands), timer)
        return {"region_ms": region, "covered_ms": covered, "region_eager_ms": eager}

    def tripping(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """What the trial's own program reads in a call on these inputs, if it trips its guard; else []."""
        own, seen = self.runs[0], []

        def run(read: list[torch.Tensor], results: list[torch.Tensor]) -> None:
            seen[:] = [x.clone() for x in read]
            own(read, results)

        self._run(self._composed([run, *self.runs[1:]]), inputs, outputs, None)
        self._late = []
        return seen if raised([own]) else []

    @contextlib.contextmanager
    def silenced(self) -> Iterator[tuple[Callable, Launches]]:
        """(run, launches) with every kernel of every program skipped. PyTorch's operations run."""
        with contextlib.ExitStack() as stack:
            quiet = [stack.enter_context(silenced(*module)) for module in self.modules]
            composed, launches = self._composed([run for run, _ in quiet]), Launches()

            def run(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
                self._run(composed, inputs, outputs, [])
                self.deliver()
                launches.names = [name for _, one in quiet for name in one.names]

            yield run, launches


def compile_rest(graph: OpGraph, placed: list[dict], device: str, cls: str, rest: CompiledRest) -> Told:
    """Let `rest` compile what a RegionProgram of these programs will ask it for. Runs nothing on the GPU."""
    runs = [lambda inputs, outputs: None] * len(placed)
    return rest.into(RegionRuntime(graph, _places(placed, runs), device, cls))


def _places(placed: list[dict], runs: Sequence[Callable]) -> list[Place]:
    return [Place(frozenset(p["ops"]), p["inputs"], p["outputs"], run=run) for p, run in zip(placed, runs, strict=True)]


def _time(call: Callable[[], Any], timer: Any) -> float:
    call()
    return median(timer.sample(call) for _ in range(SAMPLES))


def _whole(name: str, tensors: dict) -> dict:
    t = tensors[name]
    return {"name": name, "tensor": name, "shape": list(t.shape), "dtype": t.dtype}
