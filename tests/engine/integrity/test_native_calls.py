"""Calls of native code are counted, and made to do nothing on request, whichever way a kernel is written."""

import subprocess
import sys

import pytest

from tests.engine.integrity import zoo

pytestmark = pytest.mark.toolchain

# In a process of its own: Native replaces ctypes.CDLL for good.
CUTE = """
import importlib.util, os, sys
os.environ["CUTE_DSL_ARCH"] = "sm_90a"
import torch
from engine.evaluate.integrity.probes.native_calls import Native

native = Native()
spec = importlib.util.spec_from_file_location("gate_cute", sys.argv[1])
gate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gate)
native.watch_cute()
from cuda.bindings.driver import CUstream

x = torch.ones(64)
arguments = (gate.dense(x), gate.dense(x), gate.dense(x), gate.cutlass.Int32(64), CUstream(0))
compiled = gate.cute.compile(gate.launch, *arguments)
before, native.silent = native.calls, True
compiled(*arguments)
print(native.calls - before)
gate.launch(*arguments)
print(native.calls - before)
native.silent = False
try:
    compiled(*arguments)
except Exception as e:
    print(type(e).__name__)
print(native.calls - before)
"""


def test_calls_of_a_cute_kernel_count_and_can_be_left_out():
    pytest.importorskip("cutlass")
    import torch

    if torch.cuda.is_available():
        pytest.skip("without a GPU the call that is not left out fails, which shows that it was made")
    path = zoo.HERE / "cuda_honest" / "gate_cute.py"
    done = subprocess.run([sys.executable, "-c", CUTE, str(path)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["1", "2", "DSLCudaRuntimeError", "3"], done.stderr[-2000:]
