"""What a sandbox holds is counted or refused, whatever its name is.

Neither CI nor this module uses a cgroup: a container seldom may create one. Both filters of system calls run here: that
of a CPU sandbox, which refuses memory without a name, and that of a GPU sandbox, where it is counted.
"""

import subprocess
import sys
import threading

import pytest

from engine import processes
from engine.sandbox import Sandbox, SandboxEnded, confine, holdings, seccomp, tree
from engine.sandbox.holdings import Holdings, most_processes

pytestmark = pytest.mark.skipif(Sandbox.strength() != "full", reason="needs bubblewrap")
MEMORY = 1 << 30
TAKES = {
    "memfd": "import os\ntry:\n    os.memfd_create('x'); print('yes')\nexcept OSError:\n    print('no')",
    "shared map": "import mmap\ntry:\n    mmap.mmap(-1, 4096); print('yes')\nexcept OSError:\n    print('no')",
    "socket": "import socket\ntry:\n    socket.socketpair(); print('yes')\nexcept OSError:\n    print('no')",
    "private map": "import mmap\nmmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); print('yes')",
    "zeros": "print('yes' if open('/dev/zero', 'rb').read(9) == bytes(9) else 'no')",
    "segment": "import ctypes\nprint('no' if ctypes.CDLL(None).shmget(0, 4096, 0o1600) < 0 else 'yes')",
    "io ring": "import ctypes\nprint('no' if ctypes.CDLL(None).syscall(425, 8, bytes(256)) < 0 else 'yes')",
}
WITH_GPU = {"memfd", "shared map", "socket", "private map", "zeros"}
ON_CPU = {"private map", "zeros"}


@pytest.fixture
def filter_of_gpu(monkeypatch):
    """Sandboxes on this machine without a GPU, under the filter of those with one."""
    program = seccomp.descriptor
    monkeypatch.setattr(confine.seccomp, "descriptor", lambda gpu: program(True))


def inside(code):
    plan = confine.launch(confine.choose()[0], [sys.executable, "-I", "-S", "-c", code], gpu=False, fds=())
    done = subprocess.run(
        plan.args, env=plan.env, cwd="/", capture_output=True, text=True, timeout=60, pass_fds=plan.fds,
        **confine.drop_arguments(plan.user),
    )  # fmt: skip
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("name", TAKES)
def test_a_cpu_sandbox_takes_no_memory_without_a_name(name):
    assert inside(TAKES[name]) == ("yes" if name in ON_CPU else "no")


@pytest.mark.parametrize("name", TAKES)
def test_a_gpu_sandbox_takes_what_the_driver_may_need(name, filter_of_gpu):
    assert inside(TAKES[name]) == ("yes" if name in WITH_GPU else "no")


def ends(text, *before, code="no_model"):
    """How a text ends; the texts before it end with an error of that code, in the same sandbox."""
    with Sandbox(preload=("engine.trace.child",), memory_bytes=MEMORY).start() as box:
        box._holdings.gpu = box.gpu = True  # counted as with a GPU, and RLIMIT_DATA is not set
        for one in before:
            assert box.request({"entry": "engine.trace.child", "source": one}, timeout=120)["error"]["code"] == code
        with pytest.raises(SandboxEnded) as caught:
            box.request({"entry": "engine.trace.child", "source": text}, timeout=120)
        return caught.value


def test_memory_of_open_memfd_files_is_counted_once(filter_of_gpu):
    text = (
        "import os, time\nheld = [os.memfd_create('x') for _ in range(24)]\n"
        "for fd in held:\n    os.dup(fd)\n    os.write(fd, bytes({} << 20))\n"
    )
    ended = ends(text.format(60) + "time.sleep(120)", text.format(8))
    assert ended.code == "memory_limit", ended


def test_memory_that_is_mapped_and_touched_is_counted(filter_of_gpu):
    text = (
        "import mmap, time\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 32 << 20))\n"
        "    held[-1][:] = b'x' * (32 << 20)\n"
    )
    assert ends(text).code == "memory_limit"


def test_files_and_inodes_of_both_mounts_are_counted():
    with Sandbox().start() as box:
        size, files = box._holdings._files()
        assert len(box._holdings._mounts) == 2 and (size, files) < (1 << 20, 10)
        text = (
            "import os\nfor folder in ('/scratch', '/dev/shm'):\n    for i in range(100):\n"
            "        with open(f'{folder}/{i}', 'wb') as f:\n            f.write(bytes(1 << 16))"
        )
        box.request({"entry": "engine.trace.child", "source": text}, timeout=60)
        more, many = box._holdings._files()
        assert 200 <= many - files < 210 and 200 << 16 <= more - size < 201 << 16  # OpenMP makes a file, too
        assert box._holdings.excess(MEMORY) is None
        assert box._holdings.excess(1 << 20)[0] == "memory_limit"
    assert box._holdings._mounts == []


def test_too_many_files_end_it(monkeypatch):
    monkeypatch.setattr(holdings, "MAX_FILES", 50)
    with Sandbox().start() as box:
        text = "import time\nfor i in range(60):\n    open(f'/scratch/{i}', 'w').close()\ntime.sleep(60)"
        with pytest.raises(SandboxEnded, match="made more than 50 files") as caught:
            box.request({"entry": "engine.trace.child", "source": text}, timeout=60)
    assert caught.value.code == "disk_limit"


def test_a_reading_from_before_the_last_text_ended_refuses_nothing(monkeypatch):
    child = subprocess.Popen(["sleep", "60"])
    try:
        old = processes.Table()
        for pid in range(10**7, 10**7 + 2 * most_processes()):
            old.processes[pid] = processes.Process(pid, child.pid, child.pid, threads=1, resident=0)
        real, me = processes.table, threading.get_ident()  # threads of earlier tests' sandboxes still read

        def table(age=0.0):
            return old if age and threading.get_ident() == me else real(age)

        monkeypatch.setattr(processes, "table", table)
        members, _, tasks = tree.glance(child.pid, None, 0.05)
        assert len(members) > most_processes() and tasks > most_processes()
        assert Holdings(child.pid, None, gpu=False).excess(1 << 34) is None
    finally:
        child.kill()
        child.wait()


def test_memory_in_page_tables_ends_it_before_anybody_walks_them(monkeypatch):
    """8 TiB of addresses, read once in each 2 MiB: what a walk looks at grows faster than it walks."""
    walked = []
    monkeypatch.setattr(tree, "shared", lambda pids: walked.append(tree.usage(pids, (b"VmPTE:",))[0]) or 0)
    ended = ends(
        "import mmap\nspace = mmap.mmap(-1, 8 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, "
        "prot=mmap.PROT_READ)\nfor at in range(0, len(space), 2 << 20):\n    space[at]\n"
    )
    assert ended.code == "memory_limit", ended
    assert all(size <= MEMORY // 2 for size in walked)


def test_areas_that_many_forks_map_end_it_before_it_answers():
    """60,000 areas in each of 40 forks: 500 MB of the kernel's memory and more, and few pages."""
    text = (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, "
        "*[ctypes.c_int] * 3, ctypes.c_long]\nfor i in range(60_000):\n    libc.mmap(None, 4096, 1 + 2 * (i & 1), 34, "
        "-1, 0)\nfor _ in range(40):\n    if libc.fork() == 0:\n        libc.sleep(60)\n        libc._exit(0)\n"
        "libc.sleep(20)\nraise Exception('answered')\n"
    )
    ended = ends(text)
    assert ended.code == "process_limit", ended
