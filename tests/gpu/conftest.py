"""Everything here needs the NVIDIA GPU and its toolchain, and is skipped, with the reason, where either is missing."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.playground.conftest import ROOT, House


@contextmanager
def serving(house: House) -> Iterator[House]:
    """The whole app of a house on the GPU, with one engine; `house.up` is its process."""
    log = (house.var / "up.log").open("ab")
    command = [sys.executable, "manage.py", "up", "--port", str(house.port), "--device", "cuda"]
    house.up = process = subprocess.Popen(command, cwd=ROOT, env=house.environ, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while True:
        try:
            if house.get("/healthz")["engines"] == 1:
                break
        except OSError:
            pass
        assert time.monotonic() < deadline, (house.var / "up.log").read_text()
        time.sleep(0.2)
    yield house
    process.send_signal(signal.SIGINT)
    process.wait(30)
    house.close()


@pytest.fixture(scope="session")
def cuda():
    """The engine's own device, warm: one for all tests, as one serves all sessions."""
    pytest.importorskip("torch")
    from engine.devices import SessionRefused, registry

    try:
        return registry.get("cuda", local_user=True)
    except SessionRefused as e:
        pytest.skip(e.reason)
