"""What forks would each do slowly for the first time, a copy of their server does once, and then serves instead."""

import multiprocessing
import os
import signal
import time

import pytest

from engine.sandbox import Sandbox, confine, forkserver
from engine.sandbox.forkserver import server

pytestmark = pytest.mark.skipif(confine.choose(False)[0] == "none", reason="needs bubblewrap")
ASKS = "import sys\nraise ValueError(repr(getattr(sys.modules['rehearsed'], 'READY', 'as imported')))\n"
WAYS = {
    "prepares": "READY = 'as imported'\ndef before_forks():\n    global READY\n    READY = 'prepared'\n",
    "raises": "def before_forks():\n    raise RuntimeError('no')\n",
    "dies": "import os\ndef before_forks():\n    os.kill(os.getpid(), 9)\n",
    "starts a thread": (
        "import threading, time\ndef before_forks():\n    threading.Thread(target=time.sleep, args=(60,)).start()\n"
    ),
}


@pytest.fixture
def ask(tmp_path, monkeypatch, full_sandbox):
    """`ask(text)`: what a fork sees of a module with this text; the first fork of a server of their own."""
    folders = confine.package_folders()
    monkeypatch.setattr(confine, "package_folders", lambda: [*folders, str(tmp_path)])
    kind = forkserver.Kind()
    monkeypatch.setitem(forkserver.kinds, (False, True), kind)

    def of(text: str = "") -> str:
        if text:
            (tmp_path / "rehearsed.py").write_text(text)
        with Sandbox(preload=("torch", "engine.trace.child"), late=("rehearsed",)).start() as box:
            assert box._started.fork is not None
            return box.request({"entry": "engine.trace.child", "source": ASKS}, timeout=60)["error"]["reason"]

    yield of
    kind.close()


def test_later_forks_have_what_the_copy_prepared(ask):
    seen = ask(WAYS["prepares"])
    until = time.monotonic() + 60
    while "prepared" not in seen:
        assert time.monotonic() < until, seen
        seen = ask()
    assert "prepared" in ask(), "and so have those after it"


@pytest.mark.parametrize("way", ["raises", "dies", "starts a thread"])
def test_where_that_goes_wrong_the_server_itself_goes_on(ask, way):
    assert all("as imported" in ask(text) for text in (WAYS[way], "", "", ""))
    assert forkserver.kinds[False, True].server.alive


def test_both_end_with_the_engine(ask):
    while "prepared" not in ask(WAYS["prepares"]):
        pass
    process = forkserver.kinds[False, True].server.process
    forkserver.kinds[False, True].close()
    assert process.wait(20) == 0, "the server waits for the copy that serves"


def test_a_server_that_cannot_be_copied_goes_on(monkeypatch):
    def fork():
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(server.os, "fork", fork)
    assert server._copied([lambda: None]) == -1


def test_a_copy_whose_server_has_ended_ends_without_a_word(monkeypatch, capfd):
    gone, copies, fork = multiprocessing.get_context("fork").Event(), [], os.fork
    monkeypatch.setattr(server.os, "fork", lambda: copies.append(fork()) or copies[-1])
    os.close(server._copied([gone.wait]))
    gone.set()
    assert os.waitpid(copies[0], 0)[1] == 0 and capfd.readouterr().err == ""


def test_a_copy_that_hangs_ends(monkeypatch):
    copies, fork = [], os.fork
    monkeypatch.setattr(server.os, "fork", lambda: copies.append(fork()) or copies[-1])
    monkeypatch.setattr(server, "PREPARE_SECONDS", 1)
    assert server._replaced(server._copied([lambda: time.sleep(60)])) == -1
    assert os.waitpid(copies[0], 0)[1] == signal.SIGALRM


def test_only_modules_that_say_so_are_prepared():
    assert server._before_forks(["os", "json", "a.module.that.is.not.there"]) == []
