"""A process that rehearsed compiles the next product faster, and is otherwise as it was: it can be forked."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("quack", reason="CuTe DSL and quack-kernels are not installed")

from engine import start

REHEARSES = """
import json, os, sys
from engine import start
import cutlass.cute, quack.gemm_runtime.host, quack.epilogue.frontend
from cutlass.base_dsl.compiler import Compiler
from cutlass.cutlass_dsl import CuTeDSL
from engine.build import cute_rehearsal

load, dsl = Compiler.jit, CuTeDSL._get_dsl()
rehearsed = cute_rehearsal.before_forks()
from quack.gemm_sm90 import GemmSm90
start.may_fork()
print(json.dumps({
    "rehearsed": rehearsed,
    "translated": getattr(GemmSm90.kernel.__wrapped__, "_preprocessed", False),
    "as before": Compiler.jit is load and dsl.envar._arch is None,
    "threads": len(os.listdir("/proc/self/task")),
}), flush=True)
os._exit(0)  # its libraries report what nobody freed
"""


def test_it_compiles_a_product_and_leaves_a_process_that_can_be_forked(tmp_path):
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "HOME": str(tmp_path), **start.UNASKED}
    env["OPENBLAS_NUM_THREADS"] = "1"  # as in a fork server
    done = subprocess.run(
        [sys.executable, "-c", REHEARSES], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["rehearsed"] and seen["translated"] and seen["as before"] and seen["threads"] == 1, seen
    assert list(tmp_path.iterdir()) == [], "nothing is stored"
