"""The check of an exported package, run by a fork of one process that has imported PyTorch and its tracer, which takes
each process 4 s of a core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = """
import json, os, runpy, sys, traceback
import torch, torch.export._trace

def become(order):
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1), os.dup2(output, 2)
    os.chdir(order["folder"])
    sys.path[0], sys.argv = order["folder"], ["check.py", *order["arguments"]]
    status = 1
    try:
        runpy.run_path("check.py", run_name="__main__")
        status = 0
    except SystemExit as e:
        status = e.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        become(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
os._exit(0)  # Python would free a million objects first
"""


class Checks:
    """A process that has imported PyTorch, and no module of the checkout."""

    def __init__(self, process: subprocess.Popen):
        self.process = process

    def run(self, package: Path, *arguments: str) -> tuple[int, str]:
        """The exit status of the package's check.py, and all that it prints."""
        output = package.with_suffix(".txt")
        order = {"folder": str(package), "arguments": list(map(str, arguments)), "output": str(output)}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        status = self.process.stdout.readline()
        assert status, "the process that forks has ended"
        return int(status), output.read_text()


@contextmanager
def serving() -> Iterator[Checks]:
    """The process while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd="/", env=os.environ | {"PYTHONPATH": ""}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Checks(process)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
