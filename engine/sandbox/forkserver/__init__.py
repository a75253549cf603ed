"""Sandboxes whose process is a fork of one that has loaded torch already (server.py).

Importing torch takes each process 2 s, and what exports a module 3 s more; a fork takes a twentieth of that, and shares
the memory. bubblewrap makes the sandbox as for every other one, around a program that only waits; the fork joins it
(join.py) and drops all privileges before it serves a request. The server never starts CUDA, which no fork of it could
use then; a fork with a GPU starts its own. Where a fork cannot join, bubblewrap starts each Python itself.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine import cores, descriptors, start
from engine.sandbox import channel, confine, tree
from engine.sandbox.forkserver.join import SPACES

HOLDER = ["/bin/cat"]  # echoes one line when the sandbox is ready, and ends when its input does
READY_SECONDS = 60.0  # until the first fork has loaded everything
FAILURES = 3  # forks that fail one after the other
PATIENCE = 20.0  # seconds for a step that takes milliseconds, on a busy machine

logger = logging.getLogger("engine")


class Unable(Exception):
    """A fork could not be started. The message says why."""


@dataclass
class Forked:
    """A sandbox whose process is a fork. `process`: its bubblewrap, which ends when the fork does; `uid`: its user if
    it is not ours."""

    process: subprocess.Popen
    uid: int | None
    kind: tuple[bool, bool]  # of `kinds`
    report: int
    spaces: dict[str, int]  # name space -> inode
    _lines: bytearray = field(default_factory=bytearray)
    _pid: int | None = None
    _parent: int = 0
    _status: int | None = None
    _error: str = ""

    def enter(self) -> None:
        """Count the fork among the processes of the sandbox, from now on; it has said that it is ready. Raises
        Unable."""
        self._read(PATIENCE, lambda: self._pid is not None or bool(self._error))
        if self._pid is None:
            raise Unable(self._error or "it did not report its process id")
        try:
            for name, inode in self.spaces.items():
                if os.stat(f"/proc/{self._pid}/ns/{name}").st_ino != inode:
                    raise Unable(f"it is in another name space ({name})")
        except FileNotFoundError:
            raise Unable("it has ended") from None
        tree.adopt(self.process.pid, self._pid, self._parent)
        kinds[self.kind].failed.clear()

    def status(self) -> int | str | None:
        """Its exit status, negative for a signal; the reason if it could not start; None if it does not say."""
        self._read(3.0, lambda: self._status is not None or bool(self._error))
        return self._error or self._status

    def error(self) -> str:
        """Why it could not start, or ""."""
        self._read(1.0, lambda: bool(self._error))
        return self._error

    def _read(self, seconds: float, enough) -> None:
        until = time.monotonic() + seconds
        while not enough() and descriptors.readable(self.report, seconds=until - time.monotonic()):
            data = os.read(self.report, 1 << 12)
            if not data:
                return
            self._lines += data
            *whole, rest = bytes(self._lines).split(b"\n")
            self._lines = bytearray(rest)
            for line in map(json.loads, whole):
                self._pid = line.get("pid", self._pid)
                self._parent = line.get("parent", self._parent)
                self._status = line.get("status", self._status)
                self._error = line.get("error", self._error)
                if "waits" in line:
                    logger.warning("the process that waits for a fork is a whole one: %s", line["waits"])

    def close(self) -> None:
        tree.disown(self.process.pid)
        with contextlib.suppress(OSError):
            os.close(self.report)


class Server:
    """The process that forks. From several threads."""

    def __init__(self, mode: str, gpu: bool, late: bool = False):
        self.mode, self.kind = mode, (gpu, late)
        self._lock = threading.Lock()
        self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._way.settimeout(PATIENCE)
        # Of the kind that its forks have: the loader reads LD_LIBRARY_PATH when it starts, /proc shows all of it later.
        environment = confine.environment(mode, gpu, "/scratch")
        environment["PYTHONPATH"] = os.pathsep.join([str(confine.REPOSITORY), *confine.package_folders()])
        environment |= start.UNASKED if late else {}
        command = [sys.executable, "-s", "-P", "-m", "engine.sandbox.forkserver.server", str(theirs.fileno())]
        try:
            with cores.aside():
                self.process = subprocess.Popen(
                    command, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),), start_new_session=True,
                )  # fmt: skip
        finally:
            theirs.close()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def fork(
        self, arguments: list[str], preload: tuple[str, ...], fds: Mapping[str, int], printed: int, *,
        gpu: bool = False, visible: str = "",
    ) -> Forked:  # fmt: skip
        """Start a sandbox whose process is engine.sandbox.child with these arguments; it has each descriptor of `fds`
        under the number that it has here, and prints to `printed`. Raises Unable."""
        holder, uid = self._holder(gpu, visible)
        try:
            with contextlib.ExitStack() as stack:
                spaces = _spaces(holder.pid, stack)
                report, theirs = os.pipe()
                stack.callback(os.close, theirs)
                unless_sent = stack.enter_context(contextlib.ExitStack())
                unless_sent.callback(os.close, report)
                program = confine.seccomp.descriptor(gpu)
                if program is None:
                    raise Unable("there is no filter of system calls")
                stack.callback(os.close, program)
                named = {**fds, **spaces, "printed": printed, "report": theirs, "filter": program}
                named["holder"] = holder.stdin.fileno()
                order = {
                    "descriptors": list(named), "targets": dict(fds), "arguments": arguments, "uid": uid,
                    "preload": list(preload), "environment": confine.environment(self.mode, gpu, "/scratch", visible),
                    "hidden": confine.hidden(gpu), "cores": sorted(os.sched_getaffinity(0)),
                }  # fmt: skip
                inodes = {name: os.fstat(fd).st_ino for name, fd in spaces.items()}
                try:
                    with self._lock:
                        socket.send_fds(self._way, [json.dumps(order).encode()], list(named.values()))
                except OSError as e:
                    raise Unable(f"the fork server does not take orders: {e}") from None
                unless_sent.pop_all()
            return Forked(holder, uid, self.kind, report, inodes)
        except BaseException:
            holder.kill()
            holder.wait()
            raise
        finally:
            holder.stdin.close()
            holder.stdout.close()

    def _holder(self, gpu: bool, visible: str) -> tuple[subprocess.Popen, int | None]:
        """(bubblewrap around a program that waits, its user if not ours), with the sandbox complete."""
        plan = confine.launch(self.mode, HOLDER, gpu=gpu, visible=visible, fds=())
        try:
            pipe = subprocess.PIPE
            holder = confine.popen(plan, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
        finally:
            for fd in plan.closes:
                os.close(fd)
        with contextlib.suppress(OSError):
            holder.stdin.write(b"\n")
        if not descriptors.readable(holder.stdout, seconds=PATIENCE) or not holder.stdout.read(1):
            holder.kill()
            holder.wait()
            raise Unable("bubblewrap did not start")
        return holder, plan.uid

    def probe(self, gpu: bool, preload: tuple[str, ...]) -> str:
        """ "" if a fork joined its sandbox, could reach nothing that is forbidden and became ready, else the reason."""
        fds = dict(zip(("requests", "request", "reply", "replies"), (*os.pipe(), *os.pipe()), strict=True))
        fds["stacks"] = os.memfd_create("ucutlass-stacks", os.MFD_CLOEXEC)
        printed = os.open(os.devnull, os.O_WRONLY)
        try:
            inherited = {name: fds[name] for name in ("requests", "replies", "stacks")}
            arguments = [*(str(fd) for fd in inherited.values()), "60", "gpu" if gpu else "cpu"]
            forked = self.fork(arguments, preload, inherited, printed, gpu=gpu)
            try:
                os.close(fds.pop("replies"))  # or its end would not be seen
                if not descriptors.readable(fds["reply"], seconds=READY_SECONDS) or not _ready(fds["reply"]):
                    raise Unable(forked.error() or "it did not become ready")
                forked.enter()
            finally:
                forked.process.kill()
                forked.process.wait()
                forked.close()
        except (Unable, OSError) as e:
            return str(e)
        finally:
            for fd in (*fds.values(), printed):
                os.close(fd)
        return ""

    def close(self) -> None:
        self._way.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)


@dataclass
class Kind:
    """What is known of forks with a GPU, of those without, and of those whose slow modules (engine.sandbox.pool) are
    loaded, too. They have a server each, because what one kind needs may start threads or CUDA, and no process with
    several threads is forked, and none with CUDA can use it. `able`: whether forks work here; None: not tried yet."""

    server: Server | None = None
    able: bool | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)  # the first fork of a kind takes seconds
    failed: list[str] = field(default_factory=list)  # the reasons of the last forks, without one that worked

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None


kinds = {(gpu, late): Kind() for gpu in (False, True) for late in (False, True)}


def of(mode: str, gpu: bool, preload: tuple[str, ...], late: tuple[str, ...] = ()) -> Server | None:
    """The server that forks such processes; None if bubblewrap must start them. The first call takes seconds: the
    server loads `preload`, and `late` if there is some."""
    kind = kinds[gpu, bool(late)]
    if mode == "none" or "torch" not in preload or kind.able is False:
        return None
    with kind.lock:
        if kind.able is False:
            return None
        if kind.server is None or not kind.server.alive:
            kind.close()
            kind.server = Server(mode, gpu, bool(late))
        if kind.server.mode != mode:
            return None
        if kind.able is None:
            names = (*preload, *late)
            why = kind.server.probe(gpu, names) and kind.server.probe(gpu, names)
            kind.able = not why
            if why:
                what = "with a GPU " if gpu else ""
                loads = ", ".join(late) or "torch"
                logger.warning("processes of sandboxes %sare not forked, each loads %s itself: %s", what, loads, why)
                kind.close()
        return kind.server


def failed(reason: str, which: tuple[bool, bool]) -> None:
    """A fork failed. After several of a kind one after the other, bubblewrap starts each process."""
    kind = kinds[which]
    kind.failed.append(reason)
    logger.warning("the process of a sandbox could not be forked: %s", reason)
    if len(kind.failed) >= FAILURES and kind.able:
        kind.able = False
        logger.warning("processes of sandboxes are not forked any more, each loads torch itself")


def process_id(gpu: bool = False) -> int | None:
    """Of the server, if one runs."""
    server = kinds[gpu, False].server
    return server.process.pid if server is not None and server.alive else None


def close() -> None:
    """End the servers. Their forks go on."""
    for kind in kinds.values():
        with kind.lock:
            kind.close()


def _ready(reply: int) -> bool:
    """Whether a child's first answer says so."""
    try:
        return channel.decode_reply(os.read(reply, 1 << 12)).get("ready") is True
    except channel.Garbled:
        return False


def _spaces(pid: int, stack: contextlib.ExitStack) -> dict[str, int]:
    """Descriptors of the name spaces of the innermost program under bubblewrap, closed with `stack`. Raises Unable."""
    try:
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(children[0])
        spaces = {}
        for name in ("user", *SPACES):
            with contextlib.suppress(FileNotFoundError):
                spaces[name] = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, spaces[name])
    except OSError as e:
        raise Unable(f"the name spaces of the sandbox cannot be opened: {e}") from None
    return spaces


atexit.register(close)
