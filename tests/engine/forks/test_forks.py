"""Our warm processes are forks of one server: as a process of their own, only sooner."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine import forks, start
from engine.jsonprocess import JsonProcess, WorkerLost, python_path

COMMAND = start.command("tests.engine.forks.echo", "--flag")
SETTINGS = {"QUACK_ARCH": "sm_90", "PYTHONPATH": python_path()}
# What other tests of this process left in the environment is none of the server's settings.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in forks.IMPORTED} | SETTINGS
WITHOUT_TORCH = {
    name: value for name, value in ENVIRONMENT.items() if name != "OMP_NUM_THREADS"
}  # which a fork tells it
PATIENCE = 90.0  # for the server's imports, on a busy machine


# Servers without CuTe DSL and quack, which take each server another 9 s of a core, and one without torch, which takes
# 3 s: where it may, a test has one of these.
LIGHT = """
import sys
sys.modules |= dict.fromkeys(("tvm_ffi", "cutlass", "quack"))  # None: importing them fails
from engine.forks import server
"""
BARE = LIGHT.replace('"quack"', '"quack", "torch"')


def light_command(module: str, socket: str) -> list[str]:
    return [sys.executable, "-c", LIGHT + "server.main()", socket]


@pytest.fixture
def light(monkeypatch):
    """Servers that import torch alone, so for a while they have not started."""
    monkeypatch.setattr(forks.start, "command", light_command)


@pytest.fixture
def bare(monkeypatch):
    """Servers that import nothing of others."""
    monkeypatch.setattr(
        forks.start, "command", lambda module, socket: [sys.executable, "-c", BARE + "server.main()", socket]
    )


@pytest.fixture(scope="module")
def server():
    server = forks.Forks(SETTINGS)
    yield server
    server.close()


@pytest.fixture
def process(server):
    one = JsonProcess(COMMAND, env={**ENVIRONMENT, "WORD": "mine"}, forks=server, door="DOOR")
    yield one
    one.close()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int) -> bool:
    until = time.monotonic() + PATIENCE
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(pid)


def test_a_fork_is_a_process_of_its_own(server, process):
    about = process.request({"op": "about", "fd": process.door.inside}, timeout=PATIENCE)
    assert process.forked and about["pid"] == about["session"] == process.pid != os.getpid()
    assert about["argv"] == ["tests.engine.forks.echo", "--flag"] and about["word"] == "mine"
    assert about["torch"] and about["inherited"].startswith("socket:")
    assert about["cores"] == sorted(os.sched_getaffinity(0))


def test_a_second_fork_comes_at_once(server, process):
    process.request({"op": "about"}, timeout=PATIENCE)
    second = JsonProcess(COMMAND, env=ENVIRONMENT, forks=server)
    assert second.request({"op": "about"}, timeout=PATIENCE)["pid"] != process.pid
    ticks = Path(f"/proc/{second.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    second.close()
    assert sum(map(int, ticks)) < 100, "hundredths of a second of a core: an import of torch takes 200 and more"


def test_its_end_is_told_with_its_words(process):
    with pytest.raises(WorkerLost, match="exit status 7") as lost:
        process.request({"op": "fail"}, timeout=PATIENCE)
    assert "it says why" in lost.value.log


def test_its_death_by_a_signal_is_named(process):
    process.request({"op": "about"}, timeout=PATIENCE)
    os.kill(process.pid, signal.SIGSEGV)
    with pytest.raises(WorkerLost, match="SIGSEGV"):
        process.request({"op": "about"}, timeout=PATIENCE)
    assert not process.alive


def test_closing_ends_all_that_it_started(process):
    child, own = process.request({"op": "child"}, timeout=PATIENCE)["pid"], process.pid
    assert alive(child) and process.alive
    process.close()
    assert ends(child) and ends(own) and not process.alive


@pytest.mark.parametrize("forked", [True, False])
def test_what_a_dead_process_started_ends_too(server, forked):
    process = JsonProcess(COMMAND, env=ENVIRONMENT, forks=server if forked else None)
    child = process.request({"op": "child"}, timeout=PATIENCE)["pid"]
    with pytest.raises(WorkerLost, match="ended with"):
        process.request({"op": "fail"}, timeout=PATIENCE)
    assert process.forked == forked and ends(child)


def test_a_request_that_takes_too_long_ends_it(process):
    process.request({"op": "about"}, timeout=PATIENCE)
    with pytest.raises(WorkerLost, match="did not answer"):
        process.request({"op": "sleep"}, timeout=0.3)
    assert ends(process.pid)


def test_one_that_has_not_started_can_be_closed(light):
    server = forks.Forks(SETTINGS)
    early = JsonProcess(COMMAND, env=ENVIRONMENT, forks=server)
    assert early.forked and early.alive and early.pid == 0
    early.close()
    assert not early.alive
    late = JsonProcess(COMMAND, env=ENVIRONMENT, forks=server)
    assert late.request({"op": "about"}, timeout=PATIENCE)["torch"]
    late.close()
    server.close()


def test_other_settings_need_a_process_of_their_own(server):
    other = JsonProcess(COMMAND, env={**ENVIRONMENT, "QUACK_ARCH": "sm_100"}, forks=server)
    assert not other.forked
    other.close()


def ended(server) -> None:
    server._server.kill()
    server._server.wait()


def test_without_its_server_a_process_starts_by_itself_and_answers(light):
    server = forks.Forks(SETTINGS)
    first = JsonProcess(COMMAND, env=ENVIRONMENT, forks=server)
    ended(server)
    assert first.request({"op": "about"}, timeout=PATIENCE)["argv"][1] == "--flag" and not first.forked
    first.close()
    server.close()


def test_a_server_that_ended_is_started_again(bare, caplog):
    server = forks.Forks(SETTINGS)
    JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server).close()
    ended(server)
    second = JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server)
    assert second.request({"op": "about"}, timeout=PATIENCE)["argv"][1] == "--flag" and second.forked
    assert "get another server" in caplog.text
    second.close()
    server.close()


def test_servers_that_end_again_and_again_are_given_up(bare, caplog):
    server = forks.Forks(SETTINGS)
    for _ in range(forks.ENDS):
        one = JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server)
        assert one.forked
        one.close()
        ended(server)
    last = JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server)
    assert not last.forked and last.request({"op": "about"}, timeout=PATIENCE)["argv"][1] == "--flag"
    assert "imports by itself" in caplog.text
    last.close()
    server.close()


# A server with a thread that is busy until a pipe has a writer: of the imports, as a library's may. (A thread that only
# computes would wait for Python's lock whenever the server looks, which is a rest.)
BUSY = """
import threading, time
server.PATIENCE = float(sys.argv[2])
def work():
    open(pipe).close()
    time.sleep(1000)
