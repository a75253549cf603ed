"""Start the process of a sandbox: as a fork of the fork server, or as a Python of its own under bubblewrap."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from engine import cores
from engine.sandbox import confine, forkserver

logger = logging.getLogger("engine")


@dataclass
class Started:
    """`process`: what ends when the child does; `uid`: its user if it is not ours; `scratch`: its folder where no
    bubblewrap makes one; `fork`: of the fork server."""

    process: subprocess.Popen
    uid: int | None
    scratch: str = ""
    fork: forkserver.Forked | None = None

    def enter(self) -> str:
        """The child is ready. Returns the reason if it is not in its sandbox, else ""."""
        if self.fork is None:
            return ""
        try:
            self.fork.enter()
        except (forkserver.Unable, OSError) as e:
            forkserver.failed(str(e), self.fork.kind)
            return str(e)
        return ""

    def status(self) -> int:
        """The exit status, negative for a signal, or 128 and the signal. Raises subprocess.TimeoutExpired, and Unable
        for a fork that did not start, or whose end nobody saw: the message is a predicate."""
        status = self.process.wait(timeout=3.0)
        if self.fork is None:
            return status
        forked = self.fork.status()
        if isinstance(forked, str):
            forkserver.failed(forked, self.fork.kind)
            raise forkserver.Unable(f"could not be started ({forked})")
        if forked is None:
            logger.warning("the process that waits for a fork was killed; bubblewrap ended with status %s", status)
            raise forkserver.Unable("was lost, because a process of the engine was killed")
        return forked

    def close(self) -> None:
        if self.fork is not None:
            self.fork.close()
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


def prepare(mode: str, gpu: bool, preload: tuple[str, ...], late: tuple[str, ...], forks: bool) -> None:
    """Start the servers that such a process may be a fork of, which takes seconds once; `start` is called in a thread
    for which all others wait."""
    for loaded in dict.fromkeys((late, ())) if forks else ():
        forkserver.of(mode, gpu, preload, loaded)


def start(
    mode: str, arguments: list[str], preload: tuple[str, ...], inherited: Mapping[str, int], printed: int, *, gpu: bool,
    visible: str, forks: bool, late: tuple[str, ...] = (),
) -> Started:  # fmt: skip
    """Start engine.sandbox.child with these arguments; it has the descriptors `inherited` under the numbers that they
    have here, and prints to `printed`. A fork of a server that has `preload` alone loads `late` itself. Raises
    OSError."""
    with cores.aside():
        for loaded in dict.fromkeys((late, ())) if forks else ():
            if (server := forkserver.of(mode, gpu, preload, loaded)) is None:
                continue
            try:
                fork = server.fork(arguments, (*preload, *loaded), inherited, printed, gpu=gpu, visible=visible)
                return Started(fork.process, fork.uid, fork=fork)
            except forkserver.Unable as e:
                forkserver.failed(str(e), server.kind)
        scratch = tempfile.mkdtemp(prefix="ucutlass-sandbox-") if mode == "none" else ""
        command = [sys.executable, "-s", "-P", "-m", "engine.sandbox.child", *arguments]
        plan = confine.launch(
            mode, command, gpu=gpu, visible=visible, fds=tuple(inherited.values()), scratch=scratch or None
        )
        try:
            if scratch and plan.uid is not None:
                os.chown(scratch, plan.uid, plan.uid)
            process = confine.popen(plan, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)
        finally:
            for fd in plan.closes:
                os.close(fd)
        return Started(process, plan.uid, scratch)
