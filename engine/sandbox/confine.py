"""Start a confined Python: the bubblewrap command line, and a probe that tests the confinement.

There are four modes, tried in this order. The engine uses the first one whose probe passes until it ends. All have no
network, no home, no /etc, an empty environment, a read-only system and no capabilities.

    user          we are an ordinary user: bubblewrap in a new user name space
    drop first    we are root: change to a user id that no other process has, then as `user`
    drop inside   we are root and other users may not read our Python (/root): bubblewrap mounts as root, and setpriv
                  changes to that user before Python starts
    root          we are root and cannot change the user: a user name space over root. RLIMIT_NPROC does not apply
                  to root, so the parent counts the processes

If no probe passes, the mode is `none`: limits and an empty environment only.
"""

from __future__ import annotations

import glob
import importlib.util
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from engine.sandbox import seccomp

REPOSITORY = Path(__file__).resolve().parents[2]
CODE = ("engine", "sol", "dsl")  # the folders that a child imports
SCRATCH_BYTES = 256 << 20
SHM_BYTES = 1 << 30
FIRST_UID, UIDS = 61184, 4000  # systemd's range for users that exist only while a service runs

_serial = itertools.count()
_lock = threading.Lock()


@dataclass(frozen=True)
class Launch:
    """The arguments of Popen. `uid`: the user of the sandbox if it is not ours, else None."""

    args: list[str]
    env: dict[str, str]
    user: int | None = None
    uid: int | None = None
    cwd: str = "/"
    fds: tuple[int, ...] = ()
    closes: tuple[int, ...] = field(default=())


def bwrap_path() -> str | None:
    return shutil.which("bwrap")


def fresh_uid() -> int:
    """A user id that no process has, so that the processes of two sandboxes cannot signal each other or share
    limits."""
    used = set()
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            used.add(os.stat(entry).st_uid)
        except OSError:
            continue
    for _ in range(UIDS):
        uid = FIRST_UID + (os.getpid() * 31 + next(_serial)) % UIDS
        if uid not in used:
            return uid
    return 65534


@lru_cache(maxsize=2)
def python_roots(gpu: bool) -> tuple[str, ...]:
    """The folders outside /usr of this Python, its packages and torch and, with `gpu`, of the driver."""
    roots = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    roots.update(package_folders())
    spec = importlib.util.find_spec("torch")  # does not import it
    if spec and spec.origin:
        roots.add(str(Path(spec.origin).parent.parent))
    link = sys.executable
    while os.path.islink(link):
        link = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
        roots.add(str(Path(link).parent.parent))
    if gpu:
        roots.update(driver_folders())
        roots.update(toolkit_folders())
    real = {os.path.abspath(r) for r in roots} | {os.path.realpath(r) for r in roots}
    real = {r for r in real if os.path.isdir(r) and r not in ("/", str(Path.home()))}
    return tuple(sorted(r for r in real if not any(_inside(r, o) for o in (*real, "/usr") if o != r) and r != "/usr"))


