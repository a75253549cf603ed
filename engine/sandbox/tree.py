"""The processes of a sandbox, read from /proc: their ids, their memory, and whether they have ended."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import time

from engine import processes


def descendants(pid: int, uid: int | None = None) -> list[int]:
    """`pid` and its descendants, and every process of `uid`, a user id that only this sandbox has."""
    return _members(processes.table(), pid, uid)


def glance(pid: int, uid: int | None, age: float) -> tuple[list[int], int, int]:
    """(the descendants, their resident bytes with mapped files, number of threads) as they were `age` seconds ago or a
    little earlier, so that those who look at many sandboxes again and again share one reading of /proc."""
    table = processes.table(age)
    members = _members(table, pid, uid)
    known = [table.processes[p] for p in members if p in table.processes]
    return members, sum(p.resident for p in known), sum(p.threads for p in known)


def _members(table: processes.Table, pid: int, uid: int | None) -> list[int]:
    members = {pid}
    if uid is not None:
        members.update(p for p, owner in table.orphans.items() if owner == uid)
    queue = list(members)
    while queue:
        for child in table.children.get(queue.pop(), ()):
            if child not in members:
                members.add(child)
                queue.append(child)
    return sorted(members)


def usage(pids: list[int]) -> tuple[int, int]:
    """(resident and swapped bytes without files, with page tables; number of threads) of these processes together."""
    memory = tasks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/status", "rb") as f:
                for line in f:
                    if line.startswith((b"RssAnon:", b"RssShmem:", b"VmPTE:", b"VmSwap:", b"HugetlbPages:")):
                        memory += int(line.split()[1]) * 1024
                    elif line.startswith(b"Threads:"):
                        tasks += int(line.split()[1])
    return memory, tasks


def most(pids: list[int]) -> int:
    """At least the resident bytes of these processes now: with mapped files, and with page tables of all addresses."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/statm", "rb") as f:
                size, resident = map(int, f.read().split()[:2])
                pages += resident + size // (mmap.PAGESIZE // 8)
    return pages * mmap.PAGESIZE


def inner_pid(pid: int) -> int | None:
    """The process's id in its innermost pid name space."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/status", "rb") as f:
            for line in f:
                if line.startswith(b"NSpid:"):
                    return int(line.split()[-1])
    return None


def exists(pid: int) -> bool:
    """Return True while the process runs; a zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def kill(pid: int, uid: int | None = None) -> list[int]:
    """Kill a process and its descendants; return all of them."""
    members = descendants(pid, uid)
    for one in (pid, *members):
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)
    return members


def wait(pids: list[int], seconds: float) -> None:
    """Until none of these processes runs, at most `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(exists(pid) for pid in pids):
        time.sleep(0.005)


def lower(pid: int, uid: int | None = None, nice: int = 15) -> None:
    """Give a process and its descendants a lower priority."""
    for one in descendants(pid, uid):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, one, nice)


def sweep(pid: int, uid: int | None, mark: bytes) -> None:
    """Kill the processes of a sandbox without a pid name space, repeatedly, because they may fork meanwhile.

    `mark`: bytes in the environment of each process, which identify a process that left its session and parent.
    """
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        left = [p for p in descendants(pid, uid) if p != pid and exists(p)] + _strays(pid, mark)
        left = [p for p in left if p != os.getpid()]
        if not left:
            return
        for p in left:
            with contextlib.suppress(OSError):
                os.kill(p, signal.SIGKILL)
        time.sleep(0.005)


def _strays(leader: int, mark: bytes) -> list[int]:
    strays = []
    for name in os.listdir("/proc"):
        if name.isdigit() and exists(int(name)):
            with contextlib.suppress(OSError):
                if os.getsid(int(name)) == leader:
                    strays.append(int(name))
                    continue
                with open(f"/proc/{name}/environ", "rb") as f:
                    if mark in f.read(1 << 16):
                        strays.append(int(name))
    return strays
