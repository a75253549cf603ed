"""The fork server forks only while no other thread of it can hold a lock."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
THREAD = """
import os, threading, time
from engine.start import busy_threads
threading.Thread(target=TARGET, daemon=True).start()
time.sleep(0.5)
print(len(os.listdir("/proc/self/task")), *busy_threads())
"""
# As torch's interpreter finds it where tqdm is installed: the first progress bar of a process starts a thread.
TQDM = """
import threading
class tqdm:
    monitor_interval, monitor = 10, None
    def __init__(self, *args, **more):
        if self.monitor_interval and tqdm.monitor is None:
            tqdm.monitor = threading.Thread(target=threading.Event().wait, daemon=True)
            tqdm.monitor.start()
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def update(self, *_): pass
    def refresh(self): pass
    def close(self): pass
    def set_description(self, *_): pass
"""


def alone(code: str, *folders: Path) -> list[str]:
    """The words that a fresh process prints, whose modules are also looked for in `folders`."""
    environment = {**os.environ, **ONE, "PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT)))}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.split()


def test_a_thread_that_waits_for_a_file_does_not_count():
    assert alone(THREAD.replace("TARGET", "lambda: os.read(os.pipe()[0], 1)")) == ["2"]


def test_a_thread_that_waits_for_a_lock_counts():
    many, name, *call = alone(THREAD.replace("TARGET", "threading.Event().wait"))
    assert (many, call) == ("2", ["in", "202"]), name  # futex


def test_torchs_progress_bar_starts_no_thread_where_tqdm_is_installed(tmp_path):
    (tmp_path / "tqdm.py").write_text(TQDM)
    code = "import os, engine.trace.warm, tqdm; print(len(os.listdir('/proc/self/task')), tqdm.tqdm.monitor)"
    assert alone(code, tmp_path) == ["1", "None"]
