"""The system-call filter of a sandbox, as the BPF program that bubblewrap loads just before it starts Python.

It is a list of refused calls. A list of permitted calls would not stay correct, because torch and the CUDA driver use
too many, and the name spaces already hide most of what calls could reach. The filter refuses calls that could break
out: tracing other processes, mounts, new name spaces, and the interfaces of the kernel with the most exploits. It also
refuses memory that engine.sandbox.holdings could not count.
"""

from __future__ import annotations

import errno
import os
import tempfile
from functools import lru_cache
from types import ModuleType

# fmt: off
REFUSED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
    "mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "pivot_root", "chroot", "unshare", "setns", "bpf", "keyctl", "add_key", "request_key",
    "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
    "open_by_handle_at", "name_to_handle_at", "quotactl", "acct", "swapon", "swapoff", "reboot", "syslog",
    "settimeofday", "clock_settime", "personality",
    # memory that no process shows: segments, queues, rings, and pages that a pipe holds (one byte may hold 2 MB)
    "shmget", "shmat", "shmctl", "msgget", "semget", "mq_open", "memfd_secret", "io_setup", "vmsplice",
    "fanotify_init",
    # lists of rights: 64 kB of the kernel's memory on each file of a tmpfs, which its size does not count
    "setxattr", "lsetxattr", "fsetxattr", "setxattrat",
    # sets of rules: 65,536 ports in each open one, 75 MB a second
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "open_tree_attr",
)
# Of calls that an older libseccomp lacks; the same on x86-64 and ARM.
NUMBERS = {
    "setxattrat": 463, "open_tree_attr": 467,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
    "set_mempolicy_home_node": 450,
}
# Of CPU sandboxes only, because the CUDA driver may use them. Sockets, too, hold memory in buffers, and a file of a
# tmpfs keeps a policy for each of its pages: 300 bytes of the kernel's memory for 4 kB that were never written.
REFUSED_ON_CPU = ("memfd_create", "socket", "socketpair", "mbind", "set_mempolicy_home_node")
# Commands, refused alike: a file keeps each locked byte, and there may be any number of them.
LOCKS_ON_CPU = (6, 7, 37, 38)  # of fcntl: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
# fmt: on
PR_FUTEX_HASH = 78  # of prctl: a table of any size, gigabytes by one call
INT = 0xFFFFFFFF  # the kernel reads a command without the upper half of its register
MAPS_ON_CPU = (0x01 | 0x20, 0x40000)  # flags of mmap: MAP_SHARED with MAP_ANONYMOUS, and MAP_HUGETLB
CLONE_NEWUSER = 0x10000000
CLONE_NEW_ANY = 0x02000000 | 0x00020000 | 0x04000000 | 0x08000000 | CLONE_NEWUSER | 0x20000000 | 0x40000000
AF_ALLOWED = (1, 16)  # AF_UNIX, which the CUDA driver may use, and AF_NETLINK, which only reads


@lru_cache(maxsize=2)
def program(gpu: bool = False) -> bytes | str:
    """The BPF program; if it cannot be built, one sentence with the reason and the way to fix it. `gpu`: the CUDA
    driver runs under it."""
    try:
        import pyseccomp as seccomp
    except ModuleNotFoundError:
        return "the Python package pyseccomp is missing (pip install -r requirements.txt)"
    except (RuntimeError, OSError, ImportError):
        return "libseccomp is missing (apt-get install libseccomp2)"
    refuse = seccomp.ERRNO(errno.EPERM)
    try:
        f = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
        for name in REFUSED:
            try:
                f.add_rule(refuse, _known(seccomp, name))
            except (OSError, ValueError, RuntimeError):
                continue  # unknown to this libseccomp or this architecture
        # clone: allow threads and forks, refuse new name spaces. The filter cannot read clone3's flags, which are
        # behind a pointer; ENOSYS makes glibc fall back to clone.
        for flag in (1 << bit for bit in range(32) if CLONE_NEW_ANY >> bit & 1):
            f.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
        f.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
        f.add_rule(refuse, "prctl", seccomp.Arg(0, seccomp.MASKED_EQ, INT, PR_FUTEX_HASH))
        if gpu:  # refuse sockets that could reach a network, in addition to the network name space
            f.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.GT, max(AF_ALLOWED)))
            for family in set(range(max(AF_ALLOWED))) - set(AF_ALLOWED):
                f.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.EQ, family))
        else:
            for name in REFUSED_ON_CPU:
                f.add_rule(refuse, _known(seccomp, name))
            for command in LOCKS_ON_CPU:
                f.add_rule(refuse, "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, INT, command))
            for flags in MAPS_ON_CPU:
                f.add_rule(refuse, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, flags, flags))
        with tempfile.TemporaryFile() as out:
            f.export_bpf(out)
            out.seek(0)
            return out.read()
    except (OSError, RuntimeError, ValueError) as e:
        return f"libseccomp refused the filter ({e}); a newer libseccomp2 helps"


def _known(seccomp: ModuleType, name: str) -> str | int:
    """A call by its name, or by its number where libseccomp is older than the call."""
    unknown = name in NUMBERS and seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) < 0
    return NUMBERS[name] if unknown else name


def descriptor(gpu: bool = False) -> int | None:
    """A fresh readable descriptor of the program (the caller closes it), or None if there is no program."""
    bpf = program(gpu)
    if isinstance(bpf, str):
        return None
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(fd, bpf)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
