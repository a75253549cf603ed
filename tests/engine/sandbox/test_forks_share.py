"""Memory that forks share counts once, so that an honest module may fork."""

import os
import signal
import time

import pytest

from engine.sandbox import tree

SIZE, FORKS = 64 << 20, 4


@pytest.fixture
def family():
    """A process with some memory, and forks of it that share it: their ids. The family lives in a child, because the
    tests' own process has threads."""
    reader, writer = os.pipe()
    first = os.fork()
    if first == 0:
        block = bytearray(os.urandom(1)) * SIZE
        forks = []
        for _ in range(FORKS):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(len(block) == 0)
            forks.append(pid)
        os.write(writer, " ".join(map(str, forks)).encode())
        time.sleep(60)
        os._exit(0)
    forks = [int(pid) for pid in os.read(reader, 4096).split()]
    yield [first, *forks]
    for pid in (*forks, first):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(first, 0)
    os.close(reader), os.close(writer)


def test_what_forks_share_is_counted_once(family):
    whole, _ = tree.usage(family)
    assert whole > (FORKS + 1) * SIZE, "each of them has all of it in its table"
    once = whole - tree.shared(family)
    alone, _ = tree.usage(family[:1])
    assert SIZE < once < alone + SIZE // 2 + (FORKS + 1) * (4 << 20)


def test_who_has_ended_shares_nothing():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert tree.shared([pid]) == 0