def package_folders() -> list[str]:
    """Folders of installed packages on sys.path, with those of PYTHONPATH, without our working tree."""
    on_pythonpath = {os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    folders = []
    for entry in map(os.path.abspath, filter(None, sys.path)):
        named = any(p in ("site-packages", "dist-packages") for p in Path(entry).parts)
        ours = entry == str(REPOSITORY) or _inside(str(REPOSITORY), entry) or entry in ("/", str(Path.home()))
        if os.path.isdir(entry) and (named or entry in on_pythonpath) and not ours:
            folders.append(entry)
    return list(dict.fromkeys(folders))


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def driver_folders() -> list[str]:
    """Folders of the NVIDIA driver's libraries outside the loader's default path."""
    candidates = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
    return [f for f in dict.fromkeys(candidates) if f.startswith("/") and os.path.isdir(f)]


def toolkit_folders() -> list[str]:
    """The real folders of the CUDA toolkit (engine.build.cuda_toolchain.on_path), for raw CUDA compiled in a
    sandbox."""
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        return []
    folders = {str(Path(p).parent.parent) for p in (os.path.abspath(nvcc), os.path.realpath(nvcc))}
    return sorted({f for f in map(os.path.realpath, folders) if os.path.isdir(os.path.join(f, "nvvm"))})


def environment(mode: str, gpu: bool, scratch: str, visible: str = "") -> dict[str, str]:
    """The whole environment of a child. From ours it gets only the choice of the GPU, unless `visible` is one."""
    env = {
        "HOME": scratch,
        "TMPDIR": scratch,
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "PYTHONPATH": ":".join([str(REPOSITORY) if mode == "none" else "/app", *package_folders()]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "CXX": "g++",  # for torch.utils.cpp_extension: /usr/bin/c++ leads over /etc, which no sandbox shows
        "OMP_WAIT_POLICY": "passive",  # a thread that spins takes a core from the sandboxes beside it
        "UCUTLASS_SANDBOX": mode.replace(" ", "-"),
    }
    if gpu:
        env["LD_LIBRARY_PATH"] = ":".join(driver_folders())
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
            if name in os.environ:
                env[name] = os.environ[name]
        if visible:
            env["CUDA_VISIBLE_DEVICES"] = visible
    else:
        env["CUDA_VISIBLE_DEVICES"] = ""
    return env


@lru_cache(maxsize=1)
def _bwrap_knows(option: str) -> bool:
    try:
        text = subprocess.run([bwrap_path(), "--help"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option in text.stdout + text.stderr


def _mounts(gpu: bool) -> list[str]:
    args = ["--ro-bind", "/usr", "/usr"]
    for top in ("/lib", "/lib64", "/lib32", "/bin", "/sbin"):
        if os.path.islink(top):
            args += ["--symlink", os.readlink(top), top]
        elif os.path.isdir(top):
            args += ["--ro-bind", top, top]
    roots = python_roots(gpu)
    # As root, bubblewrap creates missing parents with mode 0700, which an unprivileged user could not enter.
    parents = {str(p) for r in roots for p in Path(r).parents if str(p) not in ("/", "/usr")}
    for parent in sorted(parents):
        args += ["--perms", "0755", "--dir", parent]
    for root in roots:
        args += ["--ro-bind", root, root]
    args += ["--perms", "0755", "--dir", "/app"]
    for name in CODE:
        args += ["--ro-bind", str(REPOSITORY / name), f"/app/{name}"]
    # A fork (engine.sandbox.forkserver) loaded its code from here.
    for parent in sorted(str(p) for p in (REPOSITORY, *REPOSITORY.parents) if str(p) not in ("/", "/usr")):
        args += ["--perms", "0755", "--dir", parent]
    for name in CODE:
        args += ["--ro-bind", str(REPOSITORY / name), str(REPOSITORY / name)]
    args += ["--proc", "/proc", "--dev", "/dev"]
    if not gpu:  # the CUDA driver may need it
        # A shared map of /dev/zero is memory without a name. /dev/full reads as zeros too, and cannot be mapped.
        args += ["--dev-bind", "/dev/full", "/dev/zero"]
    if gpu:
        for node in sorted(glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia-caps/*")):
            if stat.S_ISCHR(os.stat(node).st_mode):
                args += ["--dev-bind", node, node]
        args += ["--ro-bind", "/sys", "/sys"]
        for path in ("/etc/ld.so.cache", "/etc/ld.so.conf.d"):
            if os.path.exists(path):
                args += ["--perms", "0755", "--dir", "/etc", "--ro-bind", path, path]
    args += ["--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    args += ["--perms", "1777", "--size", str(SCRATCH_BYTES), "--tmpfs", "/scratch", "--remount-ro", "/"]
    return [*args, "--chdir", "/scratch"]


def launch(
    mode: str, command: list[str], *, gpu: bool, fds: tuple[int, ...], scratch: str | None = None, visible: str = ""
) -> Launch:
    """The confined form of `command` in `mode`, with the descriptors `fds` open."""
    root = os.geteuid() == 0
    if mode == "none":
        uid = fresh_uid() if root and _readable_by_others() else None
        return Launch(command, environment(mode, gpu, scratch or "/tmp", visible), uid, uid, scratch or "/", fds)
    filter_fd = seccomp.descriptor(gpu)
    args = [bwrap_path() or "bwrap"]
    uid = fresh_uid() if mode in ("drop first", "drop inside") else None
    if mode == "drop inside":
        args += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        args += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        drop = [shutil.which("setpriv") or "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        command = [*drop, "--inh-caps=-all", "--", *command]
    else:
        args += ["--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
        if _bwrap_knows("--disable-userns"):
            args += ["--disable-userns"]
    args += ["--die-with-parent", "--new-session", "--hostname", "sandbox", *_mounts(gpu), "--clearenv"]
    for name, value in environment(mode, gpu, "/scratch", visible).items():
        args += ["--setenv", name, value]
    if filter_fd is not None:
        args += ["--seccomp", str(filter_fd)]
        fds = (*fds, filter_fd)
    user = uid if mode == "drop first" else None
    # bubblewrap gets an empty environment, because the sandbox can read it in /proc/1/environ.
    return Launch([*args, "--", *command], {}, user, uid, "/", fds, () if filter_fd is None else (filter_fd,))


def _readable_by_others() -> bool:
    """Return True if any user may read this Python and our code."""
    for start in (*python_roots(False), str(REPOSITORY)):
        for path in (Path(start), *Path(start).parents):
            if not path.stat().st_mode & stat.S_IXOTH:
                return False
    return True


_PROBE = """
import ctypes, json, os, socket, sys
facts = {"uid": os.getuid(), "pid": os.getpid(), "etc": os.path.exists("/etc/passwd")}
try:
    facts["environ"] = len(open("/proc/1/environ", "rb").read()) > 0
except OSError:
    facts["environ"] = False
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("192.0.2.1", 9)); facts["network"] = True
except OSError:
    facts["network"] = False
try:
    open("/usr/probe", "w"); facts["writes"] = True
except OSError:
    facts["writes"] = False
facts["userns"] = ctypes.CDLL(None).unshare(0x10000000) == 0
facts["home"] = os.path.exists(sys.argv[1])
print(json.dumps(facts))
"""


def hidden(gpu: bool = False) -> str:
    """A file of ours that no sandbox shows. (If our tree lies in a folder of packages, its files are shown.)"""
    secret = str(REPOSITORY / "pyproject.toml")
    return "/nonexistent" if any(_inside(secret, root) for root in ("/usr", *python_roots(gpu))) else secret


def probe(mode: str, gpu: bool) -> str:
    """ "" if a Python started in `mode` and could reach nothing that is forbidden, else the reason."""
    plan = launch(mode, [sys.executable, "-I", "-S", "-c", _PROBE, hidden(gpu)], gpu=gpu, fds=())
    try:
        done = subprocess.run(
            plan.args, env=plan.env, cwd="/", capture_output=True, timeout=20, stdin=subprocess.DEVNULL,
            pass_fds=plan.fds, **drop_arguments(plan.user),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as e:
        return str(e)
    finally:
        for fd in plan.closes:
            os.close(fd)
    if done.returncode:
        return done.stderr.decode(errors="replace").strip().splitlines()[-1:][0] if done.stderr.strip() else "no output"
    try:
        facts = json.loads(done.stdout)
    except ValueError:
        return "its answer could not be read"
    forbidden = ("etc", "environ", "network", "writes", "userns", "home")
    reached = [name for name in forbidden if facts.get(name) is not False]
    return f"inside, it could still reach: {', '.join(reached)}" if reached else ""


def popen(plan: Launch, **streams: object) -> subprocess.Popen:
    """Start a launch as the leader of a session."""
    return subprocess.Popen(
        plan.args, env=plan.env, cwd=plan.cwd, pass_fds=plan.fds, start_new_session=True,
        **drop_arguments(plan.user), **streams,
    )  # fmt: skip


def drop_arguments(user: int | None) -> dict:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@lru_cache(maxsize=2)
def _choose(gpu: bool) -> tuple[str, str]:
    if bwrap_path() is None:
        return "none", "bubblewrap is not installed (apt-get install bubblewrap)"
    modes = ["drop first", "drop inside", "root"] if os.geteuid() == 0 else ["user"]
    if shutil.which("setpriv") is None:
        modes = [m for m in modes if m != "drop inside"]
    why = ""
    for mode in modes:
        why = probe(mode, gpu)
        if not why:
            return mode, ""
    return "none", (
        f"bubblewrap cannot start here ({why[:200]}); allow unprivileged user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile for bwrap)"
    )


def choose(gpu: bool = False) -> tuple[str, str]:
    """(mode, reason if `none`): the first mode whose probe passes. Probed once per process."""
    with _lock:
        return _choose(gpu)


def strength(gpu: bool = False) -> str:
    """`full`, or `weak: <why, and how to fix it>`."""
    mode, why = choose(gpu)
    if mode == "none":
        return f"weak: {why}"
    bpf = seccomp.program(gpu)
    if isinstance(bpf, str):
        return f"weak: the sandbox has no system-call filter because {bpf}"
    return "full"
