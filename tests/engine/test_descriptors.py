"""More than a thousand files may be open, and each of them can be waited for."""

import os
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest

from engine import descriptors
from engine.jsonprocess import JsonProcess


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_what_can_be_read_is_named(pair):
    one, other = pair
    assert descriptors.readable(one, other, seconds=0) == []
    other.send(b"x")
    assert descriptors.readable(one, other, seconds=0) == [one]
    assert descriptors.readable(one.fileno(), seconds=0) == [one.fileno()]


def test_an_end_is_something_to_read_and_to_write(pair):
    one, other = pair
    other.close()
    assert descriptors.readable(one, seconds=0) == [one] and descriptors.writable(one, seconds=0) == [one]


def test_it_waits_as_long_as_it_is_told_and_no_longer_than_needed(pair):
    one, other = pair
    began = time.monotonic()
    assert descriptors.readable(one, seconds=0.05) == [] and time.monotonic() - began >= 0.05
    threading.Timer(0.05, other.send, (b"x",)).start()
    assert descriptors.readable(one) == [one]
    assert descriptors.readable(one, seconds=-1.0) == [one], "a time that is over asks once"


def test_a_full_pipe_takes_nothing():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        assert descriptors.writable(writer, seconds=0) == [writer]
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writer, bytes(1 << 16))
        assert descriptors.writable(writer, seconds=0) == []
    finally:
        os.close(reader)
        os.close(writer)


def test_a_process_may_have_as_many_as_the_machine_allows():
    code = "import resource; from engine import descriptors; descriptors.allow_many(); "
    code += "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    few = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, {4096})); "
    out = subprocess.run([sys.executable, "-c", few + code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["4096", "4096"]


def test_a_worker_answers_an_engine_with_more_than_a_thousand_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("this machine allows fewer")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    files = []
    try:
        while not files or files[-1] < 1100:
            files.append(os.open(os.devnull, os.O_RDONLY))
        worker = JsonProcess([sys.executable, "-c", "print(input().replace('ask', 'told'), flush=True)"])
        try:
            assert worker.request({"ask": 1}, timeout=60) == {"told": 1}
        finally:
            worker.close()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
