"""One confined Python process, from the engine's side: start, request, shared memory, end. It cannot hang the engine.

Every reply is bounded and must be JSON. A thread of the engine watches resident memory, the number of processes and
the printed bytes, and ends the whole process tree at a limit. A process that has run one person's text never runs
another person's.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine import cores, descriptors
from engine.devices import SessionRefused
from engine.door import Door
from engine.sandbox import channel, confine, forkserver, tree
from engine.sandbox.ended import SandboxEnded, of_status
from engine.sandbox.forkserver import launch
from engine.sandbox.holdings import POLL, Holdings, over_memory
from engine.sandbox.patience import Patience
from engine.sandbox.traces import MAX_PRINTED, PATIENT_SECONDS, STACK_SECONDS, Printed, Stacks

REGIONS = ("own", "result")  # shared memory that each child inherits; its size is set later
IDLE_LOOK = 0.3  # seconds between two looks at a child that nobody asks anything now
SPARE_LOOK = 2.0  # and at one that was never asked anything
SLOW = "the sandbox was not ready within {:g} s, because this machine is busy"

# The kernel ends a sandbox when the *thread* that started it ends (bwrap --die-with-parent), so one thread that lives
# as long as the engine starts all of them.
_starter = ThreadPoolExecutor(1, thread_name_prefix="sandbox-start")


def default_memory() -> int:
    """Bytes of resident memory for one child: half of the machine's, at most 64 GiB."""
    return min(64 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


class Sandbox:
    """A confined child that answers requests. `gpu`: it gets the NVIDIA devices and must see CUDA; `visible`: which of
    several GPUs, as CUDA_VISIBLE_DEVICES names it ("": those that this process sees).

    `memory_bytes` bounds the resident memory of all its processes. It imports `preload` and `late` before it reports
    ready; `late` is for few texts and may start CUDA, so it has a fork server of its own. `local_user`: the text is of
    the person who runs the engine: a weak sandbox is enough, else SessionRefused("sandbox_missing"). `forks`: allowed.
    """

    def __init__(
        self,
        *,
        gpu: bool = False,
        visible: str = "",
        memory_bytes: int | None = None,
        preload: tuple[str, ...] = ("torch",),
        late: tuple[str, ...] = (),
        local_user: bool = False,
        cpu_seconds: int | None = None,
        forks: bool = True,
    ):
        self.gpu, self.visible, self.preload, self.late = gpu, visible, preload, late
        self.local_user, self.forks = local_user, forks
        self.memory_bytes = memory_bytes or default_memory()
        self.cpu_seconds = cpu_seconds or 3600 * (os.cpu_count() or 1)  # per process, over all its threads
        self.mode = ""
        self._process: subprocess.Popen | None = None
        self._started: launch.Started | None = None
        self._ended: tuple[str, str, str | None, int | None] | None = None
        self._regions: dict[str, int] = {}
        self._maps: dict[str, mmap.mmap] = {}
        self._printed = Printed()
        self._buffer, self._searched = bytearray(), 0
        self._inner = 0  # process id, inside, of the process that answers
        self._first = 0  # process id of the child itself, while a copy answers
        self._base: set[int] = set()  # the processes of the sandbox without a copy
        self._uid: int | None = None
        self._gone = self._asked = False  # every process has been killed; a request is under way
        self._patience: Patience | None = None  # with the request under way
        self._holdings: Holdings | None = None
        self._lock = threading.Lock()

    @staticmethod
    def strength(gpu: bool = False) -> str:
        """`full`, or `weak: <why, and how to fix it>`. The first call takes about 0.1 s: it starts a sandbox."""
        return confine.strength(gpu)

    def start(self, timeout: float = 60.0, wait: bool = True) -> Sandbox:
        """Start the child; with `wait`, return after it has loaded `preload`."""
        strong = confine.strength(self.gpu)
        if strong != "full" and not self.local_user:
            raise SessionRefused(
                "sandbox_missing",
                f"This engine does not run other people's code, because its sandbox is {strong}. "
                "The person who runs the engine can allow their own code with --local-user.",
            )
        self.mode = confine.choose(self.gpu)[0]
        launch.prepare(self.mode, self.gpu, self.preload, self.late, self.forks)
        try:
            _starter.submit(self._start).result()
        except OSError as e:
            raise SandboxEnded("crashed", f"the sandbox could not be started: {e}") from None
        if wait:
            self.wait_ready(timeout)
        return self

    def _start(self) -> None:
        request_r, self._request = os.pipe()
        self._reply, reply_w = os.pipe()
        printed_r, printed_w = os.pipe()
        for name in REGIONS:
            self._regions[name] = os.memfd_create(f"ucutlass-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._stacks, self.door = Stacks(), Door()
        inherited = {"requests": request_r, "replies": reply_w, "stacks": self._stacks.fd, "door": self.door.inside}
        arguments = [str(inherited[name]) for name in ("requests", "replies", "stacks")]
        arguments += [str(self.cpu_seconds), "gpu" if self.gpu else "cpu", *self.preload, *self.late]
        try:
            self._started = launch.start(
                self.mode, arguments, self.preload, {**inherited, **self._regions}, printed_w, gpu=self.gpu,
                visible=self.visible, forks=self.forks, late=self.late,
            )  # fmt: skip
        except BaseException:
            for fd in (self._request, self._reply, printed_r, self._stacks.fd, *self._regions.values()):
                os.close(fd)
            raise
        finally:
            self.door.started()
            for fd in (request_r, reply_w, printed_w):
                os.close(fd)
        self._process, self._uid = self._started.process, self._started.uid
        self._holdings = Holdings(self._process.pid, self._uid, self.gpu)
        os.set_blocking(self._request, False)
        os.set_blocking(self._reply, False)
        os.set_blocking(printed_r, False)
        self._watcher = threading.Thread(target=self._watch, args=(printed_r,), daemon=True, name="sandbox-watch")
        self._watcher.start()

    def wait_ready(self, timeout: float = 60.0, cancelled: Callable[[], bool] | None = None) -> None:
        """Block until the child has loaded `preload`. Raises SandboxEnded, with the code slow_start after `timeout`
        seconds: only our own code runs until then, so the machine is slow."""
        if self._inner:
            return
        answer = self._receive(time.monotonic() + timeout, cancelled, SLOW.format(timeout))
        if answer.get("ready") is not True:
            raise self._fail("no_cuda", str(answer.get("reason", "the sandboxed process is not ready"))[:300])
        if outside := self._started.enter():
            raise self._fail("crashed", f"could not be started ({outside})")
        self._inner = answer.get("pid") if isinstance(answer.get("pid"), int) else 1
        self._holdings.enter(self._inner, self.memory_bytes)

    # ---- one text after the other ----

    def fork(self, timeout: float = 20.0) -> None:
        """Let a copy of the child answer until `reap`. It serves one text of many by the same person, so that torch is
        loaded once for all. Raises SandboxEnded."""
        self.wait_ready(timeout)
        if not self._base:
            self._base = set(tree.descendants(self._process.pid, self._uid))
            self._first = self._inner
        answer = self.request({"fork": True}, timeout=timeout)
        if not isinstance(answer.get("forked"), int):
            raise self._fail("garbled", "did not fork", "")
        self._inner = answer["forked"]

    def reap(self, timeout: float = 20.0) -> None:
        """End the copy and its processes, and return to the child as it was before `fork`. Raises SandboxEnded if that
        is not possible; the sandbox cannot be used after that."""
        if self._inner == self._first:
            return
        end = time.monotonic() + timeout
        while others := [p for p in self.members() if tree.exists(p)]:
            for pid in others:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > end:
                raise self._fail("process_limit", "could not be ended", "processes")
            time.sleep(0.002)
        self._inner = self._first
        # The dead copy cannot know this word, so replies before it are the copy's, or the report of its end.
        word = os.urandom(8).hex()
        late = "did not come back after its copy ended"
        answer = self.request({"back": word}, timeout=timeout)
        while answer.get("back") != word:
            answer = self._receive(end, None, late)
        if self._buffer:
            raise self._fail("garbled", "left unread output", "copy")
        self._printed.clear()

    def members(self) -> list[int]:
        """The ids of its processes, or of the copy's while one answers."""
        return [p for p in tree.descendants(self._process.pid, self._uid) if p not in self._base]

    def to_all_cores(self, quiet: bool = True) -> None:
        """It is timed from now on (engine.cores); without `quiet`, it leaves the quiet cores."""
        if self.alive:  # with a GPU's lane, so a recent table is better than reading a new one
            cores.everywhere(tree.glance(self._process.pid, self._uid, tree.RECENT)[0], quiet)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._ended is None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The beginning and the end of what the child printed."""
        return self._printed.text

    def allocate(self, region: str, size: int) -> mmap.mmap:
        """Set the size of a shared region (once) and map it here. The child cannot grow or shrink it."""
        fd = self._regions[region]
        if region not in self._maps:
            os.ftruncate(fd, max(size, mmap.PAGESIZE))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
            self._maps[region] = mmap.mmap(fd, max(size, mmap.PAGESIZE))
        elif len(self._maps[region]) < size:
            raise ValueError(f"region {region} is {len(self._maps[region])} bytes and cannot grow to {size}")
        return self._maps[region]

    def region_fd(self, region: str) -> int:
        """The descriptor of a region, the same number here and in the child."""
        return self._regions[region]

    def request(
        self, message: dict, *, timeout: float, cancelled: Callable[[], bool] | None = None,
        patience: float | None = None,
    ) -> dict:  # fmt: skip
        """The child's answer to one message. Raises SandboxEnded; the sandbox cannot be used after that. `patience`:
        CPU seconds after which the child's processes get a lower priority, because they may never end."""
        deadline = time.monotonic() + timeout
        self.wait_ready(timeout, cancelled)
        self._patience = None if patience is None else Patience(self._process.pid, self._uid, patience)
        self._asked = True
        if not self.gpu:
            message = {**message, "resident_limit": self.memory_bytes}
        view = memoryview(channel.encode(message, channel.MAX_REQUEST))
        while view:
            try:
                view = view[os.write(self._request, view) :]
            except BlockingIOError:
                self._pause(deadline, cancelled, f"did not answer within {timeout:g} s", write=True)
            except OSError:
                raise self._fail(*self._why_gone()) from None
        return self._receive(deadline, cancelled, f"did not end within {timeout:g} s")

    def _receive(self, deadline: float, cancelled: Callable[[], bool] | None, late: str) -> dict:
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            try:
                data = os.read(self._reply, 1 << 20)
            except BlockingIOError:
                self._pause(deadline, cancelled, late)
                continue
            except OSError:
                data = b""
            if not data:
                raise self._fail(*self._why_gone())
            self._buffer += data
            if len(self._buffer) > channel.MAX_REPLY:
                raise self._fail("garbled", "is longer than the engine reads", "answer")
        self._searched, self._asked, line = 0, False, bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if self._ended is not None:
            raise self._error()
        try:
            return channel.decode_reply(line)
        except channel.Garbled as e:
            raise self._fail("garbled", f"could not be read ({e})", "answer") from None

    def _pause(self, deadline: float, cancelled: Callable[[], bool] | None, late: str, write: bool = False) -> None:
        if time.monotonic() > deadline:
            self._finish("time_limit" if self._inner else "slow_start", late, line=self._current_line(PATIENT_SECONDS))
        elif cancelled is not None and cancelled():
            self._finish("cancelled", "stopped")
        elif self._patience is not None:
            self._patience.look()
        if self._ended is not None:
            raise self._error()
        wait, file = (descriptors.writable, self._request) if write else (descriptors.readable, self._reply)
        wait(file, seconds=POLL)

    def _fail(self, *why: Any) -> SandboxEnded:
        """End the child and return the error that says why."""
        self._finish(*why)
        return self._error()

    def _error(self) -> SandboxEnded:
        self._watcher.join(timeout=PATIENT_SECONDS + 1.0)  # it may ask for the line
        code, what, part, line = self._ended or ("exited", "ended", "process", None)
        return SandboxEnded(code, what, line if line is not None else self._stacks.line(), self.log, part)

    def _why_gone(self) -> tuple[str, str, str | None]:
        """Code, what happened, and the part that it happened to, as in SandboxEnded."""
        if self._ended is not None:
            return self._ended[:3]
        try:
            ended = of_status(self._started.status())
            return ("memory_limit", over_memory(self.memory_bytes), "") if self._holdings.exceeded else ended
        except subprocess.TimeoutExpired:
            return "exited", "closed its side of the pipe", ""
        except forkserver.Unable as e:
            return "lost", str(e), None

    # ---- the watcher ----

    def _watch(self, printed: int) -> None:
        process, next_look = self._process, 0.0
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    while data := os.read(printed, 1 << 16):
                        self._printed.add(data)
                        if self._printed.too_much:
                            limit = f"printed more than {MAX_PRINTED >> 20} MB"
                            self._finish("output_limit", limit, "", self._current_line())
                            break
                    else:
                        return  # end of file: every process that could print is gone
                now = time.monotonic()
                if now >= next_look and self._ended is None and process is not None and process.poll() is None:
                    self._look()
                    # A child that nobody asks anything is checked less often: its code should not run.
                    next_look = now + (POLL if self._asked else IDLE_LOOK if self._inner else SPARE_LOOK)
                if self._ended is not None and process is not None and process.poll() is not None:
                    return
                descriptors.readable(printed, seconds=POLL if self._asked else IDLE_LOOK)
        except OSError:
            return
        except Exception:
            self._finish("lost", "could not be watched", None)
            raise
        finally:
            os.close(printed)

    def _look(self) -> None:
        if (excess := self._holdings.excess(self.memory_bytes)) is not None:
            with self._lock:  # the signal that asks for the stack may end a sleep, so no answer counts from here on
                self._ended = self._ended or (*excess, "", None)
            patient = excess[0] == "process_limit"  # hundreds of processes want the same cores
            self._finish(*excess, "", self._current_line(PATIENT_SECONDS if patient else STACK_SECONDS))

    def _current_line(self, seconds: float = STACK_SECONDS) -> int | None:
        """The line of the pasted text that the child runs now, or None."""
        if not self._inner or self._process is None or self._process.poll() is not None:
            return None
        return self._stacks.line_now(tree.descendants(self._process.pid, self._uid), self._inner, seconds)

    def line_written(self) -> int | None:
        """The pasted line in the last stack that the child or one of its processes wrote: the line of a crash."""
        return self._stacks.line()

    # ---- the end ----

    def _finish(self, code: str, what: str, part: str | None = None, line: int | None = None) -> None:
        """End the child for the reason that SandboxEnded gives."""
        with self._lock:
            self._ended = self._ended or (code, what, part, line)
        self._kill()

    def _kill(self) -> None:
        """Kill every process of the sandbox and wait until they have ended. Once only: afterwards the kernel may give
        their process ids and their user to others."""
        process = self._process
        if process is None or self._gone:
            return
        members = tree.kill(process.pid if process.poll() is None else None, self._uid)
        if self.mode == "none":
            tree.sweep(process.pid, self._uid, f"HOME={self._started.scratch}\0".encode())
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5.0)
            self._gone = True
        tree.wait(members, 5.0)

    def close(self) -> None:
        """End the child and free its resources. Safe to call twice; mapped regions stay readable until freed."""
        if self._process is None:
            return
        self._finish("cancelled", "closed")
        if threading.current_thread() is not self._watcher:
            self._watcher.join(timeout=2.0)
        self._process = None
        for part in (self._holdings, self._stacks, self.door, self._started):
            part.close()
        for fd in (self._request, self._reply, *self._regions.values()):
            with contextlib.suppress(OSError):
                os.close(fd)
        for region in self._maps.values():
            with contextlib.suppress(BufferError):  # an array still uses it and frees it later
                region.close()
        self._maps.clear()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
