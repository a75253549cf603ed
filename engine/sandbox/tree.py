"""The processes of a sandbox, read from /proc: their ids, their memory, and whether they have ended."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import time

from engine import processes

RECENT = 0.5  # seconds for which a table of all processes is new enough to tell which are of one
_adopted: dict[int, tuple[int, int]] = {}  # process -> (another one, its parent)


def adopt(pid: int, child: int, parent: int) -> None:
    """Count a process among the descendants of `pid`, though `parent` started it (engine.sandbox.forkserver)."""
    _adopted[pid] = child, parent


def adopted() -> set[int]:
    """All that were adopted and not disowned."""
    return {child for child, _ in list(_adopted.values())}


def disown(pid: int) -> None:
    _adopted.pop(pid, None)


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


def _members(table: processes.Table, pid: int | None, uid: int | None) -> list[int]:
    members = set() if pid is None else {pid}
    if uid is not None:
        members.update(p for p, owner in table.orphans.items() if owner == uid)
    queue = list(members)
    while queue:
        one = queue.pop()
        for child in (*table.children.get(one, ()), *_adopted_by(one, table)):
            if child not in members:
                members.add(child)
                queue.append(child)
    return sorted(members)


def _adopted_by(pid: int, table: processes.Table) -> tuple[int, ...]:
    child, parent = _adopted.get(pid, (0, 0))
    known = table.processes.get(child)
    return (child,) if known is not None and known.parent == parent else ()  # else the id may be another's by now


PAGES = (b"RssAnon:", b"RssShmem:", b"VmSwap:")  # of /proc/PID/status: what processes may share since a fork
UNSHARED = (b"VmPTE:", b"HugetlbPages:")


def usage(pids: list[int], rows: tuple[bytes, ...] = PAGES + UNSHARED) -> tuple[int, int]:
    """(resident and swapped bytes without files, with page tables; number of threads) of these processes together."""
    memory = tasks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/status", "rb") as f:
                for line in f:
                    if line.startswith(rows):
                        memory += int(line.split()[1]) * 1024
                    elif line.startswith(b"Threads:"):
                        tasks += int(line.split()[1])
    return memory, tasks


def shared(pids: list[int]) -> int:
    """How many of `usage`'s bytes are counted more than once, because processes share them since a fork; 0 for those
    that may not be asked. Takes milliseconds for each process."""
    twice = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            own, _ = usage([pid], PAGES)
            with open(f"/proc/{pid}/smaps_rollup", "rb") as f:
                rows = [line.split() for line in f]
            part = sum(int(row[1]) * 1024 for row in rows if row[0] in (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
            twice += max(0, own - part) if part else 0
    return twice


def most(pids: list[int]) -> int:
    """At least the resident bytes of these processes now: with mapped files, and with page tables of all addresses."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/statm", "rb") as f:
                size, resident = map(int, f.read().split()[:2])
                pages += resident + size // (mmap.PAGESIZE // 8)
    return pages * mmap.PAGESIZE


def mappings(pids: list[int], most: int) -> int:
    """How many areas of addresses these processes have mapped, counted no further than `most`; none of those that may
    not be asked. 65,000, which the kernel lets one have, take 30 ms."""
    many = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/maps", "rb", buffering=0) as f:
                while many <= most and (part := f.read(1 << 16)):
                    many += part.count(b"\n")
    return many


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


def kill(pid: int | None, uid: int | None = None) -> list[int]:
    """Kill a process and its descendants; return all of them. `pid`: None if it has been waited for, because its id may
    be another's by now; what it left is known by `uid` alone."""
    members = _members(processes.table(), pid, uid)
    for one in members:
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)
    return members


def wait(pids: list[int], seconds: float) -> None:
    """Until none of these processes runs, at most `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(exists(pid) for pid in pids):
        time.sleep(0.005)


def lower(pid: int, uid: int | None, nice: int) -> None:
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
