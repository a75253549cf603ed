"""One confined Python process as the engine sees it: start, ask, share memory, end. Nothing it does can hang us.

Every reply is bounded and must be JSON; a thread of ours watches resident memory, the number of processes and the
volume of what is printed, and ends the whole process tree at a limit. A process that has run one person's pasted
text is never given another's.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from engine.devices import SessionRefused
from engine.sandbox import channel, confine, tree
from engine.sandbox.traces import MAX_PRINTED, Printed, Stacks

REGIONS = ("own", "result")  # shared memory that each child inherits, sized when it is known how large
MAX_PROCESSES = 600  # processes and threads of one sandbox, where RLIMIT_NPROC does not bind
FORKS = 6  # bubblewrap is two or three of them, an honest module one
POLL = 0.05

# The kernel ends a sandbox when the *thread* that started it ends (bwrap --die-with-parent), so all are started by
# one thread that lives as long as the engine.
_starter = ThreadPoolExecutor(1, thread_name_prefix="sandbox-start")


class SandboxEnded(Exception):
    """The child is gone. `code`: time_limit | memory_limit | process_limit | output_limit | cancelled | exited |
    crashed | garbled | no_cuda. `reason`: for a person; `line` of the pasted text where known; `log`: last words."""

    def __init__(self, code: str, reason: str, line: int | None = None, log: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.line, self.log = code, reason, line, log


def default_memory() -> int:
    """Bytes of resident memory for one child: half of the machine's, at most 64 GiB."""
    return min(64 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


class Sandbox:
    """A confined child that answers requests. `gpu`: it gets the NVIDIA devices, and must see CUDA.

    `memory_bytes` bounds the resident memory of all its processes; `preload` is imported before it says it is ready;
    `local_user`: the text comes from the very person who runs the engine, so the weak sandbox is good enough.
    Raises SessionRefused("sandbox_missing") where the sandbox is weak and the text may be anyone's.
    """

    def __init__(
        self,
        *,
        gpu: bool = False,
        memory_bytes: int | None = None,
        preload: tuple[str, ...] = ("torch",),
        local_user: bool = False,
        cpu_seconds: int | None = None,
    ):
        self.gpu, self.preload, self.local_user = gpu, preload, local_user
        self.memory_bytes = memory_bytes or default_memory()
        self.cpu_seconds = cpu_seconds or 3600 * (os.cpu_count() or 1)  # of one process, all its threads together
        self.mode = ""
        self._process: subprocess.Popen | None = None
        self._ended: tuple[str, str, int | None] | None = None
        self._regions: dict[str, int] = {}
        self._maps: dict[str, mmap.mmap] = {}
        self._printed = Printed()
        self._buffer, self._searched = bytearray(), 0
        self._scratch = ""
        self._inner = 0  # the process id, inside, of who answers
        self._first = 0  # that of the child itself, when copies of it answer
        self._base: set[int] = set()  # the processes there are without a copy
        self._uid: int | None = None
        self._lock = threading.Lock()

    @staticmethod
    def strength(gpu: bool = False) -> str:
        """`full`, or `weak: <why, and how to fix it>`. The first call takes some 0.1 s: it really starts one."""
        return confine.strength(gpu)

    def start(self, timeout: float = 60.0, wait: bool = True) -> Sandbox:
        """Starts the child; with `wait` returns when it has loaded `preload`."""
        strong = confine.strength(self.gpu)
        if strong != "full" and not self.local_user:
            raise SessionRefused(
                "sandbox_missing",
                f"This engine does not run other people's code, because its sandbox is {strong}. "
                "Whoever runs the engine can allow their own code with --local-user.",
            )
        self.mode = confine.choose(self.gpu)[0]
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
        self._stacks = Stacks()
        inherited = (request_r, reply_w, self._stacks.fd, *self._regions.values())
        command = [sys.executable, "-s", "-P", "-m", "engine.sandbox.child", str(request_r), str(reply_w)]
        command += [str(self._stacks.fd)]
        command += [str(self.cpu_seconds), "gpu" if self.gpu else "cpu", *self.preload]
        if self.mode == "none":
            self._scratch = tempfile.mkdtemp(prefix="ucutlass-sandbox-")
        plan = confine.launch(self.mode, command, gpu=self.gpu, fds=inherited, scratch=self._scratch or None)
        self._uid = plan.uid
        if self._scratch and plan.uid is not None:
            os.chown(self._scratch, plan.uid, plan.uid)
        try:
            self._process = subprocess.Popen(
                plan.args, env=plan.env, cwd=plan.cwd, stdin=subprocess.DEVNULL, stdout=printed_w, stderr=printed_w,
                pass_fds=plan.fds, start_new_session=True, **confine.drop_arguments(plan.user),
            )  # fmt: skip
        except BaseException:
            for fd in (self._request, self._reply, printed_r, self._stacks.fd, *self._regions.values()):
                os.close(fd)
            raise
        finally:
            for fd in (request_r, reply_w, printed_w, *plan.closes):
                os.close(fd)
        os.set_blocking(self._request, False)
        os.set_blocking(self._reply, False)
        os.set_blocking(printed_r, False)
        self._watcher = threading.Thread(target=self._watch, args=(printed_r,), daemon=True, name="sandbox-watch")
        self._watcher.start()

    def wait_ready(self, timeout: float = 60.0, cancelled: Callable[[], bool] | None = None) -> None:
        """Blocks until the child has loaded what it preloads. Raises SandboxEnded."""
        if self._inner:
            return
        answer = self._receive(time.monotonic() + timeout, cancelled, "did not start")
        if answer.get("ready") is not True:
            self._finish("no_cuda", str(answer.get("reason", "the sandboxed process is not ready"))[:300])
            raise self._error()
        self._inner = answer.get("pid") if isinstance(answer.get("pid"), int) else 1

    # ---- one text after the other ----

    def fork(self, timeout: float = 20.0) -> None:
        """From now on a copy of the child answers, until `reap`: for one text among many of the same person, where
        loading torch anew for each would take most of the time. Raises SandboxEnded."""
        self.wait_ready(timeout)
        if not self._base:
            self._base = set(tree.descendants(self._process.pid, self._uid))
            self._first = self._inner
        answer = self.request({"fork": True}, timeout=timeout)
        if not isinstance(answer.get("forked"), int):
            self._finish("garbled", "it did not fork")
            raise self._error()
        self._inner = answer["forked"]

    def reap(self, timeout: float = 5.0) -> None:
        """Ends the copy and whatever it started, and leaves the child as it was before `fork`. Raises SandboxEnded
        where that is not possible: then the sandbox is of no more use."""
        if self._inner == self._first:
            return
        end = time.monotonic() + timeout
        while others := [p for p in tree.descendants(self._process.pid, self._uid) if self._foreign(p)]:
            for pid in others:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > end:
                self._finish("process_limit", "its processes could not be ended")
                raise self._error()
            time.sleep(0.002)
        self._inner = self._first
        # The copy is dead and cannot know this word: what comes before it, the copy wrote, or it tells of its end.
        word = os.urandom(8).hex()
        late = "did not come back after its copy ended"
        answer = self.request({"back": word}, timeout=timeout)
        while answer.get("back") != word:
            answer = self._receive(end, None, late)
        if self._buffer:
            self._finish("garbled", "its copy left words behind")
            raise self._error()
        self._printed.clear()

    def _foreign(self, pid: int) -> bool:
        return pid not in self._base and tree.exists(pid)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._ended is None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the child printed: the beginning and the end of it."""
        return self._printed.text

    def allocate(self, region: str, size: int) -> mmap.mmap:
        """Sizes the shared region (once) and maps it here. The child cannot grow or shrink it."""
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

    def request(self, message: dict, *, timeout: float, cancelled: Callable[[], bool] | None = None) -> dict:
        """The child's answer to one message. Raises SandboxEnded, after which the sandbox is of no more use."""
        deadline = time.monotonic() + timeout
        self.wait_ready(timeout, cancelled)
        view = memoryview(channel.encode(message, channel.MAX_REQUEST))
        while view:
            try:
                view = view[os.write(self._request, view) :]
            except BlockingIOError:
                self._pause(deadline, cancelled, f"did not answer within {timeout:g} s", write=True)
            except OSError:
                self._finish(*self._why_gone())
                raise self._error() from None
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
                self._finish(*self._why_gone())
                raise self._error()
            self._buffer += data
            if len(self._buffer) > channel.MAX_REPLY:
                self._finish("garbled", "it answered with more than the engine reads")
                raise self._error()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        try:
            return channel.decode(line)
        except channel.Garbled as e:
            self._finish("garbled", f"its answer could not be read ({e})")
            raise self._error() from None

    def _pause(self, deadline: float, cancelled: Callable[[], bool] | None, late: str, write: bool = False) -> None:
        if time.monotonic() > deadline:
            self._finish("time_limit", late, self._current_line())
        elif cancelled is not None and cancelled():
            self._finish("cancelled", "stopped")
        if self._ended is not None:
            raise self._error()
        select.select([] if write else [self._reply], [self._request] if write else [], [], POLL)

    def _error(self) -> SandboxEnded:
        self._watcher.join(timeout=1.0)
        code, reason, line = self._ended or ("exited", "the process ended", None)
        return SandboxEnded(code, reason, line if line is not None else self._stacks.line(), self.log)

    def _why_gone(self) -> tuple[str, str]:
        if self._ended is not None:
            return self._ended[:2]
        assert self._process is not None
        try:
            status = self._process.wait(timeout=3.0)
        except subprocess.TimeoutExpired:
            return "exited", "it closed its side of the pipe"
        number = -status if status < 0 else status - 128
        if number == signal.SIGXCPU:
            return "time_limit", "it used all of its processor time"
        if number in (signal.SIGKILL, signal.SIGTERM):
            return "crashed", "its process was killed (by itself, or by the system for want of memory)"
        if 0 < number < 65 and number in set(signal.Signals):
            return "crashed", f"its process crashed ({signal.Signals(number).name})"
        return "exited", f"it ended the Python process with status {status} (os._exit or the like)"

    # ---- the watcher ----

    def _watch(self, printed: int) -> None:
        process = self._process
        next_look = 0.0
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    while data := os.read(printed, 1 << 16):
                        self._printed.add(data)
                        if self._printed.too_much:
                            limit = f"it printed more than {MAX_PRINTED >> 20} MB"
                            self._finish("output_limit", limit, self._current_line())
                            break
                    else:
                        return  # end of file: every process that could print is gone
                now = time.monotonic()
                if now >= next_look and self._ended is None and process is not None and process.poll() is None:
                    self._look()
                    # An idle child that has loaded nothing untrusted needs no close watch.
                    next_look = now + (POLL if self._inner else 4 * POLL)
                if self._ended is not None and process is not None and process.poll() is not None:
                    return
                select.select([printed], [], [], POLL)
        except OSError:
            return
        finally:
            os.close(printed)

    def _look(self) -> None:
        assert self._process is not None
        members = tree.descendants(self._process.pid, self._uid)
        resident, tasks = tree.usage(members)
        # Forks share their memory, and each is counted with all of it: many processes are the better explanation.
        many = len(members) > FORKS
        if tasks > MAX_PROCESSES + 8 * (os.cpu_count() or 1) or (many and resident > self.memory_bytes):
            self._finish("process_limit", "it started processes without end", self._current_line())
        elif resident > self.memory_bytes:
            limit = f"{self.memory_bytes / 2**30:.3g} GiB"
            self._finish("memory_limit", f"it used more memory than the limit of {limit}", self._current_line())

    def _current_line(self) -> int | None:
        """Where in the pasted text the child is now, where it says so."""
        if not self._inner or self._process is None:
            return None
        return self._stacks.line_now(tree.descendants(self._process.pid, self._uid), self._inner)

    def line_written(self) -> int | None:
        """The pasted line of the stack that the child, or a process that it started, wrote last: where it crashed."""
        return self._stacks.line()

    # ---- the end ----

    def _finish(self, code: str, reason: str, line: int | None = None) -> None:
        with self._lock:
            if self._ended is None:
                self._ended = (code, reason, line)
        self._kill()

    def _kill(self) -> None:
        """Ends every process of the sandbox and waits until they are gone."""
        process = self._process
        if process is None:
            return
        members = tree.descendants(process.pid, self._uid)
        for pid in (process.pid, *members):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.mode == "none":
            tree.sweep(process.pid, self._uid, f"HOME={self._scratch}\0".encode())
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5.0)
        end = time.monotonic() + 5.0
        while time.monotonic() < end and any(tree.exists(pid) for pid in members):
            time.sleep(0.005)

    def close(self) -> None:
        """Ends the child and gives back what it held. Safe to call twice; mapped regions stay readable until freed."""
        if self._process is None:
            return
        self._finish("cancelled", "closed")
        if threading.current_thread() is not self._watcher:
            self._watcher.join(timeout=2.0)
        self._process = None
        self._stacks.close()
        for fd in (self._request, self._reply, *self._regions.values()):
            with contextlib.suppress(OSError):
                os.close(fd)
        for region in self._maps.values():
            with contextlib.suppress(BufferError):  # an array still looks at it; it goes with that array
                region.close()
        self._maps.clear()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
