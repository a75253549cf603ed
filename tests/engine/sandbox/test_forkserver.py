"""The process of a sandbox is a fork of one that has loaded torch, and reaches no more than one that was started."""

import os
import random
import time

import pytest

from engine.devices import SessionRefused
from engine.sandbox import Sandbox, SandboxEnded, confine, forkserver, pool, tree
from engine.sandbox.forkserver import join
from engine.trace import trace
from tests.playground.test_end_to_end import MODULE

pytestmark = pytest.mark.skipif(confine.choose(False)[0] == "none", reason="needs bubblewrap")
PRIVILEGES = ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp:", "Groups")  # none has a bounding set
SEES = {
    "privileges": f"[row.split() for row in open('/proc/self/status') if row.startswith({PRIVILEGES})]",
    "environment": "sorted(os.environ.items())",
    "descriptors": "sorted(link(n) for n in range(3, 400) if os.path.lexists(f'/proc/self/fd/{n}'))",
    "folders": "os.getcwd(), sorted(os.listdir('/')), sorted(os.listdir('/app'))",
    "temporary files": "__import__('tempfile').gettempdir()",
    "limits": "[resource.getrlimit(n) for n in range(16)], os.nice(0), os.umask(0), os.sched_getaffinity(0)",
    "interpreter": "sys.path, sys.argv[0], sys.executable, sys.flags.safe_path",
    "packages": "[__import__(name).__path__ for name in ('engine', 'sol')]",
    "signals": "[signal.getsignal(n) for n in signal.valid_signals()]",
    "name spaces": "ctypes.CDLL(None).unshare(0x10000000), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)",
}
SOURCE = """
import ctypes, hashlib, os, resource, signal, sys
def link(n):
    return os.readlink(f"/proc/self/fd/{n}").split(":")[0]
text = repr((EXPRESSION))
raise ValueError(text[:300] + hashlib.sha256(text.encode()).hexdigest())
"""
DRAWS = """
import random
import numpy, torch
raise ValueError(repr([random.random(), float(numpy.random.rand()), float(torch.rand(()))]))
"""
KILLS = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.kill(libc.getpid(), 9)\n"


def seen(preload: tuple[str, ...]) -> tuple[bool, dict[str, str]]:
    """(whether the process of a sandbox is a fork, what each expression gives inside). One process gives all."""
    with Sandbox(preload=preload, local_user=True).start() as box:
        sources = {what: SOURCE.replace("EXPRESSION", expression) for what, expression in SEES.items()}
        replies = {
            what: box.request({"entry": "engine.trace.child", "source": source}, timeout=120)["error"]["reason"]
            for what, source in sources.items()
        }
        return box._started.fork is not None, replies


@pytest.fixture(scope="module")
def started_and_forked() -> list[tuple[bool, dict[str, str]]]:
    return [seen(preload) for preload in (("engine.trace.child",), ("torch", "engine.trace.child"))]


@pytest.mark.parametrize("what", SEES)
def test_a_fork_sees_what_a_process_sees_that_was_started_inside(what, started_and_forked):
    started, forked = started_and_forked
    assert not started[0] and forked[0]
    assert forked[1][what] == started[1][what] and "ValueError" in forked[1][what]


def test_a_sandbox_with_torch_is_forked_and_others_are_started():
    with Sandbox(local_user=True).start() as box, Sandbox(preload=(), local_user=True).start() as plain:
        assert box._started.fork is not None and plain._started.fork is None


def test_the_second_takes_a_fraction_of_what_torch_takes():
    with Sandbox(local_user=True).start():
        pass
    before = os.times()
    began = time.monotonic()
    with Sandbox(local_user=True).start() as box:
        assert box.alive
    after = os.times()
    assert after.children_user - before.children_user < 1.0
    assert time.monotonic() - began < 30


