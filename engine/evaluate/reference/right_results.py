"""The correct results of a module on data of the harness, and PyTorch's own error beside them, in the module's process.

A module whose tensors take gigabytes in float64 is computed some rows at a time, if its graph allows that (row_slices):
the results are laid where they stay, and beside them only one slice is in memory. Float64 that takes too long, or for
which there was no memory, is not tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness.operands import parts_by_rows
from engine.evaluate.correctness.row_slices import row_inputs, slices
from engine.evaluate.correctness.tolerance import Comparing, Comparison, compare, compare_in_parts
from engine.evaluate.reference.module_state import get, settle
from engine.evaluate.reference.own_types import OwnTypes
from engine.evaluate.reference.pytorch_classes import (
    CLASSES,
    HALF,
    SUSPECT,
    UNUSED,
    as_class,
    strict,
    truncating,
    widening,
)  # fmt: skip
from engine.trace.load import Bad

F64_SECONDS = 3.0  # on a GPU: a reference that takes longer in f64 is computed in f32 after the first one
F64_FLOPS_ON_CPU = 6e10  # above this, the CPU computes its reference in f32: some 3 s on two cores
SLICED_BYTES = 4 << 30  # of a module's inputs and results in float64, above which it is computed in slices
SLICE_BYTES = 1 << 30  # the same of one slice
SAME = 1e-2  # relative difference between sliced and whole results, above which the module's rows depend on each other

Values = dict[str, Any]
Place = Callable[[str, tuple[int, ...], str], Any]  # the memory in which a result is to be laid


class RightResults:
    """`module`: engine.evaluate.reference.module_main.Held. Caches the last data and the last results, because errors
    in several classes are compared with them."""

    def __init__(self, module: Any):
        self.module, self.graph, self.device = module, module.graph, module.device
        self.torch = module.torch
        self.wide: Any = None  # the module in float64, created on first use
        self.narrow = False  # float64 takes too long, or more memory than there is
        self.data: tuple[tuple, Values] | None = None  # the data of the last request: the next class asks for it again
        self.last: tuple[tuple, tuple[str, list]] | None = None
        self._rows = row_inputs(self.graph)  # what to cut; None: the module is computed whole
        self.types = OwnTypes()
        self._sure = False  # sliced results were compared with whole ones

    def forget(self) -> None:
        """Drop what the last request left."""
        self.wide, self.last, self.data = None, None, None

    # ---- data ----

    def values(self, family: str, seed: int, rows: int | None) -> Values:
        """The module's inputs and state in a family of inputs."""
        key = (family, seed, rows)
        if self.data is not None and self.data[0] == key:
            return self.data[1]
        self.data = None
        own, roles = self.module.own, self.module.roles
        values = dict(own)
        if rows is not None:
            for name in self.graph.inputs:
                t = self.graph.tensors[name]
                values[name] = values[name][: data.shape_at(t, roles[name], rows)[0]] if t.shape else values[name]
        if family != "own":
            values.update(data.fill_graph(self.graph, family, seed, self.device, rows=rows))
        self.data = (key, values)
        return values

    def _share(self, rows: int | None) -> float:
        lead = self.graph.tensors[self.graph.inputs[0]].shape[:1] if self.graph.inputs else ()
        return 1.0 if rows is None or not lead or not lead[0] else min(1.0, rows / lead[0])

    def _elements(self, *kinds: str) -> int:
        return sum(t.elements for t in self.graph.tensors.values() if t.kind in kinds)

    # ---- results ----

    def results(
        self, family: str, seed: int, rows: int | None, place: Place | None = None
    ) -> tuple[str, list]:  # fmt: skip
        """(f64 | f32 | as written, outputs). `place`: where sliced results are to be laid (in f64, or in f32 if that is
        the place's type); a whole computation returns its own tensors."""
        key = (family, seed, rows)
        if self.last is not None and self.last[0] == key:
            return self.last[1]
        self.last = None
        values = self.values(family, seed, rows)
        parts = self._parts(rows)
        with strict():
            precision, outputs = self._sliced(values, parts, place) if parts else self._whole(values, rows)
        self._check_rows(outputs, rows)
        if precision == "f32" and any(t.dtype in ("f16", "bf16") for t in self.graph.tensors.values()):
            precision = "as written"
        self.last = (key, (precision, outputs))
        return self.last[1]

    def _precision(self, elements: float) -> str:
        """f64 if memory and, on the CPU, time allow; else f32. `elements`: of what is computed at a time."""
        state = self._elements("parameter", "buffer")
        free = self.module.memory
        if self.device == "cuda":
            free = self.torch.cuda.mem_get_info()[0] + (self.wide is not None) * 8 * state
        return "f32" if self.narrow or 8 * (state + elements) > 0.6 * free else "f64"

    def _whole(self, values: Values, rows: int | None) -> tuple[str, list]:
        share = self._share(rows)
        precision = self._precision(self._elements("input", "intermediate") * share)
        if self.device == "cpu" and data.contraction_flops(self.graph) * share > F64_FLOPS_ON_CPU:
            precision = "f32"
        if precision == "f64" and (outputs := self._or_narrow(lambda: self._timed(values))) is not None:
            return "f64", outputs
        return "f32", self.module.run(self.module.model, values, wide=False)

    def _or_narrow(self, work: Callable[[], Any]) -> Any:
        """The result in float64; None where there is too little memory for it, or it has an impossible shape, which
        fails again in the module's own types."""
        try:
            if self.wide is None:
                self.wide = self._widen()
            return work()
        except Bad as e:
            if e.code in ("time_limit", "exited") or e.code.startswith("sandbox"):
                raise
            self.wide, self.narrow = None, self.narrow or _no_memory(e)
            if self.device == "cuda":
                self.torch.cuda.empty_cache()
        return None

    def _timed(self, values: Values) -> list:
        """Like `_in_float64`. A convolution of gigabytes takes PyTorch 15 s in float64 on an H200, and all sessions of
        the GPU wait for it; in strict float32 its error is a thousandth of what the classes allow."""
        outputs, seconds = self._clocked(lambda: self._in_float64(values))
        if self.device == "cuda":
            self.narrow = seconds > F64_SECONDS
            self.wide = None if self.narrow else self.wide
        return outputs

    def _clocked(self, work: Callable[[], Any]) -> tuple[Any, float]:
        began = time.perf_counter()
        result = work()
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return result, time.perf_counter() - began

    def _in_float64(self, values: Values) -> list:
        """The wide module's outputs. An element type that the text names becomes float64: a cast to float16 would
        round the reference, and PyTorch would have no error beside it."""
        try:
            outputs = self._run_wide(values)
            if not any(o.is_floating_point() and o.dtype != self.torch.float64 for o in outputs):
                return outputs
        except Bad as e:
            if e.code in ("time_limit", "exited") or e.code.startswith("sandbox") or _no_memory(e):
                raise
        if not self.types.noted_once:  # its own types cannot be noted while they are widened
            self._note_types(values)
        with widening():
            return self._run_wide(values)

    def _run_wide(self, values: Values) -> list:
        """The wide module's outputs, with the numbers of the module's own types."""
        with self.types.used():
            outputs = self.module.run(self.wide, values, wide=True)
        if not self.types.unknown:
            return outputs
        self._note_types(values)
        with self.types.used():
            return self.module.run(self.wide, values, wide=True)

    def _note_types(self, values: Values) -> None:
        with self.types.noted():
            self.module.run(self.module.model, values, wide=False)

    def _widen(self) -> Any:
        model = self.module.build().double()
        if self.graph.settled:
            with self.types.used():
                settle(model, self.module.inputs, self.torch.float64)
        for t in self.graph.tensors.values():
            if t.kind in ("buffer", "constant") and t.name in self.module.own:
                own = self.module.own[t.name]
                tensor = get(model, t.path) if own.is_floating_point() else None
                if tensor is not None:
                    tensor.data.copy_(own)
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

    # ---- in slices ----

    def _parts(self, rows: int | None) -> list[slice]:
        """The rows to compute at a time; [] for a module that is computed whole."""
        size = 8 * self._elements("input", "intermediate")
        if rows is not None or self._rows is None or size <= SLICED_BYTES:
            return []
        lead = self.graph.tensors[self.graph.inputs[0]].shape[0]
        parts = slices(lead, int(lead * SLICE_BYTES / size))
        return parts if len(parts) > 1 else []

    def _cut(self, values: Values, part: slice) -> Values:
        return {n: v[part] if n in self._rows else v for n, v in values.items()}

    def _sliced(self, values: Values, parts: list[slice], place: Place | None) -> tuple[str, list]:
        precision = self._precision(self._elements("input", "intermediate") / len(parts))
        try:
            outputs = self._or_narrow(lambda: self._laid(values, parts, place, True)) if precision == "f64" else None
            if outputs is None:
                precision, outputs = "f32", self._laid(values, parts, place, False)
            self._sure = self._sure or self._like_whole(values, outputs)
        except Bad as e:
            if self._sure or _no_memory(e) or e.code in ("time_limit", "exited") or e.code.startswith("sandbox"):
                raise
        if self._sure:
            return precision, outputs
        self._rows = None
        return self._whole(values, None)

    def _laid(self, values: Values, parts: list[slice], place: Place | None, wide: bool) -> list | None:
        """The outputs, slice by slice. None if the first slices show that all of them take too long in float64."""
        outputs: list = []
        for number, part in enumerate(parts):
            cut = self._cut(values, part)
            run = self._in_float64 if wide else partial(self.module.run, self.module.model, wide=False)
            results, seconds = self._clocked(partial(run, values=cut))
            if not outputs:
                outputs = [self._room(n, r, place) for n, r in zip(self.graph.outputs, results, strict=True)]
            for out, result in zip(outputs, results, strict=True):
                if out[part].shape != result.shape:
                    raise Bad("rows_refused", f"The module does not compute on {len(out[part])} rows alone.")
                out[part].copy_(result)
            # The first one also loads libraries.
            if wide and self.device == "cuda" and number == 1 and seconds * len(parts) > F64_SECONDS:
                self.wide, self.narrow = None, True
                return None
        return outputs

    def _room(self, name: str, first: Any, place: Place | None) -> Any:
        """Memory for a whole output, of which `first` are some rows."""
        shape = self.graph.tensors[name].shape
        kind = "f64" if first.dtype == self.torch.float64 else "f32" if first.is_floating_point() else ""
        if place is not None:
            return place(name, shape, kind or self.graph.tensors[name].dtype)
        narrow = kind and self.module.result_slots[name].dtype == "f32"
        dtype = self.torch.float32 if narrow else first.dtype
        return self.torch.empty(shape, dtype=dtype, device=self.device)

    def _like_whole(self, values: Values, outputs: list) -> bool:
        """Compare sliced results with those of the module as it is called, once: its text may count its rows."""
        try:
            whole = self.module.run(self.module.model, values, wide=False, copies=False)
        except Bad as e:
            if _no_memory(e):
                return True  # it cannot run whole, so nothing else can be compared
            raise
        return all(
            tuple(w.shape) == tuple(o.shape) and compare(w, o).error < SAME
            for w, o in zip(whole, outputs, strict=True)
            if w.is_floating_point()
        )

    # ---- PyTorch's own error in a class ----

    def error(self, family: str, seed: int, cls: str, rows: int | None, apart: bool) -> dict:
        """{error, max_error, unexpected, precision} of the module in a class, the worst of its outputs."""
        precision, wanted = self.results(family, seed, rows)
        values = self.values(family, seed, rows)
        pieces = parts_by_rows(self.graph, family, values) if apart else {}
        worst = self._error_in(cls, values, wanted, rows, pieces)
        if cls == "tf32" and self.device == "cuda" and worst["error"] < SUSPECT:
            with truncating():
                rounded = self._compared(values, wanted, rows, pieces)
            if worst["error"] < rounded["error"] / UNUSED:  # allowed, and not used
                worst = rounded
        return {**worst, "precision": precision}

    def _error_in(
        self, cls: str, values: Values, wanted: list, rows: int | None, pieces: dict[int, list[slice]]
    ) -> dict:  # fmt: skip
        if cls not in CLASSES:
            raise Bad("unknown_class", f"PyTorch has no precision class {cls!r}.")
        with as_class(cls, self.device):
            return self._compared(values, wanted, rows, pieces)

    def _compared(self, values: Values, wanted: list, rows: int | None, pieces: dict[int, list[slice]]) -> dict:
        """Run the module as it is called now, whole or in the slices of its reference, and compare."""
        parts = [] if any(pieces.values()) else self._parts(rows)
        if parts:
            errors = self._compared_in_slices(values, wanted, parts)
        else:
            errors = [
                compare_in_parts(o, w, pieces.get(w.shape[0], []) if w.dim() else [])
                for o, w in zip(self._returned(values), wanted, strict=True)
            ]
        worst = max((c.error for c in errors), default=0.0)
        return {
            "error": min(worst, 1e30) if worst == worst else 1e30,
            "max_error": min(max((c.max_error for c in errors), default=0.0), 1e30),
            "unexpected": sum(c.unexpected for c in errors),
        }

    def _returned(self, values: Values) -> list:
        """The outputs of the module as it is called now, in half precision where it returns that: autocast leaves a
        softmax or a norm in float32, while a program must store what the module's callers get."""
        outputs = self.module.run(self.module.model, values, wide=False)
        returned = [HALF.get(self.graph.tensors[name].dtype) for name in self.graph.outputs]
        return [o.to(getattr(self.torch, half)) if half else o for o, half in zip(outputs, returned, strict=True)]

    def _compared_in_slices(self, values: Values, wanted: list, parts: list[slice]) -> list[Comparison]:
        each = [Comparing() for _ in wanted]
        for part in parts:
            outputs = self._returned(self._cut(values, part))
            for comparing, out, want in zip(each, outputs, wanted, strict=True):
                comparing.add(out, want[part])
        return [c.result() for c in each]


def _no_memory(e: Bad) -> bool:
    return e.code in ("gpu_memory", "memory_limit")


__all__ = ["RightResults"]
