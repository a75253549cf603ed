"""The confined process of a candidate: loads it, calls it on the judge's values, and reports what it observed.

The engine believes nothing from here in the candidate's favour. The candidate shares this process and can change
anything in it. So the judge reads the values itself, a clock runs outside, and reports from here (types, threads,
replaced functions, kernels) only count against the candidate.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from functools import partial
from typing import Any

from engine.evaluate import shared_memory
from engine.evaluate.candidate.guarded_outputs import Guarded
from engine.evaluate.integrity.probes import results
from engine.evaluate.integrity.probes.library_names import WORK
from engine.evaluate.integrity.probes.native_calls import Native
from engine.evaluate.integrity.probes.operations import OpLog
from engine.evaluate.integrity.process import own_builds
from engine.evaluate.integrity.process.entries import LAUNCHES, Arguments, Entries, read_tables
from engine.evaluate.integrity.process.loading import Loaded, load_cuda, load_python
from engine.evaluate.integrity.process.timed_calls import TimedCalls
from engine.evaluate.integrity.process.tracing import Snapshot, children, late_threads, settle_handlers
from engine.evaluate.shared_memory import Block, NotShared
from engine.evaluate.shared_tensors import Slot, tensor_at
from engine.sandbox.watch import Watch
from engine.trace.child import stage
from engine.trace.load import Bad

SILENCED = {"libraries": WORK, "launches": LAUNCHES}
RECORDED = ("ops", "noop")
HELD = 32  # results of a burst that are stored until the judge has chosen among them
LATE_SECONDS = 0.03
MAY_START = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system")  # compilers
_candidate: Held | None = None
_block: Block | None = None  # that the judge shares with this process, before a text is loaded
_timed = TimedCalls()
_watch: Watch | None = None


def serve(message: dict) -> dict:
    """The answer with the request's word, which native code that writes into the pipe does not know."""
    return {**_answer(message), "word": message.get("word")}


def _answer(message: dict) -> dict:
    global _block, _candidate, _watch
    try:
        if message["do"] == "share" and _candidate is None:
            _block = shared_memory.through(**message["with"])
            return {"ok": {}}
        if message["do"] == "open":
            _candidate = None
            if _watch is None:
                _watch = Watch(allowed=MAY_START)
                _watch.on()
            _watch.seen.clear()
            _candidate = Held(message)
            return {"ok": {**_candidate.loaded.facts, **_candidate.facts()}}
        if message["do"] in ("clock_take", "clock_rest") or (message["do"] == "clock_serve" and _candidate is None):
            return {"ok": getattr(_timed, message["do"].removeprefix("clock_"))(**message.get("with", {}))}
        if _candidate is None:
            raise Bad("internal", "no candidate is open")
        return {"ok": getattr(_candidate, f"do_{message['do']}")(**message.get("with", {}))}
    except NotShared as e:
        return {"error": {"code": "not_shared", "reason": str(e)[:2000], "line": None}}
    except Bad as e:
        seen = [b.reason for b in _watch.seen] if _watch else []
        facts = _candidate.facts() if _candidate is not None else {}
        return {"error": {"code": e.code, "reason": e.reason[:2000], "line": e.line, "blocked": seen}, "facts": facts}


