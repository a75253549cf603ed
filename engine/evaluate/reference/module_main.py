"""The confined process of the pasted module: computes its reference, its own errors and its own times.

Answers requests of engine.evaluate.reference.module_process, one at a time: open, compute, error, compile,
baseline_open, baseline_sample, trim, adopt, own. It never sees a candidate.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from typing import Any

from engine.evaluate import shared_memory
from engine.evaluate.correctness import inputs as data
from engine.evaluate.reference import first_use
from engine.evaluate.reference.compiling import Compiled
from engine.evaluate.reference.module_clock import ModuleClock
from engine.evaluate.reference.module_state import WrittenState, copied, get, own_tensors, settle
from engine.evaluate.reference.pytorch_classes import HALF, accumulating
from engine.evaluate.reference.pytorch_times import Baseline, argument_sets, compiled_ahead
from engine.evaluate.reference.right_results import RightResults
from engine.evaluate.shared_memory import Block, NotShared
from engine.evaluate.shared_tensors import Slot, tensor_at
from engine.evaluate.timing.samples import clock
from engine.trace import child, results
from engine.trace.explain import explain
from engine.trace.load import Bad, Loaded, load
from sol.graph import OpGraph

_module: Held | None = None


def before_texts() -> None:
    """On the GPU of a process that waits for its module (engine.sandbox.child)."""
    first_use.of_rounds("cuda")
    first_use.of_products("cuda")


def serve(message: dict) -> dict:
    global _module
    what = message["do"]
    try:
        if what == "open":
            child.watch()
            _module = Held(message)
            if not message.get("own_waits"):
                _module.do_own()
            return {"ok": _module.described()}
        if _module is None:
            raise Bad("internal", "no module is open")
        return {"ok": getattr(_module, f"do_{what}")(**message.get("with", {}))}
    except Bad as e:
        bad = e
    except NotShared as e:
        bad = Bad("not_shared", str(e))
    except Exception as e:  # in our own code: data, errors
        if type(e).__name__ != "OutOfMemoryError":
            raise
        bad = explain(e, "the module")
    if bad.code == "gpu_memory" and _module is not None:
        _module.do_trim(hard=True)
    return {"error": {"code": bad.code, "reason": bad.reason[:2000], "line": bad.line}}


def _map(fd: int, size: int) -> Any:
    import mmap

    return mmap.mmap(fd, size)


class Held:
    """The module, its own state and inputs, and the last results."""

    def __init__(self, message: dict):
        import torch

        self.torch = torch
        self.graph = OpGraph.from_json(message["graph"])
        self.roles = data.roles(self.graph)
        self.state = WrittenState(self.graph)
        self.device = message["device"]
        data.few_threads(self.graph)
        if self.device == "cuda":
            first_use.of_convolutions(self.graph, self.device)
        self.seed = message["seed"]
        self.memory = message["memory"]
        self.own_slots = _slots(message["own_slots"])
        self.own_map = _map(message["own_fd"], message["own_size"])
        self.result_slots = _slots(message["result_slots"])
        self.result_map = _map(message["result_fd"], message["result_size"])
        # Tensors without a device (a plain attribute, an example input) are created where the module will run.
        with torch.no_grad(), torch.device(self.device):
            self.loaded: Loaded = child.stage("the text", lambda: load(message["source"]))
            self.model = self.build()
            own = child.stage(f"{self.loaded.inputs_from}()", lambda: self.loaded.inputs(self.seed))
        self.inputs = tuple(v.to(self.device) if isinstance(v, torch.Tensor) else v for v in own)
        if self.graph.settled:
            settle(self.model, self.inputs)
        if len(tensors := self._tensors(self.inputs)) != len(self.graph.inputs):
            raise Bad("unsteady", f"{self.loaded.inputs_from}() gave another number of tensors than before.")
        self.own = dict(zip(self.graph.inputs, tensors, strict=True))
        self.own |= own_tensors(self.model, self.graph, self.inputs, self.device)
        for name, value in self.own.items():
            want = self.graph.tensors[name]
            if tuple(value.shape) != want.shape or value.dtype != data.torch_dtype(want.dtype):
                raise Bad("unsteady", f"{name} has another shape or type than when the module was traced.")
        self.right = RightResults(self)
        self.block: Block | None = None  # in which results are laid, instead of the host's memory
        self.compiled: dict[str, Compiled] = {}  # by the name of its baseline: the last one that was compiled ahead
        self.baselines: list[Baseline] = []  # the open ones: the one that is timed, and one beside it
        self.clock = ModuleClock(self)
        self.host_clock = bool(message.get("host_clock"))

    def build(self) -> Any:
        name = f"{self.loaded.cls.__name__}()"
        with self.torch.no_grad(), self.torch.device(self.device):
            model = child.stage(name, lambda: self.loaded.build(self.seed))
        self.state.prepare(model)
        return model.to(self.device).requires_grad_(False)

    def _tensors(self, values: Iterable[Any]) -> list[Any]:
        return [v for v in values if isinstance(v, self.torch.Tensor)]

    def do_own(self, door: int | None = None, size: int = 0) -> dict:
        """Copy the module's own inputs and state into the region that is shared with the engine, or into a block whose
        descriptor comes through the door."""
        block = None if door is None else shared_memory.through(door, size, self.device)
        for name, slot in self.own_slots.items():
            if name in self.own:
                place = tensor_at(self.own_map, slot) if block is None else block.tensor(slot)
                place.copy_(self.own[name])
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return {}

    def described(self) -> dict:
        """Which of its own tensors the module has, where, and how it is built and called."""
        shared = [name for name in self.own_slots if name in self.own]
        return {"shared": shared, "device": self.device, **self._arguments()}

    def _arguments(self) -> dict:
        """How to build and call a module that replaces this one: {init: [args, kwargs] | None, order}.

        None if an argument is more than numbers and text; then the replacement must bring its own get_init_inputs."""
        init: Any = None
        with contextlib.suppress(Exception):
            args, kwargs = self.loaded._init_inputs()
            init = json.loads(json.dumps([list(args), kwargs], allow_nan=False))
        named = iter(self.graph.inputs)
        order = []
        for v in self.inputs:
            if isinstance(v, self.torch.Tensor):
                order.append({"tensor": next(named)})
            else:
                order.append({"value": v if isinstance(v, (int, float, str, bool, type(None))) else None})
        return {"init": init, "order": order}

    # ---- the reference ----

    def run(self, model: Any, values: dict[str, Any], wide: bool, copies: bool = True) -> list:
        """The module's outputs with this state and these inputs; with `wide`, floats are widened to float64. Without
        `copies`, forward gets the values themselves: for one that writes none of them."""
        torch = self.torch
        for t in self.graph.tensors.values():
            if t.kind == "parameter" and t.name in values:
                tensor = get(model, t.path)
                value = values[t.name]
                tensor.data = value.to(data.widened(value.dtype)) if wide else value
        self.state.put(model, values, wide)
        named = iter(self.graph.inputs)
        dtype = torch.float64 if wide else None
        arguments = [values[next(named)] if isinstance(v, torch.Tensor) else v for v in self.inputs]
        if copies or wide:
            arguments = [copied(v, dtype) for v in arguments]
        halves = self.device == "cpu" and not wide and self._has_halves()
        with torch.no_grad(), accumulating() if halves else contextlib.nullcontext():
            result = child.stage("forward", lambda: model(*arguments))
        outputs = self._tensors(results.leaves_of(result))
        outputs += self.state.read(model, self._tensors(arguments))
        if len(outputs) != len(self.graph.outputs):
            raise Bad("unsteady", "forward returned another number of tensors than when it was traced.")
        return outputs

    def _has_halves(self) -> bool:
        """Return True if products may be of f16 or bf16 tensors."""
        named = any(t.dtype in HALF for t in self.graph.tensors.values())
        return named or self.torch.is_autocast_enabled("cpu")

    def do_compute(self, family: str, seed: int, rows: int | None, to_host: bool) -> dict:
        start, block = time.perf_counter(), None if to_host else self.block
        try:
            precision, outputs = self.right.results(family, seed, rows, lambda *slot: self._place(block, *slot))
        except Bad as e:
            if rows is not None and e.code in ("shape_mismatch", "module_raised"):
                raise Bad(
                    "rows_refused", f"The module does not compute on {rows} rows alone. {e.reason}", e.line
                ) from e
            raise
        descriptions, laid = {}, []
        for name, out in zip(self.graph.outputs, outputs, strict=True):
            dtype = "f64" if out.dtype == self.torch.float64 else ("f32" if out.is_floating_point() else None)
            dtype = dtype or self.graph.tensors[name].dtype
            place = self._place(block, name, tuple(out.shape), dtype)
            laid.append(place if place.data_ptr() == out.data_ptr() else place.copy_(out))
            descriptions[name] = {"shape": list(out.shape), "dtype": _name(place.dtype) or dtype}
        if block is not None:  # so that they take memory once
            self.right.last = (self.right.last[0], (precision, laid))
            if self.device == "cuda":
                self.torch.cuda.synchronize()
        took = time.perf_counter() - start
        return {"outputs": descriptions, "precision": precision, "in_block": block is not None, "seconds": took}

    def _place(self, block: Block | None, name: str, shape: tuple[int, ...], dtype: str) -> Any:
        """The memory for a result; floating point ones are f32 there if float64 would be too large."""
        home = self.result_slots[name]
        slot = Slot(home.offset, shape, "f32" if (dtype, home.dtype) == ("f64", "f32") else dtype)
        if slot.bytes > home.bytes:
            raise Bad("unsteady", f"{name} is larger than when the module was traced.")
        return tensor_at(self.result_map, slot) if block is None else block.tensor(slot)

    def do_adopt(self, door: int, size: int) -> dict:
        """Take a block for the results through the door."""
        self.right.last, self.block = None, None
        with shared_memory.door(door) as way:
            self.block = shared_memory.adopt(shared_memory.take(way), size, self.device)
        return {}

    # ---- PyTorch's own error in a class ----

    def do_error(self, family: str, seed: int, cls: str, rows: int | None, apart: bool = False) -> dict:
        return self.right.error(family, seed, cls, rows, apart)

    # ---- PyTorch's own time ----

    def do_compile(self, name: str) -> dict:
        """Compile for a baseline that is opened later. Runs nothing on the GPU, and takes none of its memory for
        inputs."""
        self._own_model()
        self.compiled = {}
        self.state.restorer(self.model, self.own, [self.inputs])(0)
        compiled = compiled_ahead(name, self.model, self.inputs, self.device)
        self.compiled = {} if compiled is None else {name: compiled}
        return {}

    def _own_model(self) -> None:
        """Close the open baselines, and give the module its own parameters."""
        if self.device != "cuda" and not self.host_clock:
            raise Bad("no_cuda", "Times are taken on a GPU only.")
        self.baselines = []
        for t in self.graph.tensors.values():
            if t.kind == "parameter" and t.name in self.own:
                get(self.model, t.path).data = self.own[t.name]

    def do_baseline_open(self, name: str, seed: int, beside: str) -> dict:
        self._own_model()
        self._forget()
        sets, timer = argument_sets(self.graph, self.inputs, self.own, seed, self.device), clock(self.device)
        restore = self.state.restorer(self.model, self.own, sets)
        for way in filter(None, (name, beside)):
            compiled = self.compiled.get(way)
            self.baselines.append(Baseline(way, self.model, self.graph, sets, self.device, timer, restore, compiled))
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return {"cls": self.baselines[0].cls, "note": self.baselines[0].note}

    def do_baseline_sample(self, beside: bool) -> dict:
        if len(self.baselines) <= beside:
            raise Bad("internal", "no baseline is open")
        return self.baselines[beside].sample()

    def do_clock(self, ask: str, **arguments: Any) -> dict:
        """A request of engine.evaluate.reference.module_clock."""
        if self.device != "cuda" and not self.host_clock:
            raise Bad("no_cuda", "Times are taken on a GPU only.")
        self.baselines = []
        if ask == "take":
            self._forget()
        return getattr(self.clock, ask)(**arguments)

    # ---- memory ----

    def do_trim(self, hard: bool) -> dict:
        """Give back the memory that only the last request needed, and the block; with `hard`, the open baselines'
        too."""
        self.block = None
        if hard:
            self.baselines = []
        self._forget()
        return {}

    def _forget(self) -> None:
        """Drop what the last request of the reference left."""
        self.right.forget()
        self._empty()

    def _empty(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.empty_cache()


def _name(dtype: Any) -> str:
    """f64 or f32; "" for another type."""
    return {"torch.float64": "f64", "torch.float32": "f32"}.get(str(dtype), "")


def _slots(raw: dict) -> dict[str, Slot]:
    return {n: Slot.from_json(s) for n, s in raw.items()}
