"""A process that tells of itself: `main` serves the requests of the tests."""

import os
import subprocess
import sys
import time

from engine import jsonprocess


def _about(request: dict) -> dict:
    return {
        "pid": os.getpid(), "session": os.getsid(0), "argv": sys.argv, "word": os.environ.get("WORD"),
        "torch": "torch" in sys.modules, "cores": sorted(os.sched_getaffinity(0)),
        "inherited": request.get("fd") is not None and os.readlink(f"/proc/self/fd/{request['fd']}"),
    }  # fmt: skip


def _child(request: dict) -> dict:
    return {"pid": subprocess.Popen(["sleep", "60"]).pid}


def _sleep(request: dict) -> dict:
    time.sleep(60)
    return {}


def _fail(request: dict) -> dict:
    print("it says why", file=sys.stderr, flush=True)
    os._exit(7)


def main() -> None:
    jsonprocess.serve({"about": _about, "child": _child, "sleep": _sleep, "fail": _fail})