class Held:
    """A loaded candidate with its tensors. Every `do_` method is a request."""

    def __init__(self, message: dict):
        settle_handlers(message["source"])
        self.snapshot = Snapshot()
        self.native = Native()
        import mmap

        import torch

        torch.set_grad_enabled(False)
        if message["small"]:
            torch.set_num_threads(1)
        self.torch, self.device = torch, message["device"]
        self.order = message["order"]  # [{"tensor": name} | {"value": v}], the arguments of the reference's forward
        self.state = message["state"]  # [{name, path}], parameters, buffers and constants
        self.slots = {n: Slot.from_json(s) for n, s in message["own_slots"].items()}
        self.results = {n: Slot.from_json(s) for n, s in message["result_slots"].items()}
        self.outputs = message["outputs"]
        shared = _block if message.get("shared") else None
        self.own_map = shared or mmap.mmap(message["own_fd"], message["own_size"])
        self.result_map = shared or mmap.mmap(message["result_fd"], message["result_size"])
        self.views = {n: tensor_at(self.own_map, s) for n, s in self.slots.items()}
        # On a CPU the candidate computes on the judge's own memory; on a GPU on buffers with fixed addresses.
        self.tensors = self.views if self.device == "cpu" else self._copies()
        self.previous: list[Any] = []
        self.burst: list[list[Any]] = []
        self.sets: list[dict[str, Any]] = []
        self.guarded: list[Guarded] = []
        self.threads = threading.active_count()
        self.home = os.environ["HOME"]
        if message.get("builds"):
            own_builds.unpack(self.home, message["builds"])
        if "cpp_extension" in message["source"]:
            self.native.watch_extensions()
        if "cffi" in message["source"]:
            self.native.watch_cffi()
        if message["kind"] == "cuda":
            self.loaded: Loaded = load_cuda(
                message["source"], message.get("library"), message.get("compiler"), message["name"]
            )
        else:
            self.loaded = stage(
                "the text", lambda: load_python(message["source"], message.get("init"), self.device, message["name"])
            )
        self.native.watch_triton()
        self.native.watch_cute()
        self.loaded.attach(self.state, self.tensors, self.torch, self.order)

    def _copies(self) -> dict[str, Any]:
        return {n: v.to(self.device, copy=True) for n, v in self.views.items()}

    # ---- calls ----

    def _arguments(self, rows: int | None, shapes: dict[str, list[int]]) -> list[Any]:
        arguments = []
        for a in self.order:
            if "tensor" not in a:
                arguments.append(a["value"])
                continue
            x = self.tensors[a["tensor"]]
            shape = shapes.get(a["tensor"])
            arguments.append(x if shape is None else x.flatten()[: _count(shape)].view(shape))
        if not self.loaded.is_module:
            arguments += [self.tensors[s["name"]] for s in self.state]
        return arguments

    def _refresh(self) -> None:
        if self.device != "cpu":
            for name, view in self.views.items():
                results.copy(self.tensors[name], view)
        else:  # the judge wrote them from its own process, as an optimiser would write in this one
            results.written(self.tensors.values())
        self.loaded.refresh(self.tensors)
        self._sync()

    def _poison_allocator(self) -> None:
        """Fill free memory of the results' sizes with NaN, so that unwritten returned memory holds NaN."""
        blocks = []
        for name in self.outputs:
            slot = self.results[name]
            x = self.torch.empty(slot.shape, dtype=_dtype(slot.dtype), device=self.device)
            if x.is_floating_point() and x.element_size() in (2, 4, 8):
                bits = {2: self.torch.int16, 4: self.torch.int32, 8: self.torch.int64}[x.element_size()]
                x.view(bits).fill_(POISON[slot.dtype])
            blocks.append(x)
        del blocks

    def _sync(self) -> None:
        if self.device != "cpu":
            self.snapshot.real["torch.cuda.synchronize"]()

    def _run(self, arguments: list[Any], shapes: dict[str, list[int]]) -> list[Any]:
        if self.loaded.library is not None:
            self._guards(shapes)
            return self._launch(arguments)
        result = stage("the kernel", lambda: self.loaded.call(*arguments))
        leaves = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(leaves) != len(self.outputs):
            raise Bad("wrong_type", f"it returned {len(leaves)} values; the module returns {len(self.outputs)} tensors")
        for x in leaves:
            if not isinstance(x, self.torch.Tensor):
                kind = "None: end it with `return`" if x is None else f"a {type(x).__name__}, not a tensor"
                raise Bad("wrong_type", f"it returned {kind}")
        return leaves

    def _guards(self, shapes: dict[str, list[int]]) -> None:
        """Poisoned results between guard bands, for a candidate that writes into memory of ours."""
        wanted = [tuple(shapes.get(n, self.results[n].shape)) for n in self.outputs]
        if [tuple(g.tensor.shape) for g in self.guarded] != wanted:
            self.guarded = [
                Guarded(w, _dtype(self.results[n].dtype), self.device)
                for n, w in zip(self.outputs, wanted, strict=True)
            ]
        for g in self.guarded:
            g.poison()

    def _launch(self, arguments: list[Any]) -> list[Any]:
        outputs = [g.tensor for g in self.guarded]
        stage("the kernel", lambda: self.loaded.launch(arguments, outputs))
        return outputs

    def _ready(self, arguments: list[Any]) -> Any:
        """The call alone, for clocks. The harness's preparations are done before."""
        if self.loaded.library is None:
            self._poison_allocator()
            return lambda: self._run(arguments, {})
        self._guards({})
        return lambda: self._launch(arguments)

    def do_call(self, rows: int | None = None, shapes: dict | None = None, late: bool = False, probe: str = "") -> dict:
        """One call on the judge's values. The results are in the result region when this returns.

        `probe`: "ops" logs the library's routines, "noop" makes every native function do nothing, "libraries" the
        products of loaded libraries, and "launches" the launches of the CUDA runtime.
        """
        shapes = shapes or {}
        self._refresh()
        arguments = self._arguments(rows, shapes)
        self._poison_allocator()
        calls = self.native.calls
        self.native.foreign.clear()
        self.native.silent = probe == "noop"
        self.native.arguments = Arguments(self, shapes) if probe == "noop" and self.device == "cpu" else None
        around = OpLog(self.device) if probe in RECORDED else Entries(SILENCED[probe]) if probe in SILENCED else None
        run = partial(self._run, arguments, shapes)
        if self.loaded.library is not None:
            self._guards(shapes)
            run = partial(self._launch, arguments)
        self._sync()
        began = self.snapshot.real["time.perf_counter"]()
        try:
            with around if around is not None else contextlib.nullcontext():
                leaves = run()
                if probe == "launches":
                    self._sync()
        finally:
            self.native.silent = False
        (self._wait_for_the_current_stream if late else self._sync)()
        seconds = self.snapshot.real["time.perf_counter"]() - began
        reply = {
            "seconds": seconds,
            "results": [self._about(x) for x in leaves],
        }
        self._lay_down(leaves, "")
        if late:
            time.sleep(LATE_SECONDS)
            self._sync()
            self._lay_down(leaves, "late:")
        if self.device != "cpu":
            for name, view in self.views.items():
                results.copy(view, self.tensors[name])  # the judge looks whether an input was written
            self._sync()
        self.loaded.give_back(self.tensors)
        if self.guarded:
            reply["intact"] = all(g.intact() for g in self.guarded)
        reply["native"] = self.native.calls - calls
        reply["ops"] = around.ops if isinstance(around, OpLog) else []
        reply["unrecorded"] = around.unrecorded if isinstance(around, OpLog) else []
        reply["entries"] = around.counts if isinstance(around, Entries) else {}
        reply["arguments"] = len(self.native.arguments.copies) if self.native.arguments is not None else 0
        reply["foreign"] = sorted(self.native.foreign)
        self.previous = [x for x in leaves if type(x) is self.torch.Tensor] if self.loaded.library is None else []
        return {**reply, **self.facts()}

    def do_argument(self, at: int) -> dict:
        """Lay down what a native function that did nothing was given, as if it were the result."""
        self._lay_down([self.native.arguments.tensor(at)], "")
        return {}

    def _wait_for_the_current_stream(self) -> None:
        """Wait only for what a caller on the same stream may rely on."""
        if self.device != "cpu":
            self.torch.cuda.current_stream().synchronize()

    def _about(self, x: Any) -> dict:
        return results.about(x, self.tensors, self.previous)

    def _lay_down(self, leaves: list[Any], prefix: str) -> None:
        copy = self.snapshot.real["torch.Tensor.copy_"]
        for name, x in zip(self.outputs, leaves, strict=True):
            slot = self.results[prefix + name]
            want = _dtype(slot.dtype)
            x = results.bare(x)
            if x.dtype != want or x.numel() > _count(slot.shape) or x.layout != self.torch.strided:
                continue  # the judge sees in `results` that this cannot be compared
            place = tensor_at(self.result_map, slot)
            copy(place.flatten()[: x.numel()].view(x.shape), x)
        self._wait_for_the_current_stream()

    # ---- calls as during timing ----

    def do_keep(self) -> dict:
        """Keep the values in the region as one more set of a burst, in the memory that the candidate will read."""
        self.sets.append(self._copies())
        self._sync()
        return {"sets": len(self.sets)}

    def do_lay(self, turns: list[int]) -> dict:
        """The work of a burst besides its calls, for the engine's clock: write each set in turn."""
        for at in turns[:HELD]:
            for name, value in self.sets[at].items():
                results.copy(self.tensors[name], value)
            self.loaded.refresh(self.tensors)
        self._sync()
        return {}

    def do_burst(self, turns: list[int]) -> dict:
        """Call the candidate on the sets of `turns` one after the other, without checks in between: {seconds:
        [...]}."""
        self.burst, seconds = [], []
        clock = self.snapshot.real["time.perf_counter"]
        for at in turns[:HELD]:
            for name, value in self.sets[at].items():
                results.copy(self.tensors[name], value)
            self.loaded.refresh(self.tensors)
            arguments = self._arguments(None, {})
            self._sync()
            began = clock()
            leaves = self._run(arguments, {})
            self._sync()
            seconds.append(clock() - began)
            self.burst.append([results.bare(x).clone() for x in leaves] if self.loaded.library is not None else leaves)
        return {"seconds": seconds, **self.facts()}

    def do_fetch(self, at: int) -> dict:
        """Write the results of one call of the burst, which the judge chose after the burst."""
        self._lay_down(self.burst[at], "")
        return {"results": [self._about(x) for x in self.burst[at]]}

    # ---- on a GPU ----

    def do_kernels(self) -> dict:
        """Every kernel and copy of one call, as CUPTI saw it."""
        from engine.evaluate.timing.cupti import kernels

        self._refresh()
        arguments = self._arguments(None, {})
        return {"kernels": kernels(self._ready(arguments))}

    def call_into(self, slots: list[Any]) -> list[Any]:
        """One call on the present tensors, for the outside clock: code that writes into memory of ours writes into
        `slots`."""
        if self.loaded.library is None:
            return self._run(self._arguments(None, {}), {})
        outputs = list(slots)
        stage("the kernel", lambda: self.loaded.launch(self._arguments(None, {}), outputs))
        return outputs

    def do_clock_open(self, calls: int, mode: str) -> dict:
        return stage("the kernel", lambda: _timed.open(self, calls, mode))

    def do_clock_record(self) -> dict:
        return stage("the kernel", _timed.record)

    def do_clock_serve(self) -> dict:
        """Also the functions that were replaced meanwhile."""
        stage("the kernel", _timed.serve)
        return self.facts()

    # ---- observations of this process ----

    def do_builds(self) -> dict:
        """{builds: what its compilers left, packed}, for the process in which it is timed."""
        return {"builds": own_builds.pack(self.home)}

    def facts(self) -> dict:
        return {
            "patched": self.snapshot.changed() + results.shadowed(self.tensors),
            "threads": late_threads(self.threads),
            "children": children(),
            "blocked": [b.reason for b in _watch.seen] if _watch else [],
        }


POISON = {"f64": 0x7FF800000000DEAD, "f32": 0x7FC0DEAD, "f16": 0x7EAD, "bf16": 0x7FAD}


def _dtype(name: str) -> Any:
    from engine.evaluate.correctness.inputs import torch_dtype

    return torch_dtype(name)


def _count(shape: Any) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


read_tables(SILENCED["libraries"])  # once, for every process that begins as a copy of this one
