"""The engine's side of a candidate: its process, its memory, and the meaning of its death.

with Candidate(layout, text) as c:      # or with a box that serves several texts in turn
    c.open(...); c.ask("call", timeout=10)
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine import sandbox
from engine.build.cache import Cache
from engine.evaluate.integrity.process import compiler, outside, own_builds, raw_builds
from engine.evaluate.integrity.process.judge import BLOCK, Judge
from engine.evaluate.integrity.process.outside import Sight
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.shared_tensors import Region, Slot, aligned, layout
from engine.sandbox.process import Sandbox, SandboxEnded, default_memory
from sol.graph import OpGraph

PRELOAD = ("torch", "engine.evaluate.integrity.process.candidate_main")
# What a text imports, and the modules that its process loads before it is needed; CuTe DSL and quack take seconds.
LATE = {
    "cutlass": ("tvm_ffi", "cutlass.cute"),
    "quack": (
        "tvm_ffi",
        "cutlass.cute",
        "quack.gemm_runtime.host",
        "quack.epilogue.frontend",
        "engine.build.cute_rehearsal",
    ),
    "flash_attn": ("flash_attn.cute.flash_fwd_sm90",),
    "triton": ("triton", "triton.language"),
}
SHARED = 4 << 20  # bytes of memory of a child that serves several problems
SHARE_SECONDS = 30.0
GUARD = 4096  # bytes of pattern before and after each tensor that a candidate reads
STATE = ("parameter", "buffer", "constant")


def late(text: str, kind: str) -> tuple[str, ...]:
    """The slow modules that this text imports and this machine has, for the process that will load it."""
    if kind != "python":
        return ()
    named = [modules for root, modules in LATE.items() if re.search(rf"^\s*(import|from)\s+{root}\b", text, re.M)]
    modules = dict.fromkeys(itertools.chain.from_iterable(named))
    return tuple(m for m in modules if importlib.util.find_spec(m.partition(".")[0]) is not None)


class CandidateEnded(Exception):
    """The candidate raised, died or hung. `code`: one of findings.CODES; `lost`: its process is unusable; `log`: the
    compiler's output for a text that does not compile."""

    def __init__(
        self, code: str, reason: str, line: int | None = None, lost: bool = False, facts: dict | None = None,
        log: str = "",
    ):  # fmt: skip
        super().__init__(reason)
        self.code, self.reason, self.line, self.lost, self.facts = code, reason, line, lost, facts or {}
        self.log = log


@dataclass(frozen=True)
class Layout:
    """The position of each tensor in the memory that judge and candidate share: `own` is read, `result` is written."""

    own: dict[str, Slot]
    own_size: int
    result: dict[str, Slot]
    result_size: int

    @staticmethod
    def of(graph: OpGraph, by_name: dict[str, Slot]) -> Layout:
        """`by_name`: the tensors that the reference shares (without constants that export created)."""
        own: dict[str, tuple[tuple[int, ...], str]] = {}
        for i, t in enumerate(t for t in graph.tensors.values() if t.name in by_name):
            own[f"guard:{i}"] = ((GUARD,), "u8")
            own[t.name] = (t.shape, t.dtype)
        own["guard:end"] = ((GUARD,), "u8")
        results = {n: (graph.tensors[n].shape, graph.tensors[n].dtype) for n in graph.outputs}
        late = {f"late:{n}": v for n, v in results.items()}
        slots, size = layout(own)
        end = 0
        for name, slot in slots.items():  # a band starts at the end of the previous tensor, not at the next alignment
            if name.startswith("guard:"):
                slots[name] = Slot(end, (slot.offset + slot.bytes - end,), "u8")
            end = slot.offset + slot.bytes
        out, out_size = layout({**results, **late})
        return Layout(slots, size, out, out_size)

    @property
    def shared_size(self) -> int:
        """Bytes of a block for both."""
        return aligned(self.own_size) + self.result_size


