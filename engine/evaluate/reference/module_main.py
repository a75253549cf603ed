"""The confined process of the pasted module: computes its reference, its own errors and its own times.

Answers requests of engine.evaluate.reference.module_process, one at a time: open, compute, error, baseline_open,
baseline_sample, trim, adopt. It never sees a candidate.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from typing import Any

from engine.evaluate import shared_memory
from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness.operands import parts_by_rows
from engine.evaluate.reference.module_clock import ModuleClock
from engine.evaluate.reference.module_state import WrittenState, copied, get, own_tensors, settle
from engine.evaluate.reference.pytorch_classes import CLASSES, SUSPECT, UNUSED, as_class, strict, truncating, widening
from engine.evaluate.reference.pytorch_times import Baseline, argument_sets
from engine.evaluate.shared_memory import Block, NotShared
from engine.evaluate.shared_tensors import Slot, tensor_at
from engine.evaluate.timing.samples import clock
from engine.trace import child
from engine.trace.explain import explain
from engine.trace.load import Bad, Loaded, load
from sol.graph import OpGraph

F64_SECONDS = 3.0  # on a GPU: a reference that takes longer in f64 is computed in f32 after the first one
F64_FLOPS_ON_CPU = 6e10  # above this, the CPU computes its reference in f32: some 3 s on two cores
_module: Held | None = None


def serve(message: dict) -> dict:
    global _module
    what = message["do"]
    try:
        if what == "open":
            child.watch()
            _module = Held(message)
            return {"ok": _module.share_own()}
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
        self.seed = message["seed"]
        self.memory = message["memory"]
        self.own_slots = _slots(message["own_slots"])
        self.own_map = _map(message["own_fd"], message["own_size"])
        self.result_slots = _slots(message["result_slots"])
        self.result_map = _map(message["result_fd"], message["result_size"])
        # Tensors without a device (a plain attribute, an example input) are created where the module will run.
        with torch.no_grad(), torch.device(self.device):
            self.loaded: Loaded = child.stage("the text", lambda: load(message["source"]))
            self.model = self._build()
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
        self.wide: Any = None  # the module in float64, created on first use
        self.slow = False  # float64 took more than F64_SECONDS on a GPU
        self.data: tuple[tuple, dict] | None = None  # the data of the last request: the next class asks for it again
        self.last: tuple[tuple, tuple] | None = None
        self.block: Block | None = None  # in which results are laid, instead of the host's memory
        self.baselines: list[Baseline] = []  # the open ones: the one that is timed, and one beside it
        self.clock = ModuleClock(self)
        self.host_clock = bool(message.get("host_clock"))

    def _build(self) -> Any:
        name = f"{self.loaded.cls.__name__}()"
        with self.torch.no_grad(), self.torch.device(self.device):
            model = child.stage(name, lambda: self.loaded.build(self.seed))
        self.state.prepare(model)
        return model.to(self.device).requires_grad_(False)

    def _tensors(self, values: Iterable[Any]) -> list[Any]:
        return [v for v in values if isinstance(v, self.torch.Tensor)]

    def share_own(self) -> dict:
        """Copy the module's own inputs and state into the shared region; report which tensors were found."""
        shared = []
        for name, slot in self.own_slots.items():
            if name in self.own:
                tensor_at(self.own_map, slot).copy_(self.own[name])
                shared.append(name)
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

    def _precision(self, rows: int | None) -> str:
        """f64 if memory and, on the CPU, time allow; else f32."""
        state = sum(t.elements for t in self.graph.tensors.values() if t.kind in ("parameter", "buffer"))
        share = self._share(rows)
        work = sum(t.elements for t in self.graph.tensors.values() if t.kind in ("input", "intermediate")) * share
        free = self.memory
        if self.device == "cuda":
            free = self.torch.cuda.mem_get_info()[0] + (self.wide is not None) * 8 * state
        if 8 * (state + work) > 0.6 * free or self.slow:
            return "f32"
        if self.device == "cpu" and data.contraction_flops(self.graph) * share > F64_FLOPS_ON_CPU:
            return "f32"
        return "f64"

    def _share(self, rows: int | None) -> float:
        lead = self.graph.tensors[self.graph.inputs[0]].shape[:1] if self.graph.inputs else ()
        return 1.0 if rows is None or not lead or not lead[0] else min(1.0, rows / lead[0])

    def _values(self, family: str, seed: int, rows: int | None) -> dict[str, Any]:
        key = (family, seed, rows)
        if self.data is not None and self.data[0] == key:
            return self.data[1]
        self.data = None
        values = dict(self.own)
        if rows is not None:
            for name in self.graph.inputs:
                t = self.graph.tensors[name]
                values[name] = values[name][: data.shape_at(t, self.roles[name], rows)[0]] if t.shape else values[name]
        if family != "own":
            values.update(data.fill_graph(self.graph, family, seed, self.device, rows=rows))
        self.data = (key, values)
        return values

    def _run(self, model: Any, values: dict[str, Any], wide: bool) -> list:
        """The module's outputs with this state and these inputs; with `wide`, floats are widened to float64."""
        torch = self.torch
        for t in self.graph.tensors.values():
            if t.kind == "parameter" and t.name in values:
                tensor = get(model, t.path)
                value = values[t.name]
                tensor.data = value.to(data.widened(value.dtype)) if wide else value
        self.state.put(model, values, wide)
        named = iter(self.graph.inputs)
        dtype = torch.float64 if wide else None
        arguments = [copied(values[next(named)] if isinstance(v, torch.Tensor) else v, dtype) for v in self.inputs]
        with torch.no_grad():
            result = child.stage("forward", lambda: model(*arguments))
        outputs = self._tensors(torch.utils._pytree.tree_leaves(result))
        outputs += self.state.read(model, self._tensors(arguments))
        if len(outputs) != len(self.graph.outputs):
            raise Bad("unsteady", "forward returned another number of tensors than when it was traced.")
        return outputs

    def _reference(self, family: str, seed: int, rows: int | None) -> tuple[str, list]:
        """(precision, outputs). The last answer is cached, because errors are compared with it."""
        key = (family, seed, rows)
        if self.last is not None and self.last[0] == key:
            return self.last[1]
        self.last = None
        values = self._values(family, seed, rows)
        precision = self._precision(rows)
        with strict():
            outputs = None
            if precision == "f64":
                try:
                    self.wide = self.wide if self.wide is not None else self._widen()
                    outputs = self._timed_in_float64(values)
                except Bad as e:
                    if e.code in ("time_limit", "exited") or e.code.startswith("sandbox"):
                        raise
                    self.wide, precision = None, "f32"  # too little memory, or an impossible shape, which fails again
                    if self.device == "cuda":
                        self.torch.cuda.empty_cache()
            if outputs is None:
                outputs = self._run(self.model, values, wide=False)
        self._check_rows(outputs, rows)
        if precision == "f32" and any(o.dtype in (self.torch.float16, self.torch.bfloat16) for o in outputs):
            precision = "as written"
        self.last = (key, (precision, outputs))
        return self.last[1]

    def _timed_in_float64(self, values: dict[str, Any]) -> list:
        """Like `_in_float64`. A convolution of gigabytes takes PyTorch 15 s in float64 on an H200, and all sessions of
        the GPU wait for it; in strict float32 its error is a thousandth of what the classes allow."""
        began = time.perf_counter()
        outputs = self._in_float64(values)
        if self.device == "cuda":
            self.torch.cuda.synchronize()
            self.slow = time.perf_counter() - began > F64_SECONDS
            self.wide = None if self.slow else self.wide
        return outputs

    def _in_float64(self, values: dict[str, Any]) -> list:
        """The wide module's outputs. An element type that the text names becomes float64: a cast to float16 would
        round the reference, and PyTorch would have no error beside it."""
        try:
            outputs = self._run(self.wide, values, wide=True)
            if not any(o.is_floating_point() and o.dtype != self.torch.float64 for o in outputs):
                return outputs
        except Bad as e:
            if e.code in ("time_limit", "exited") or e.code.startswith("sandbox"):
                raise
        with widening():
            return self._run(self.wide, values, wide=True)

    def _widen(self) -> Any:
        model = self._build().double()
        if self.graph.settled:
            settle(model, self.inputs, self.torch.float64)
        for t in self.graph.tensors.values():
            if t.kind in ("buffer", "constant") and t.name in self.own and self.own[t.name].is_floating_point():
                tensor = get(model, t.path)
                if tensor is not None:
                    tensor.data.copy_(self.own[t.name])
        return model

    def _check_rows(self, outputs: list, rows: int | None) -> None:
        lead = self.graph.tensors[self.graph.inputs[0]].shape[:1] if self.graph.inputs else ()
        for name, out in zip(self.graph.outputs, outputs, strict=True):
            full = self.graph.tensors[name].shape
            short = rows is not None and lead and full[:1] == lead
            want = (min(rows, full[0]), *full[1:]) if short else full
            if tuple(out.shape) == want:
                continue
            if rows is None:
                raise Bad("unsteady", f"{name} has shape {list(out.shape)}; traced, it had {list(full)}.")
            raise Bad("rows_refused", f"The module does not compute on {rows} rows alone: it gives {list(out.shape)}.")

    def do_compute(self, family: str, seed: int, rows: int | None, to_host: bool) -> dict:
        start, block = time.perf_counter(), None if to_host else self.block
        try:
            precision, outputs = self._reference(family, seed, rows)
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
            slot = Slot(self.result_slots[name].offset, tuple(out.shape), dtype)
            if slot.bytes > self.result_slots[name].bytes:
                raise Bad("unsteady", f"{name} is larger than when the module was traced.")
            place = tensor_at(self.result_map, slot) if block is None else block.tensor(slot)
            laid.append(place.copy_(out))
            descriptions[name] = {"shape": list(out.shape), "dtype": dtype}
        if block is not None:  # so that they take memory once
            self.last = (self.last[0], (precision, laid))
            if self.device == "cuda":
                self.torch.cuda.synchronize()
        took = time.perf_counter() - start
        return {"outputs": descriptions, "precision": precision, "in_block": block is not None, "seconds": took}

    def do_adopt(self, door: int, size: int) -> dict:
        """Take a block for the results through the door."""
        self.last, self.block = None, None
        with shared_memory.door(door) as way:
            self.block = shared_memory.adopt(shared_memory.take(way), size, self.device)
        return {}

    # ---- PyTorch's own error in a class ----

    def do_error(self, family: str, seed: int, cls: str, rows: int | None, apart: bool = False) -> dict:
        precision, wanted = self._reference(family, seed, rows)
        values = self._values(family, seed, rows)
        pieces = parts_by_rows(self.graph, family, values) if apart else {}
        worst = self._error_in(cls, values, wanted, pieces)
        if cls == "tf32" and self.device == "cuda" and worst["error"] < SUSPECT:
            with truncating():
                rounded = self._compared(self._run(self.model, values, wide=False), wanted, pieces)
            if worst["error"] < rounded["error"] / UNUSED:  # allowed, and not used
                worst = rounded
        return {**worst, "precision": precision}

    def _error_in(self, cls: str, values: dict[str, Any], wanted: list, apart: dict[int, list[slice]]) -> dict:
        if cls not in CLASSES:
            raise Bad("unknown_class", f"PyTorch has no precision class {cls!r}.")
        with as_class(cls, self.device):
            return self._compared(self._run(self.model, values, wide=False), wanted, apart)

    @staticmethod
    def _compared(outputs: list, wanted: list, apart: dict[int, list[slice]]) -> dict:
        from engine.evaluate.correctness.tolerance import compare_in_parts

        errors = [
            compare_in_parts(o, w, apart.get(w.shape[0], []) if w.dim() else [])
            for o, w in zip(outputs, wanted, strict=True)
            if w.is_floating_point() or w.is_complex()
        ]
        worst = max((c.error for c in errors), default=0.0)
        return {
            "error": min(worst, 1e30) if worst == worst else 1e30,
            "max_error": min(max((c.max_error for c in errors), default=0.0), 1e30),
            "unexpected": sum(c.unexpected for c in errors),
        }

    # ---- PyTorch's own time ----

    def do_baseline_open(self, name: str, seed: int, beside: str) -> dict:
        if self.device != "cuda" and not self.host_clock:
            raise Bad("no_cuda", "Times are taken on a GPU only.")
        self.baselines = []
        self._forget()
        for t in self.graph.tensors.values():
            if t.kind == "parameter" and t.name in self.own:
                get(self.model, t.path).data = self.own[t.name]
        sets, timer = argument_sets(self.graph, self.inputs, self.own, seed, self.device), clock(self.device)
        restore = self.state.restorer(self.model, self.own, sets)
        for way in filter(None, (name, beside)):
            self.baselines.append(Baseline(way, self.model, self.graph, sets, self.device, timer, restore))
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
        self.wide, self.last, self.data = None, None, None
        self._empty()

    def _empty(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.empty_cache()


def _slots(raw: dict) -> dict[str, Slot]:
    return {n: Slot.from_json(s) for n, s in raw.items()}