def test_every_name_space_is_the_sandboxs_own():
    with Sandbox(local_user=True).start() as box:
        fork = box._started.fork
        spaces = {name: os.stat(f"/proc/{fork._pid}/ns/{name}").st_ino for name in fork.spaces}
        ours = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in spaces}
        assert spaces == fork.spaces and {"mnt", "pid", "net", "ipc", "uts"} <= {
            n for n in ours if ours[n] != spaces[n]
        }
        assert tree.inner_pid(fork._pid) == box._inner
        assert fork._pid in tree.descendants(box._process.pid)


def test_two_draw_different_numbers_and_torch_begins_as_ever():
    first, second = (drawn() for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]
    assert first[2] == second[2]


def drawn() -> list[float]:
    with Sandbox(local_user=True).start() as box:
        reason = box.request({"entry": "engine.trace.child", "source": DRAWS}, timeout=120)["error"]["reason"]
    return [float(x) for x in reason[reason.index("[") + 1 : reason.index("]")].split(",")]


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("import os\nos._exit(3)\n", "exited", "status 3"),
        ("import ctypes\nctypes.string_at(0)\n", "crashed", "SIGSEGV"),
        (KILLS, "crashed", "killed"),
    ],
)  # fmt: skip
def test_the_end_of_a_fork_is_told_as_that_of_any_process(source, code, words):
    with Sandbox(local_user=True).start() as box:
        with pytest.raises(SandboxEnded) as ended:
            box.request({"entry": "engine.trace.child", "source": source}, timeout=120)
        assert ended.value.code == code and words in ended.value.reason


