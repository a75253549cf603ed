"""What a sandbox holds, against its limits: memory by every name, processes and files.

Where the engine may create a cgroup (engine.sandbox.cgroup), the kernel bounds all memory. It seldom may, so all of it
is counted or refused here in every case:

    heap, stacks, private maps   resident bytes from /proc; on a CPU also RLIMIT_DATA, because a process can take
                                 gigabytes between two looks. Mapped areas take memory of the kernel, and each fork
                                 copies them: those of more than FORKS processes are counted
    files in tmpfs               each mount has a size, and both count as memory; inodes are counted here, because
                                 bubblewrap cannot limit them
    memory without a name        engine.sandbox.seccomp refuses SysV segments, message queues, memfd_secret, rules of
                                 landlock and tables of futexes, and on a CPU memfd_create, sockets, shared anonymous
                                 maps, huge pages, policies of pages and locked bytes. With a GPU the CUDA driver may
                                 need those: open descriptors of memfd are counted, and shared maps only while a
                                 process has touched them
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from engine.sandbox import cgroup, tree
from engine.sandbox.cgroup import Cgroup

POLL = 0.05  # seconds between two looks at a sandbox that is asked something
MAX_PROCESSES = 600  # processes and threads of one sandbox, if RLIMIT_NPROC does not apply
FORKS = 7  # bubblewrap needs two to four, an honest module one
MAX_FILES = 50_000  # in its two tmpfs; each takes about a kilobyte of the kernel's memory
MOUNTS = ("scratch", "dev/shm")
AREA, LINK = 256, 64  # bytes of the kernel for an area of addresses that is mapped, and for each fork that it came by
AREAS, SHARE = 0.2, 10  # seconds between two counts of areas, and how many times as long as one took
DESCRIPTORS = 0.2  # seconds between two looks at open descriptors


class Holdings:
    """One sandbox. `pid`: its first process; `uid`: its user if only it has that one; `gpu`: it has the NVIDIA devices.
    Not for several threads, except for `enter`, which comes before the first request."""

    def __init__(self, pid: int, uid: int | None, gpu: bool):
        self.pid, self.uid, self.gpu = pid, uid, gpu
        self._mounts: list[int] = []
        self._nameless, self._looked = 0, 0.0
        self._areas, self._next_count, self._counted_of = 0, 0.0, 0
        self._cgroup: Cgroup | None = None

    def enter(self, inner: int, memory_bytes: int) -> None:
        """Open the file systems of the process with the inner id `inner`, and move all into a cgroup of their own if
        possible. No pasted text ran yet."""
        members = tree.descendants(self.pid, self.uid)
        for pid in members:
            if not self._mounts and tree.inner_pid(pid) == inner:
                self._mounts = _opened(pid)
        if isinstance(folder := cgroup.parent(), Path):
            with contextlib.suppress(OSError):
                self._cgroup = Cgroup(folder, memory_bytes, most_processes())
                self._cgroup.add(members)

    @property
    def exceeded(self) -> bool:
        """The kernel ended it for its memory."""
        return self._cgroup is not None and self._cgroup.exceeded

    def excess(self, memory_bytes: int) -> tuple[str, str] | None:
        """The code and the words of SandboxEnded for the first limit that it exceeds, else None."""
        # A reading that others share may be from before this request; so it refuses nothing alone.
        return self._excess(memory_bytes, POLL) and self._excess(memory_bytes, 0.0)

    def _excess(self, memory_bytes: int, age: float) -> tuple[str, str] | None:
        members, resident, tasks = tree.glance(self.pid, self.uid, age)
        files, inodes = self._files()
        mapped = self._mapped(members, memory_bytes, age)
        extra = files + self._descriptors(members) + mapped
        resident = max(resident, tree.most(members))  # the reading of /proc may be old on a busy machine
        if resident + extra > memory_bytes:  # with files: their libraries', too
            resident, tasks = tree.usage(members)
            own, _ = tree.usage(members, tree.UNSHARED)
            # What forks share is found by a walk over all page tables and areas: seconds where these fill the memory.
            if resident + extra > memory_bytes and own + mapped <= memory_bytes // 2:
                resident -= tree.shared(members)
        many = len(members) > FORKS
        memory = resident + extra
        # Where the kernel does not say what forks share, each counts with all of it: report the processes instead.
        if tasks > most_processes() or (many and memory > memory_bytes):
            return "process_limit", "started too many processes"
        if memory > memory_bytes:
            return "memory_limit", over_memory(memory_bytes)
        if inodes > MAX_FILES:
            return "disk_limit", f"made more than {MAX_FILES:,} files"
        return None

    def _files(self) -> tuple[int, int]:
        """Bytes and number of files in its tmpfs mounts, also of those that are deleted but open."""
        size = inodes = 0
        for fd in self._mounts:
            with contextlib.suppress(OSError):
                s = os.fstatvfs(fd)
                size += (s.f_blocks - s.f_bfree) * s.f_frsize
                inodes += s.f_files - s.f_ffree
        return size, inodes

    def _descriptors(self, members: list[int]) -> int:
        """Bytes in memfd files that its processes have open, without those of the engine. Only with a GPU."""
        now = time.monotonic()
        if self.gpu and now > self._looked + DESCRIPTORS:
            self._looked, self._nameless = now, nameless(members)
        return self._nameless

    def _mapped(self, members: list[int], memory_bytes: int, age: float) -> int:
        """Bytes of the kernel's memory for what its processes have mapped, if they are many; a few have little. With
        `age`, of a moment ago: those who map much make a count long."""
        if len(members) <= FORKS:
            return 0
        each = AREA + LINK * len(members)  # no process came by more forks than there are
        now = time.monotonic()
        if not age or now > self._next_count or len(members) > self._counted_of + FORKS:
            self._areas, self._counted_of = tree.mappings(members, memory_bytes // each), len(members)
            self._next_count = time.monotonic() + max(AREAS, SHARE * (time.monotonic() - now))
        return self._areas * each

    def close(self) -> None:
        for fd in self._mounts:
            os.close(fd)
        self._mounts = []
        if self._cgroup is not None:
            self._cgroup.close()


def most_processes() -> int:
    """The largest number of processes and threads of a sandbox."""
    return MAX_PROCESSES + 8 * (os.cpu_count() or 1)


def over_memory(memory_bytes: int) -> str:
    """The words for a sandbox that exceeded its memory."""
    return f"used more memory than the limit of {memory_bytes / 2**30:.3g} GiB"


def _opened(pid: int) -> list[int]:
    """Descriptors of the sandbox's own mounts; none if the process sees the file systems that we see."""
    descriptors = []
    for name in MOUNTS:
        with contextlib.suppress(OSError):
            fd = os.open(f"/proc/{pid}/root/{name}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            descriptors.append(fd)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(fd).st_dev == os.stat(f"/{name}").st_dev:
                    os.close(descriptors.pop())
    return descriptors


def nameless(members: list[int]) -> int:
    """Bytes in the memfd files that these processes have open, each file once, without those that we have open."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in (*members, os.getpid()):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:"):
                        s = os.stat(f"/proc/{pid}/fd/{fd}")
                        sizes[s.st_dev, s.st_ino] = 0 if pid == os.getpid() else s.st_blocks * 512
    return sum(sizes.values())