pipe = sys.argv[3]
threading.Thread(target=work, daemon=True).start()
server.start.WAITS += ("202", "230", "35")  # where Python's own thread rests: futex, clock_nanosleep, nanosleep
sys.argv[:] = sys.argv[:2]
server.main()
"""


def busy_server(monkeypatch, patience: float, pipe: Path) -> forks.Forks:
    def command(module: str, socket: str) -> list[str]:
        return [sys.executable, "-c", BARE + BUSY, socket, str(patience), str(pipe)]

    os.mkfifo(pipe)
    monkeypatch.setattr(forks.start, "command", command)
    server = forks.Forks(SETTINGS)
    with server._lock:
        server._serving()
    monkeypatch.undo()
    return server


def test_a_server_waits_for_threads_that_work_for_a_moment(monkeypatch, tmp_path):
    server = busy_server(monkeypatch, patience=PATIENCE, pipe=tmp_path / "pipe")
    threading.Timer(2, (tmp_path / "pipe").write_text, [""]).start()
    one = JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server)
    assert one.request({"op": "about"}, timeout=PATIENCE)["argv"][1] == "--flag" and one.forked
    one.close()
    server.close()


def test_an_order_that_comes_while_threads_work_is_not_lost_and_the_next_is_a_fork(monkeypatch, tmp_path):
    server = busy_server(monkeypatch, patience=0.2, pipe=tmp_path / "pipe")
    first = JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server)
    assert first.request({"op": "about"}, timeout=PATIENCE)["argv"][1] == "--flag" and not first.forked
    (tmp_path / "pipe").write_text("")
    until, second = time.monotonic() + PATIENCE, first
    while not second.forked and time.monotonic() < until:
        second.close()
        second = JsonProcess(COMMAND, env=WITHOUT_TORCH, forks=server)
        second.request({"op": "about"}, timeout=PATIENCE)
    assert second.forked and server._server.poll() is None, "the same server"
    second.close()
    server.close()


def test_forks_end_with_the_engine(server):
    """However the engine ends: the server and its forks see that nobody asks them any more."""
    text = (
        "import sys, time; from engine import forks; from engine.jsonprocess import JsonProcess\n"
        f"forks.start.command = lambda module, socket: [*{light_command('', '')[:-1]!r}, socket]\n"
        f"import os; s = forks.Forks({SETTINGS!r}); env = {{**os.environ, **{SETTINGS!r}}}\n"
        f"p = JsonProcess({COMMAND!r}, env=env, forks=s); p.request({{'op': 'about'}}, timeout={PATIENCE})\n"
        "print(p.pid, s._server.pid, flush=True); time.sleep(60)\n"
    )
    engine = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, cwd=forks_root(), env=ENVIRONMENT)
    pids = list(map(int, engine.stdout.readline().split()))
    assert len(pids) == 2 and all(map(alive, pids))
    engine.kill()
    engine.wait()
    assert all(map(ends, pids))


def forks_root() -> str:
    return python_path().partition(os.pathsep)[0]
