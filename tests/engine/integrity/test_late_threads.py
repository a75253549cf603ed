"""Threads that live on after calls count, unless they only end, as those of a pool do that was just ended."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

# In a process of its own: threads of others would compute beside.
SCRIPT = """
import json, threading, time, torch
from engine.evaluate.integrity.process.tracing import late_threads

before, seen = threading.active_count(), {}
seen["none"] = late_threads(before)

def ending():
    threading.Thread(target=time.sleep, args=(0.02,), daemon=True).start()
    return late_threads(before)

seen["ends"] = ending()

def work():
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass

def working():
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    late = late_threads(before)
    worker.join()
    return late

# OpenMP's threads spin after each operation, which is no work of the call.
x = torch.ones(1 << 20)
torch.set_num_threads(2)

def beside_openmp():
    x.copy_(x + 1)
    return ending()

seen["spins"] = max(beside_openmp() for _ in range(20))
seen["works"] = [working() for _ in range(4)][-1]
waits = threading.Event()
thread = threading.Thread(target=waits.wait, daemon=True)
thread.start()
seen["stays"] = late_threads(before)
print(json.dumps(seen))
"""


def test_what_works_or_stays_counts_and_what_only_ends_does_not():
    # One that ends may compute a little more on a busy machine: a single sighting counts for nobody.
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == {"none": 0, "ends": 0, "spins": 0, "works": 1, "stays": 1}
