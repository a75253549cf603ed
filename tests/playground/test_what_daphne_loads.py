"""What the web process has loaded before its first request is no work for the garbage collector."""

import subprocess
import sys

SCRIPT = """
import gc
import ucutlass_web.asgi
from django.urls import get_resolver
print(gc.get_freeze_count(), len(gc.get_objects()), get_resolver()._populated)
"""


def test_it_is_left_alone():
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    frozen, looked_at, views = out.stdout.split()[-3:]
    assert int(frozen) > 50_000 > 10 * int(looked_at) and views == "True"
