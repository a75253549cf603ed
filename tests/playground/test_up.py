"""`manage.py up`, which is what `make run` runs: everything starts, says where it is, and ends together."""

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from django.core.management.base import CommandError

from playground.engines import CANNOT
from playground.management.commands.up import HEALTHY, Command, Pauses
from tests.playground.conftest import ROOT, House


@pytest.fixture
def house(tmp_path):
    built = House(tmp_path)
    yield built
    built.close()


def up(house, *args):
    command = [sys.executable, "manage.py", "up", "--port", str(house.port), *args]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, env=house.environ, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    house.processes.append(process)
    return process


def until(condition, seconds=180):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := condition():
                return value
        except OSError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.2)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def command_line(pid):
    with open(f"/proc/{pid}/cmdline") as f:
        return f.read()


def alive():
    """Processes that run; one that ended and that nobody waited for does not count."""
    pids = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError), open(f"{entry.path}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] != "Z":
                    pids.add(int(entry.name))
    return pids


def engine_of(process):
    return next((p for p in children(process.pid) if "engine" in command_line(p)), None)


def test_page_and_engine_start_together_and_again_when_killed_and_ctrl_c_ends_both(house):
    house.environ["UCUTLASS_DEBUG"] = "0"  # as in public: static files collected, hashed and compressed
    process = up(house, "--device", "modelled:h200")
    until(lambda: house.get("/healthz")["engines"] == 1)
    page = urllib.request.urlopen(f"http://127.0.0.1:{house.port}/", timeout=60)
    html = page.read().decode()
    assert page.headers["Content-Security-Policy"] and "/static/" in html
    style = next(part.split('"')[0] for part in html.split('href="')[1:] if ".css" in part)
    served = urllib.request.urlopen(f"http://127.0.0.1:{house.port}{style}", timeout=60)
    assert "immutable" in served.headers["Cache-Control"], "static files carry their hash"

    killed = engine_of(process)
    os.kill(killed, signal.SIGKILL)
    until(lambda: engine_of(process) not in (None, killed))

    (web,) = set(children(process.pid)) - {engine_of(process)}
    time.sleep(1.0)  # until `up` has seen it answer too
    os.kill(web, signal.SIGKILL)
    until(lambda: house.get("/healthz")["ok"] and web not in children(process.pid))

    running = children(process.pid)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert f":{house.port}/" in output and "The engine ended" in output
    assert "The web process ended (exit -9); starting again in 1 s." in output
    assert not alive() & set(running)


def test_when_it_is_killed_itself_nothing_is_left(house):
    process = up(house, "--no-engine")
    until(lambda: house.get("/healthz")["ok"])
    (web,) = children(process.pid)
    process.kill()
    process.wait()
    until(lambda: web not in alive(), 20)


def test_a_port_in_use_is_said_with_the_way_out(house):
    house.web()
    process = up(house)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 1 and f"--port {house.port + 1}" in output and "Traceback" not in output


@pytest.mark.parametrize(
    ("host", "port", "fix"),
    [
        ("203.0.113.7", 8000, "--host 127.0.0.1"),
        ("127.0.0.1", 65535, "--port 8000"),
        ("127.0.0.1", 8000, "--port 8001"),
    ],
)
def test_the_way_out_is_one_that_works(monkeypatch, host, port, fix):
    """Another port does not help where the host is none of ours, nor is there one above 65535."""
    fault = OSError(errno.EADDRINUSE, "Address already in use")
    if host == "127.0.0.1":
        monkeypatch.setattr(socket.socket, "bind", lambda *a: (_ for _ in ()).throw(fault))
    with pytest.raises(CommandError, match=re.escape(f"Try: {fix}")):
        Command._free(host, port)


@pytest.mark.parametrize("device", ["gameboy", "modelled:a100-80gb"])
def test_an_unknown_device_is_said_with_what_there_is(house, device):
    command = [sys.executable, "manage.py", "engine", "--device", device, "--once"]
    done = subprocess.run(command, cwd=ROOT, env=house.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == CANNOT and "modelled:h200" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--device", "gameboy"), "modelled:h200"),
        (("--device", "modelled:gameboy"), "modelled:h200"),
        (("--port", "99999"), "from 1 to 65535"),
        (("--port", "0"), "from 1 to 65535"),
        (("--port", "http"), "from 1 to 65535"),
    ],
)
def test_what_cannot_be_started_is_said_before_anything_starts(house, args, word):
    process = up(house, *args)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 2 and word in output and "Traceback" not in output and "Ctrl-C" not in output


def test_an_engine_that_cannot_run_here_is_not_started_for_ever(house):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU")
    process = up(house, "--device", "cuda")
    output = process.communicate(timeout=90)[0]
    assert process.returncode == CANNOT and output.count("No device to run on") == 1 and "again in" not in output


def test_the_pause_before_an_engine_starts_again_grows_and_is_short_again_after_a_healthy_life():
    pauses, now = Pauses(), 1000.0
    waits = []
    for lived in (5.0, 5.0, 5.0, 5.0, HEALTHY + 1, 5.0):
        pauses.started(now)
        now += lived
        waits.append(pauses.fell(now))
    assert waits == [1, 2, 5, 10, 1, 2]


def test_only_the_engine_gets_the_key_of_the_models(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789abcdef")
    look = ["-c", "import os, sys; sys.exit('OPENAI_API_KEY' in os.environ)"]
    assert Command._start([*look, "engine"]).wait(120) == 1
    assert Command._start([*look, "daphne"]).wait(120) == 0