class Candidate:
    """One text in one confined process. `box`: a child that serves several texts of one person, by copies of itself
    (CPU only: CUDA cannot be forked); without it a fresh child of the pool is used once, which loads `late` first (see
    the function). `built`: for CUDA C++, nvcc's result once the candidate is open."""

    def __init__(
        self, where: Layout, reference: Reference, kind: str, *, box: Sandbox | None = None, local_user: bool = False,
        memory_bytes: int | None = None, cancelled: Callable[[], bool] | None = None, arch: str = "sm_90a",
        late: tuple[str, ...] = (),
    ):  # fmt: skip
        self.where, self.reference, self.kind = where, reference, kind
        self.local_user, self.arch = local_user, arch
        self.device = reference.device
        self.built: raw_builds.Library | None = None
        self.shared = False  # its memory is a block of the judge's
        self._key = ""  # of the text, for its builds
        self._forked = box is not None
        self.cancelled = cancelled
        try:
            if box is not None:
                self.box = box
                box.fork()
            else:
                self.box = sandbox.take(
                    gpu=self.device == "cuda", visible=reference.visible, local_user=local_user, preload=PRELOAD,
                    late=late, memory_bytes=memory_bytes or default_memory(), cancelled=cancelled,
                )  # fmt: skip
                self.box.to_all_cores()
            least = SHARED if box is not None else 0
            self.box.allocate("own", max(where.own_size, least))
            self.box.allocate("result", max(where.result_size, least))
        except SandboxEnded as e:
            raise CandidateEnded(_code(e.code), e.reason, lost=True) from None

    def share(self, judge: Judge) -> None:
        """Let the judge and the process, before it has loaded the text, share memory of the GPU instead of the host's:
        all values of each round cross it four times. Where that cannot be, they stay on the host. Raises JudgeLost,
        CandidateEnded."""
        if "not_shared" in judge.ask("share", size=self.where.shared_size):
            return
        fd = judge.descriptor()
        try:
            self.box.door.give(fd)
            self.ask(
                "share", SHARE_SECONDS, inside=self.box.door.inside, size=self.where.shared_size, device=self.device
            )
            self.shared = True
        except CandidateEnded as e:  # nothing of the text ran
            judge.ask("unshare")
            if e.lost:
                raise CandidateEnded("slow_start", e.reason, lost=True) from None
        except OSError:
            judge.ask("unshare")
        finally:
            os.close(fd)

    def region(self, name: str) -> dict:
        """The description of `own` or `result` for the judge."""
        size = self.where.own_size if name == "own" else self.where.result_size
        path = BLOCK if self.shared else f"/proc/{os.getpid()}/fd/{self.box.region_fd(name)}"
        return Region(path, size, self.slots(name)).to_json()

    def slots(self, name: str) -> dict[str, Slot]:
        """The tensors of `own` or `result`; in a shared block `result` lies behind `own`."""
        slots = self.where.own if name == "own" else self.where.result
        first = aligned(self.where.own_size) if self.shared and name == "result" else 0
        return {n: replace(s, offset=first + s.offset) for n, s in slots.items()}

    def look(self) -> Sight:
        """Its processes from outside, now."""
        return outside.look(self.box.members())

    def busy(self) -> float:
        """The share of one core that its processes use while nobody asks anything."""
        return outside.busy(self.box.members())

    def waited_for(self) -> float:
        """Seconds that programs have computed for which it waited."""
        return outside.waited_for(self.box.members())

    def open(
        self, source: str, timeout: float, entry: str = "", builds: own_builds.Builds | None = None
    ) -> dict:  # fmt: skip
        """Build CUDA C++ (or find the build) and load the text. `entry`: the name to call, if it is not a usual one;
        `builds`: what the compilers of the same text left in an earlier process. Returns the description from its
        process: {entry, ...}. Raises CandidateEnded."""
        self._key = own_builds.key(source, self.kind, entry)
        if self.kind == "cuda":
            self.built = build(
                source, self.arch, entry, gpu=self.device == "cuda", local_user=self.local_user,
                cancelled=self.cancelled,
            )  # fmt: skip
        library = self.built.base64 if self.built is not None else None
        graph = self.reference.problem.graph
        state = [t for t in graph.tensors.values() if t.kind in STATE and t.name in self.where.own]
        message = {
            "do": "open", "source": source, "kind": self.kind, "device": self.device, "library": library,
            "name": entry, "builds": builds.for_text(self._key) if builds is not None else None,
            "compiler": compiler.find() if self.kind == "cuda" else None,
            "order": self.reference.order, "init": self.reference.init,
            "state": [{"name": t.name, "path": t.path, "kind": t.kind} for t in state if t.kind != "constant"],
            "outputs": list(graph.outputs), "small": self.where.own_size + self.where.result_size < 8 << 20,
            "own_fd": self.box.region_fd("own"), "own_size": self.where.own_size,
            "own_slots": {n: vars(s) for n, s in self.slots("own").items()}, "shared": self.shared,
            "result_fd": self.box.region_fd("result"), "result_size": self.where.result_size,
            "result_slots": {n: vars(s) for n, s in self.slots("result").items()},
        }  # fmt: skip
        return self._ask(message, timeout)

    def ask(self, do: str, timeout: float, **arguments: Any) -> dict:
        """The answer, a dict of which the candidate may have written every part. Raises CandidateEnded."""
        return self._ask({"do": do, "with": arguments}, timeout)

    def builds(self) -> own_builds.Builds | None:
        """What the compilers of its text left in their caches, for another process of this text. None if that is
        nothing or too much. To be asked last: it may end the process."""
        try:
            return own_builds.read(self._key, self.ask("builds", own_builds.SECONDS).get("builds"))
        except CandidateEnded:
            return None

    def _ask(self, message: dict, timeout: float) -> dict:
        word = os.urandom(8).hex()
        message |= {"entry": "engine.evaluate.integrity.process.candidate_main", "word": word}
        try:
            answer = self.box.request(message, timeout=timeout, cancelled=self.cancelled)
        except SandboxEnded as e:
            raise CandidateEnded(_code(e.code), e.reason, e.line, lost=True) from None
        if isinstance(answer.get("ended"), int):
            sentence = f"its process ended with status {answer['ended']}"
            raise CandidateEnded("crashed", sentence, self.box.line_written(), lost=True)
        error, ok = answer.get("error"), answer.get("ok")
        if isinstance(error, dict):
            line = error.get("line")
            facts = answer.get("facts") if isinstance(answer.get("facts"), dict) else {}
            blocked = error.get("blocked")
            facts = {**facts, "blocked": blocked if isinstance(blocked, list) else []}
            code, reason = str(error.get("code"))[:40], str(error.get("reason"))[:1000]
            raise CandidateEnded(_code(code), reason, line if isinstance(line, int) else None, facts=facts)
        if not isinstance(ok, dict) or answer.get("word") != word:
            raise CandidateEnded("garbled", "something else than the harness answered", lost=True)
        return ok

    def close(self) -> None:
        """End the process (the copy, of a box that serves more) and everything that it started."""
        if self._forked and self.box.alive:
            try:
                self.box.reap()
                return
            except SandboxEnded:
                pass
        self.box.close()

    def __enter__(self) -> Candidate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def build(
    source: str, arch: str, entry: str = "", *, gpu: bool, local_user: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> raw_builds.Library | None:  # fmt: skip
    """Build a CUDA unit with nvcc, now or earlier, without running any of it; None if the candidate's own process must
    build it (see raw_builds). Raises CandidateEnded."""
    try:
        return raw_builds.library(source, arch, Cache(), entry, gpu=gpu, local_user=local_user, cancelled=cancelled)
    except raw_builds.NotBuilt as e:
        raise CandidateEnded(_code(e.code), e.reason, e.line, log=e.log) from None


def _code(code: str) -> str:
    """A sandbox's or a loader's code as a code of findings."""
    codes = {
        "time_limit": "time_limit", "memory_limit": "memory_limit", "process_limit": "process_limit",
        "output_limit": "output_limit", "garbled": "garbled", "not_loaded": "not_loaded", "wrong_type": "wrong_type",
        "raised": "raised", "crashed": "crashed", "exited": "crashed", "syntax_error": "not_loaded",
        "missing_package": "not_loaded", "not_compiled": "not_compiled", "no_compiler": "no_compiler",
        "no_entry": "no_entry", "asks_for_cuda": "needs_gpu", "disk_limit": "memory_limit",
        "slow_start": "slow_start", "lost": "slow_start",
    }  # fmt: skip
    if code.startswith("sandbox_"):
        return "sandbox"
    return codes.get(code, "raised")
