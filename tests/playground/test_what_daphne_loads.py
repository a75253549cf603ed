"""What the web process has loaded before its first request is no work for the garbage collector, and it may have a
file open for each of thousands of viewers."""

import subprocess
import sys

import pytest

SCRIPT = """
import gc, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
import ucutlass_web.asgi
from django.urls import get_resolver
print(gc.get_freeze_count(), len(gc.get_objects()), get_resolver()._populated)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.fixture(scope="module")
def state():
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    return out.stdout.split()[-5:]


def test_it_is_left_alone(state):
    frozen, looked_at, views, *_ = state
    assert int(frozen) > 50_000 > 10 * int(looked_at) and views == "True"


def test_files_may_be_many(state):
    soft, hard = map(int, state[3:])
    assert soft == (hard if 0 <= hard <= 1 << 16 else 1 << 16)