def test_what_ends_leaves_no_process():
    with Sandbox(local_user=True).start() as box:
        members = [*tree.descendants(box._process.pid, box._uid), box._started.fork._parent]
        assert all(tree.exists(pid) for pid in members)
    end = time.monotonic() + 60
    while left := [pid for pid in members if tree.exists(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.01)
    assert tree.exists(forkserver.process_id())


def test_a_server_that_was_killed_is_started_again():
    with Sandbox(local_user=True).start() as box:
        os.kill(forkserver.process_id(), 9)
        while forkserver.process_id() is not None:
            time.sleep(0.01)
        assert box.request({"entry": "engine.trace.child", "source": "class"}, timeout=120)["error"]
    with Sandbox(local_user=True).start() as box:
        assert box._started.fork is not None


def test_an_order_for_a_sandbox_that_is_gone_harms_nobody():
    boxes = [Sandbox(local_user=True).start(wait=False) for _ in range(3)]
    for box in boxes:
        box.close()
    with Sandbox(local_user=True).start() as box:
        assert box._started.fork is not None and box.alive


def test_where_a_fork_cannot_join_each_loads_torch_itself(monkeypatch, caplog):
    """A server whose forks fail is noticed by its first, which serves nobody."""
    forkserver.close()
    monkeypatch.setitem(forkserver.kinds, (False, False), forkserver.Kind())
    monkeypatch.setattr(forkserver.Server, "probe", lambda self, gpu, preload: "[Errno 1] could not join a name space")
    with Sandbox(local_user=True).start() as box:
        assert box._started.fork is None and box.alive
    assert "could not join a name space" in caplog.text and forkserver.process_id() is None


def test_what_still_reaches_something_is_refused(monkeypatch):
    """`reach` in a process with all that a sandbox must not have, this one."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if set(join.reach(__file__)) >= {"privileges", "system calls", "a file of the engine"} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_fork_server_knows_no_secret_and_has_one_thread(monkeypatch):
    forkserver.close()
    monkeypatch.setenv("UCUTLASS_TEST_SECRET", str(random.random()))
    with Sandbox(local_user=True).start():
        pid = forkserver.process_id()
        with open(f"/proc/{pid}/environ", "rb") as environ:
            assert os.environ["UCUTLASS_TEST_SECRET"].encode() not in environ.read()
        assert len(os.listdir(f"/proc/{pid}/task")) == 1


def test_a_fork_gets_the_cores_of_the_thread_that_orders_it(monkeypatch):
    """engine.cores keeps some quiet, perhaps since after the server began."""
    cores = os.sched_getaffinity(0)
    with Sandbox(local_user=True).start() as box:
        assert os.sched_getaffinity(box._started.fork._pid) == cores
    if len(cores) > 1:
        from engine.sandbox import process

        one = {min(cores)}
        process._starter.submit(os.sched_setaffinity, 0, one).result()
        try:
            with Sandbox(local_user=True).start() as box:
                assert os.sched_getaffinity(box._started.fork._pid) == one
        finally:
            process._starter.submit(os.sched_setaffinity, 0, cores).result()


def test_one_that_ends_as_it_begins_does_not_stop_the_others(monkeypatch):
    real = forkserver.Forked.enter

    def ended(self):
        os.kill(self.process.pid, 9)
        self.process.wait()
        while self._pid is None or tree.exists(self._pid):
            self._read(0.01, lambda: self._pid is not None)
        real(self)

    with monkeypatch.context() as m:
        m.setattr(forkserver.Forked, "enter", ended)
        for _ in range(2):
            with pytest.raises(SandboxEnded) as end:
                Sandbox(local_user=True).start()
            assert end.value.code == "crashed" and "has ended" in end.value.reason
    with Sandbox(local_user=True).start() as box:
        assert box._started.fork is not None


def test_many_that_fail_are_not_tried_for_ever(monkeypatch, caplog):
    monkeypatch.setitem(forkserver.kinds, (False, False), forkserver.Kind())
    monkeypatch.setattr(forkserver.Server, "fork", lambda *a, **k: (_ for _ in ()).throw(forkserver.Unable("no room")))
    with monkeypatch.context() as m:
        m.setattr(forkserver.Server, "probe", lambda self, gpu, preload: "")
        for _ in range(forkserver.FAILURES):
            with Sandbox(local_user=True).start() as box:
                assert box._started.fork is None and box.alive
    assert forkserver.kinds[False, False].able is False and "not forked any more" in caplog.text
    forkserver.kinds[False, False].failed.clear()


def test_where_the_server_cannot_load_what_a_fork_needs_bubblewrap_starts_it(monkeypatch, caplog):
    real = forkserver.Server.fork
    needs = ("torch", "a_module_that_is_missing")
    monkeypatch.setattr(
        forkserver.Server, "fork", lambda server, arguments, _, *a, **k: real(server, arguments, needs, *a, **k)
    )
    with pool.take(local_user=True) as box:
        assert box._started.fork is None and box.alive
    assert "No module named 'a_module_that_is_missing'" in caplog.text
    forkserver.kinds[False, False].failed.clear()


def test_a_fork_whose_waiting_parent_was_killed_is_not_said_to_have_ended_by_itself():
    with Sandbox(local_user=True).start() as box:
        os.kill(box._started.fork._parent, 9)
        with pytest.raises(SandboxEnded) as ended:
            box.request({"entry": "engine.trace.child", "source": "while True: pass"}, timeout=120)
        assert ended.value.code == "lost" and "a process of the engine was killed" in ended.value.reason


@pytest.mark.parametrize("whose", ["_parent", "_pid"])
def test_a_module_whose_process_was_killed_from_outside_is_traced_again(whose, monkeypatch):
    real, asked = Sandbox.request, []

    def request(box, *a, **k):
        asked.append(box)
        if len(asked) == 1:
            os.kill(getattr(box._started.fork, whose), 9)
        return real(box, *a, **k)

    monkeypatch.setattr(Sandbox, "request", request)
    assert trace(MODULE, local_user=True).graph.ops and len(asked) == 2


def test_a_module_that_kills_itself_is_refused_the_second_time():
    with pytest.raises(SessionRefused, match="was killed") as refused:
        trace(KILLS, local_user=True)
    assert refused.value.code == "crashed"
