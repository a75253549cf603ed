"""A confined child answers requests, is bounded in everything, and is gone when it is closed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from engine.devices import SessionRefused
from engine.sandbox import Sandbox, SandboxEnded, confine, pool, tree
from engine.trace.parent import refuse

# `engine.trace.load` is a module without `serve`: asking it makes the child answer with an internal error.
ANY = {"entry": "engine.trace.load"}
MODES = ["drop first", "drop inside", "root"] if os.geteuid() == 0 else ["user"]


def test_strength_is_one_of_two_words_and_a_reason():
    strength = Sandbox.strength()
    assert strength == "full" or strength.startswith("weak: ")


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_starts_keeps_everything_out(mode):
    why = confine.probe(mode, False)
    if "Permission denied" in why or "setuid" in why:
        pytest.skip(f"{mode}: {why}")  # this user cannot start it here; another mode is used
    assert why == ""


@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_ours_is_on_the_command_line_or_in_the_environment(mode, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    plan = confine.launch(mode, ["true"], gpu=False, fds=())
    for fd in plan.closes:
        os.close(fd)
    assert plan.env == {}
    assert "sk-secret" not in " ".join(plan.args)


def test_close_ends_every_process():
    box = Sandbox(preload=(), local_user=True).start()
    members = tree.descendants(box._process.pid)
    assert len(members) >= 2 or box.mode == "none"
    box.close()
    box.close()  # twice is once
    assert not any(tree.exists(p) for p in members)


@pytest.mark.parametrize("ended", ["by itself", "by a limit"])
def test_closing_what_has_ended_kills_nobody_who_has_its_process_id_now(ended):
    box = Sandbox(preload=(), local_user=True).start()
    if ended == "by itself":
        os.kill(box._process.pid, signal.SIGKILL)
        box._process.wait()
    else:
        box._finish("time_limit", "took too long")
    with subprocess.Popen(["sleep", "60"]) as other:
        box._process.pid = other.pid  # the kernel gives an id again once it has been waited for
        box.close()
        assert other.poll() is None
        other.kill()


def test_it_outlives_the_thread_that_asked_for_it():
    boxes = []
    thread = threading.Thread(target=lambda: boxes.append(Sandbox(preload=(), local_user=True).start()))
    thread.start()
    thread.join()
    time.sleep(0.3)
    with boxes[0] as box:
        assert box.alive
        assert box.request(ANY, timeout=60)["error"]["code"] == "internal"


def test_shared_memory_is_sealed_at_its_size():
    with Sandbox(preload=(), local_user=True).start() as box:
        memory = box.allocate("own", 10_000)
        memory[:5] = b"hello"
        for size in (0, 20_000):
            with pytest.raises(OSError):
                os.ftruncate(box.region_fd("own"), size)
        with pytest.raises(ValueError, match="cannot grow"):
            box.allocate("own", 1 << 20)


SLOW = ("engine.trace.warm",)  # without the name torch, so that it is not forked from a process that has it


def test_cancelling_is_prompt_and_final():
    with Sandbox(preload=SLOW, local_user=True).start(wait=False) as box:
        start = time.monotonic()
        with pytest.raises(SandboxEnded) as caught:
            box.wait_ready(120, cancelled=lambda: time.monotonic() - start > 0.2)
        assert caught.value.code == "cancelled"
        assert time.monotonic() - start < 30
        assert not box.alive


def test_a_slow_start_is_blamed_on_the_machine_and_tried_once_more(monkeypatch):
    """A child that does not get ready: it is stopped before it loads torch."""
    starts = []

    class Slow(Sandbox):
        def start(self, *args, **arguments):
            starts.append(self)
            super().start(*args, **arguments)
            for pid in tree.descendants(self._process.pid):
                os.kill(pid, signal.SIGSTOP)
            return self

    monkeypatch.setattr(pool, "Sandbox", Slow)
    with pytest.raises(SandboxEnded) as caught:
        pool.take(timeout=0.3, local_user=True, preload=SLOW)
    assert caught.value.code == "slow_start" and len(starts) == 2 and not any(box.alive for box in starts)
    refusal = refuse(caught.value)
    assert refusal.reason == (
        "Tracing did not begin: the sandbox was not ready within 0.3 s, because this machine is busy, not because of "
        "the module; try again."
    )
    assert refusal.code == "slow_start" and "loop" not in refusal.reason


def test_a_start_that_is_slow_once_succeeds(monkeypatch):
    late = iter([True])

    class SlowOnce(Sandbox):
        def wait_ready(self, timeout, cancelled=None):
            super().wait_ready(0.0 if next(late, False) else timeout, cancelled)

    monkeypatch.setattr(pool, "Sandbox", SlowOnce)
    with pool.take(local_user=True) as box:
        assert box.alive and next(late, None) is None


def test_a_killed_child_is_reported_not_waited_for():
    with Sandbox(preload=(), local_user=True).start() as box:
        os.kill(box._process.pid, 9)
        with pytest.raises(SandboxEnded) as caught:
            for _ in range(100):  # what is inside dies a moment after its launcher, and may answer once more
                box.request(ANY, timeout=120)
                time.sleep(0.02)
        assert caught.value.code == "crashed"


def test_where_bubblewrap_is_missing_only_the_local_user_is_served(monkeypatch):
    monkeypatch.setattr(confine, "bwrap_path", lambda: None)
    monkeypatch.setattr(confine, "_choose", confine._choose.__wrapped__)
    assert Sandbox.strength() == "weak: bubblewrap is not installed (apt-get install bubblewrap)"
    with pytest.raises(SessionRefused) as caught:
        Sandbox(preload=()).start()
    assert caught.value.code == "sandbox_missing"
    assert "apt-get install bubblewrap" in caught.value.reason
    with Sandbox(preload=(), local_user=True).start() as box:
        assert box.mode == "none"
        pid, scratch = box._process.pid, box._started.scratch
        assert box.request(ANY, timeout=60)["error"]["code"] == "internal"
        with open(f"/proc/{pid}/environ", "rb") as f:
            assert {v.partition(b"=")[0] for v in f.read().split(b"\0") if v} <= {
                n.encode() for n in confine.environment("none", False, "/tmp")
            }
    assert not tree.exists(pid)
    assert not os.path.exists(scratch)


def test_without_bubblewrap_a_daemon_is_found_and_ended_too(monkeypatch):
    monkeypatch.setattr(confine, "bwrap_path", lambda: None)
    monkeypatch.setattr(confine, "_choose", confine._choose.__wrapped__)
    source = (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "if libc.fork() == 0:\n    libc.setsid()\n    if libc.fork() == 0:\n        libc.sleep(600)\n    os._exit(0)\n"
    )
    scratches = []
    with Sandbox(local_user=True).start() as box:
        scratches.append(box._started.scratch)
        assert "error" in box.request({"entry": "engine.trace.child", "source": source}, timeout=120)
        assert tree._strays(box._process.pid, f"HOME={box._started.scratch}\0".encode())
    assert not tree._strays(-1, f"HOME={scratches[0]}\0".encode())


STARTED = "box = Sandbox(preload=()).start(); more = []"
FORKED = "box = Sandbox().start(); more = [forkserver.process_id(), box._started.fork._parent]"


@pytest.mark.skipif(Sandbox.strength() != "full", reason="needs bubblewrap")
@pytest.mark.parametrize("begin, least", [(STARTED, 2), (FORKED, 5)], ids=["started", "forked"])
def test_a_killed_engine_takes_its_children_with_it(begin, least):
    code = (
        f"import time; from engine.sandbox import Sandbox, forkserver, tree\n{begin}\n"
        "print(*more, *tree.descendants(box._process.pid), flush=True); time.sleep(60)"
    )
    engine = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(p) for p in engine.stdout.readline().split()]
    assert len(pids) >= least and all(tree.exists(p) for p in pids)
    engine.kill()
    engine.wait()
    end = time.monotonic() + 60
    while left := [pid for pid in pids if tree.exists(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.02)


def test_a_missing_seccomp_library_is_said(monkeypatch):
    monkeypatch.setattr(confine.seccomp, "program", lambda gpu: "libseccomp is missing (apt-get install libseccomp2)")
    if confine.choose()[0] == "none":
        pytest.skip("no bubblewrap here")
    assert "apt-get install libseccomp2" in Sandbox.strength()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sandbox_that_cannot_be_watched_is_ended_and_blamed_on_nobody(monkeypatch):
    with Sandbox(preload=("engine.trace.child",), local_user=True).start() as box:
        monkeypatch.setattr(box._holdings, "excess", lambda limit: 1 // 0)
        with pytest.raises(SandboxEnded) as end:
            box.request({"entry": "engine.trace.child", "source": "while True: pass"}, timeout=60)
        assert end.value.code == "lost" and end.value.blameless
