"""torch.compile of a module into Inductor's caches on disk, so that the process that times finds it there.

Compiling is minutes of CPU and seconds of GPU. This runs in processes of its own beside the one that times, and takes
its turn (engine.evaluate.timing.gpu_lock) for what it does on the GPU: filling the tensors, measuring choices, the
first run.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.bench.run.region import opened
from engine.evaluate.timing.gpu_lock import Turn
from engine.suite.problem import names_of

MODES = {"compile": "default", "compile_max": "max-autotune-no-cudagraphs"}
MOST_BYTES = 24e9  # of a module that is compiled beside others; a larger one is left to the process that times


def precompile(where: dict, name: str, device: str, turn: Turn) -> dict:
    """{seconds, found: graphs that the caches held} of what `where` opens (engine.bench.run.region)
    compiled in mode MODES[name], or {left_out: why}."""
    import torch._inductor.compile_fx  # takes seconds, which nobody should wait for

    small = device == "cpu"
    if not small and (needs := bytes_of(Path(where["module"]))) > MOST_BYTES:
        return {"left_out": f"its tensors take {needs / 1e9:.0f} GB"}
    # As the process that times has it: the caches know a graph by these, too.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    began, before = time.perf_counter(), found()
    torch.compiler.reset()
    try:
        with turn, _in_turn(turn), torch.no_grad():
            problem = opened(where, 0, device, small)
            _settle()
            torch.compile(problem.model, mode=MODES[name])(*problem.inputs)
            _settle()
    finally:
        with turn:
            problem = None
            gc.collect()
            if not small:
                torch.cuda.empty_cache()
    return {"seconds": time.perf_counter() - began, "found": found() - before}


def found() -> int:
    """How many graphs Inductor's caches held already, of those that this process asked them for."""
    from torch._dynamo.utils import counters

    return counters["inductor"]["fxgraph_cache_hit"]


def bytes_of(path: Path) -> float:
    """Of a module's state, its inputs and all that its operations give, in eager mode: counted without any memory."""
    names = names_of(path)
    with torch.no_grad(), torch.device("meta"):
        model = names["Model"](*names["get_init_inputs"]()).eval()
        inputs = names["get_inputs"]()
        count = _Bytes()
        count.add((list(model.state_dict().values()), inputs))
        with count:
            model(*inputs)
    return count.total


class _Bytes(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self._seen: dict[int, Any] = {}  # held, so that no other storage takes the same place

    def add(self, tree: Any) -> None:
        for t in tree_leaves(tree):
            if isinstance(t, torch.Tensor) and (at := t.untyped_storage())._cdata not in self._seen:
                self._seen[at._cdata] = at
                self.total += at.nbytes()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.add(out)
        return out


# What of Inductor runs something on the GPU to measure it: (module, class or "", names). PyTorch moves these about, so
# those that a version has are taken; without the first one its measurements cannot be told from its compiling.
MEASURES = (
    ("select_algorithm", "AlgorithmSelectorCache", ("benchmark_in_current_process",)),
    ("runtime.benchmarking", "Benchmarker", ("benchmark", "benchmark_gpu")),
    ("runtime.benchmarking", "TritonBenchmarker", ("benchmark_gpu",)),
    ("runtime.benchmarking", "InductorBenchmarker", ("benchmark_gpu",)),
    ("codegen.triton", "TritonScheduling", ("benchmark_codegened_module", "benchmark_combo_kernel")),
    ("fx_passes.pad_mm", "", ("should_pad", "should_pad_bench", "_should_pad_bench")),
)


@contextlib.contextmanager
def _in_turn(turn: Turn) -> Iterator[None]:
    """Inductor's compiler gives the turn back, and takes it for whatever it measures on the GPU."""
    from torch._inductor import compile_fx

    def beside(work: Callable) -> Callable:
        def run(*args: Any, **kwargs: Any) -> Any:
            _settle()
            with turn.given_back():
                return work(*args, **kwargs)

        return run

    def measured(work: Any) -> Any:
        if isinstance(work, (classmethod, staticmethod)):
            return type(work)(measured(work.__func__))

        @functools.wraps(work)
        def run(*args: Any, **kwargs: Any) -> Any:
            with turn:
                try:
                    return work(*args, **kwargs)
                finally:
                    _settle()

        return run

    found = list(_measures())
    if not any(name == MEASURES[0][2][0] for _, name in found):
        yield  # the turn is kept from the first line to the last
        return
    put = [(compile_fx, "compile_fx", beside(compile_fx.compile_fx))]
    put += [(where, name, measured(vars(where)[name])) for where, name in found]
    held = [(where, name, vars(where)[name]) for where, name, _ in put]
    for where, name, value in put:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in held:
            setattr(where, name, value)


def _measures() -> Iterator[tuple[Any, str]]:
    """(module or class, name) of each of MEASURES that this PyTorch has."""
    for module, cls, names in MEASURES:
        with contextlib.suppress(ImportError):
            where = importlib.import_module(f"torch._inductor.{module}")
            where = getattr(where, cls, None) if cls else where
            yield from ((where, name) for name in names if where is not None and name in vars(where))


def _settle() -> None:
    """Nothing of this process may still run on the GPU when the turn goes to another."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
