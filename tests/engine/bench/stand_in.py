"""Answers in the place of engine.bench.run.child, so that the order of a bench's work is seen without a GPU.

python stand_in.py LOG ..     each request is a line of LOG: its op, the module, the names
"""

import sys
from pathlib import Path

from engine import jsonprocess

LOG = Path(sys.argv[1])
opened = [""]


def note(op: str, *words: str) -> None:
    with LOG.open("a") as f:
        f.write(" ".join([op, *words]) + "\n")


def warm(request: dict) -> dict:
    return {"gpu": "a stand-in", "torch": "2.11.0", "total_bytes": 0}


def open_(request: dict) -> dict:
    opened[0] = Path(request["module"]).stem
    return {"scope": "", "seconds": 0.1}


def baselines(request: dict) -> dict:
    note("time", opened[0], *request["names"])
    fails = opened[0] == "matmul_tril" and "compile_max" in request["names"]
    found = {n: {"ms": 1.0, "ratio": 1.0, "seconds": 0.0, "ahead": True} for n in request["names"]}
    return {n: {"error": "no triton"} for n in request["names"]} if fails else found


def precompile(request: dict) -> dict:
    return {"seconds": 0.0, "found": 0}


jsonprocess.serve(
    {"warm": warm, "open": open_, "close": lambda r: {}, "baselines": baselines, "precompile": precompile}
)
