"""The timed side of the outside clock: n calls as a chain of CUDA graphs, run whenever the judge's page says go.

Runs in the candidate's process and in that of the module, which is timed in the same way. What it reports about itself
counts only against it: the judge reads the results, and its own clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Sequence
from typing import Any

from engine.evaluate import cuda_driver
from engine.evaluate.shared_memory import Block
from engine.evaluate.shared_tensors import Slot
from engine.evaluate.timing.outside.plan import WORKSPACE, Page, Plan, Results

PAUSE = 0.0003  # seconds between two looks at the page while no batch comes
GO_SECONDS = 60.0
WARM_CALLS = 3
GRAPH, CALLS = "graph", "calls"
_BIG = 2 << 20  # alignment of what PyTorch's allocator asks for

Call = Callable[[int, list[Any]], Sequence[Any]]


class Runner:
    """`call(at, slots)` runs the code once on the inputs of a slot and returns its results, which may be `slots`,
    memory for them. `block`, `page`: shared with the judge."""

    def __init__(self, block: Block, page: Page, plan: Plan, device: str):
        import torch

        self.torch, self.block, self.page, self.plan, self.device = torch, block, page, plan, device
        self._results = Results(plan)
        self._one = torch.zeros(1, device=device)
        self._run: Callable[[], None] = self._touch
        self._chain: cuda_driver.Chain | None = None
        self._alive: list[Any] = []  # what the chain refers to

    def inputs(self, at: int) -> dict[str, Any]:
        """The tensors of a slot, by their names in the graph."""
        return {n: self.block.tensor(s) for n, s in self.plan.input_slots(at).items()}

    def open(self, call: Call, calls: int, mode: str = GRAPH) -> dict[str, Any]:
        """Prepare batches of `calls` calls. {mode: graph | calls, why: it is not a graph, results: [[offset of each
        result] of each call]}."""
        self._close()
        with self._stream():  # libraries and compilers do here what they may not do while a graph is captured
            for at in range(min(calls, WARM_CALLS)):
                call(at, self._slots())
                self._results.clear()
        self._sync()
        why = "this device has no graphs"
        if mode == GRAPH and self.device == "cuda":
            for own in (True, False):
                try:
                    return {"mode": GRAPH, "why": "", "results": self._capture(call, calls, own)}
                except Exception as e:
                    why = f"{type(e).__name__}: {getattr(e, 'reason', e)}"[:300]
                    self._close()
        return {"mode": CALLS, "why": why, "results": self._loop(call, calls)}

    def rest(self, long: bool) -> None:
        """From now on a batch is one launch that does next to nothing; with `long`, a millisecond of writes, after
        which the GPU's caches and contexts are as after calls."""
        self._close()
        self._run = self._write if long else self._touch

    def serve(self) -> None:
        """Run a batch for each number on the page, until the engine stops."""
        page = self.page
        gc.collect()
        gc.disable()
        try:
            number = 0
            while (number := page.idle(page.ARM, number, PAUSE)) is not None:
                page[page.READY] = number
                if not page.wait(page.GO, number, GO_SECONDS):
                    break
                self.batch()
                page[page.DONE] = number
        finally:
            gc.enable()

    def batch(self) -> None:
        """Run one, and wait for it."""
        self._run()
        self._sync()

    def close(self) -> None:
        self._close()
        self.block = None

    # ---- inside ----

    def _close(self) -> None:
        self._run = self._touch
        if self._chain is not None:
            self._chain.close()
            self._chain = None
        self._alive = []
        self._results.clear()

    def _sync(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def _touch(self) -> None:
        self._one.fill_(1.0)

    def _write(self) -> None:
        size, times = (WORKSPACE, 20) if self.device == "cuda" else (1 << 16, 1)
        memory = self.block.bytes()[self.plan.first_result :][:size]
        for _ in range(times):
            memory.fill_(0)

    def _stream(self) -> contextlib.AbstractContextManager:
        return self.torch.cuda.stream(self.torch.cuda.Stream()) if self.device == "cuda" else contextlib.nullcontext()

    def _slots(self) -> list[Any]:
        """Fresh memory for the results of one call. Raises MemoryError."""
        return [self.block.tensor(Slot(self._taken(o.bytes), o.shape, o.dtype)) for o in self.plan.outputs]

    def _taken(self, size: int, align: int = 256) -> int:
        at = self._results.take(size, align)
        if at is None:
            raise MemoryError("the memory for results is full")
        return at

    def _at(self, x: Any) -> int:
        """The offset of a tensor in the block; negative or too large if it lies elsewhere."""
        return self.torch.Tensor.data_ptr(x) - self.block.bytes().data_ptr()

    def _in_place(self, x: Any, slot: Slot, seen: set[int]) -> bool:
        at = self._at(x)
        inside = self.plan.first_result <= at and at + slot.bytes <= self.plan.size
        whole = type(x) is self.torch.Tensor and self.torch.Tensor.is_contiguous(x)  # not by attributes of its own
        return whole and inside and at % 8 == 0 and at not in seen

    def _placed(self, leaves: Sequence[Any], seen: set[int]) -> list[int]:
        """The offsets of one call's results. A result that does not lie in memory of its own in the block is copied
        there, in the call's time."""
        offsets = []
        for x, slot in zip(leaves, self.plan.outputs, strict=True):
            if not self._in_place(x, slot, seen):
                x = self.block.tensor(Slot(self._taken(slot.bytes), slot.shape, slot.dtype)).copy_(x)
            offsets.append(self._at(x))
            seen.add(offsets[-1])
            self._alive.append(x)  # or the allocator would give its memory to the next call
        return offsets

    def _loop(self, call: Call, calls: int) -> list[list[int]]:
        """Batches of calls from Python, one after the other, whose results are copied."""
        slots = [self._slots() for _ in range(calls)]

        def run() -> None:
            for at, outs in enumerate(slots):
                for out, x in zip(outs, call(at, outs), strict=True):
                    if x is not out:
                        self.torch.Tensor.copy_(out, x)
                self._sync()  # or a call could end beside the next one, on a stream of its own

        self._run = run
        return [[self._at(out) for out in outs] for outs in slots]

    def _capture(self, call: Call, calls: int, own: bool) -> list[list[int]]:
        """A graph of each call, in a chain: no call begins before the one before it has ended on all its streams, and
        work that no stream waits for ends the capture with an error. `own`: with the allocator's memory in the block,
        so that results need no copy."""
        torch, seen, offsets, graphs = self.torch, set(), [], []
        pool = self._memory_pool() if own else torch.cuda.graph_pool_handle()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self._alive.append(graphs)
        with self._stream():
            for at in range(calls):
                graphs.append(torch.cuda.CUDAGraph(keep_graph=True))
                graphs[-1].capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    offsets.append(self._placed(call(at, _Lazy(self._slots)), seen))
                finally:
                    self._end_capture(graphs[-1], pool)
        self._chain = cuda_driver.Chain([graph.raw_cuda_graph() for graph in graphs])
        self._chain.launch()  # uploads it
        torch.cuda.synchronize()
        self._run = self._chain.launch
        return offsets

    def _end_capture(self, graph: Any, pool: Any) -> None:
        try:
            graph.capture_end()
        except Exception:  # PyTorch's allocator would take the capture for one that goes on
            with contextlib.suppress(Exception):
                self.torch._C._cuda_endAllocateToPool(self.torch.cuda.current_device(), pool)
            raise

    def _memory_pool(self) -> Any:
        """The identity of a pool of PyTorch's allocator whose memory is the block's."""
        torch, base = self.torch, self.block.bytes().data_ptr()

        def allocate(size: int, device: int, stream: int) -> int:
            at = self._results.take(size, _BIG)
            return 0 if at is None else base + at

        get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(allocate)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(_nothing)
        address = [ctypes.cast(f, ctypes.c_void_p).value for f in (get, free)]
        allocator = torch._C._cuda_customAllocator(*address)
        pool = torch.cuda.MemPool(allocator)
        _POOLS.append((pool, allocator, get, free))
        return pool.id


_POOLS: list[Any] = []  # PyTorch may call their functions until the process ends


def _nothing(*_: Any) -> None:
    return None


class _Lazy(Sequence):
    """Memory for results that is taken at its first use: most code brings its own."""

    def __init__(self, make: Callable[[], list[Any]]):
        self._make, self._slots = make, None

    def _all(self) -> list[Any]:
        if self._slots is None:
            self._slots = self._make()
        return self._slots

    def __getitem__(self, at: int) -> Any:
        return self._all()[at]

    def __len__(self) -> int:
        return len(self._all())
