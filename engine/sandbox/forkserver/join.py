"""From a fork of the server to a sandboxed process: join the name spaces of a bubblewrap, drop all privileges, fork.

Order matters. A user name space is joined first, because it gives the capabilities for the others, and the inner one
last, because those are owned by the outer one (bubblewrap --disable-userns makes two). The filter of system calls comes
last of all: it refuses most calls of this module. The process ids of the sandbox begin with the next fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
from collections.abc import Mapping

SPACES = {  # name in /proc/PID/ns -> flag of setns, in the order in which they are joined
    "mnt": 0x00020000, "ipc": 0x08000000, "uts": 0x04000000, "net": 0x40000000, "cgroup": 0x02000000,
    "pid": 0x20000000,
}  # fmt: skip
NEW_USER = 0x10000000
OWNER = 0xB701  # ioctl NS_GET_USERNS: the user name space that owns a name space
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_SECCOMP, PR_SET_SECCOMP = 1, 4, 21, 22
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 23, 24, 38, 39
PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL = 47, 4
SECCOMP_FILTER = 2
CAPABILITIES_3 = 0x20080522  # version of the structures of capset

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def join(spaces: Mapping[str, int], uid: int | None) -> None:
    """Enter the name spaces whose descriptors are given by name, `user` and those of SPACES, as the user `uid` (None:
    the one that we are). Raises OSError."""
    others = {name: flag for name, flag in SPACES.items() if name in spaces}
    inner = os.fstat(spaces["user"]).st_ino
    if os.stat("/proc/self/ns/user").st_ino == inner:  # no user name space: we are root, and stay it until we are in
        for name, flag in others.items():
            _enter(spaces[name], flag)
        _bound()
        _become(uid)
    else:
        outer = fcntl.ioctl(spaces["mnt"], OWNER)
        _become(uid)
        _enter(outer, NEW_USER)
        for name, flag in others.items():
            _enter(spaces[name], flag)
        if os.fstat(outer).st_ino != inner:
            _enter(spaces["user"], NEW_USER)
        os.close(outer)
        _bound()
    os.chdir("/scratch")


def _bound() -> None:
    """Let no program that is started later have a capability."""
    number = 0
    while _prctl(PR_CAPBSET_READ, number) >= 0:
        _checked(_prctl(PR_CAPBSET_DROP, number), "drop a capability")
        number += 1


def _become(uid: int | None) -> None:
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def drop(program: bytes) -> None:
    """Give up every capability, for good, and load the filter of system calls. Raises OSError."""
    _checked(_prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL), "clear the ambient capabilities")
    header, none = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, none), "drop the capabilities")
    _checked(_prctl(PR_SET_NO_NEW_PRIVS, 1), "set no_new_privs")
    code = ctypes.create_string_buffer(program, len(program))
    listed = _Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    _checked(_libc.prctl(PR_SET_SECCOMP, SECCOMP_FILTER, ctypes.byref(listed), 0, 0), "load the filter")


def reach(hidden: str) -> list[str]:
    """What a process that joined and dropped can still do or see, though it must not; empty if all is well. `hidden`: a
    file that is not in a sandbox."""
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    number, bounding = 0, 0
    while (one := _prctl(PR_CAPBSET_READ, number)) >= 0:
        bounding, number = bounding + one, number + 1
    facts = {
        "capabilities": _libc.capget(header, sets) != 0 or any(sets) or bounding > 0,
        "privileges": _prctl(PR_GET_NO_NEW_PRIVS) != 1,
        "system calls": _prctl(PR_GET_SECCOMP) != SECCOMP_FILTER,
        "root": os.getuid() == 0 or os.getgid() == 0,
        "/etc": os.path.exists("/etc/passwd"),
        "a file of the engine": os.path.exists(hidden),
        "a name space": _libc.unshare(NEW_USER) == 0,
    }
    return [name for name, reached in facts.items() if reached]


def settle() -> None:
    """In the fork inside: end with the parent, and be as readable for the engine as a program of this user is."""
    _prctl(PR_SET_PDEATHSIG, 9)
    _prctl(PR_SET_DUMPABLE, 1)
    os.setsid()


def close_all_but(needed: set[int]) -> None:
    """Close every other descriptor."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd not in needed:
            with contextlib.suppress(OSError):
                os.close(fd)


def _enter(fd: int, kind: int) -> None:
    _checked(_libc.setns(fd, kind), f"join a name space ({kind:#x})")


def _prctl(what: int, one: int = 0) -> int:
    return _libc.prctl(what, ctypes.c_ulong(one), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _checked(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"could not {doing}: {os.strerror(number)}")
