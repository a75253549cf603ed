"""A fork server imports what torch.compile needs; its forks decide all else themselves."""

import json
import subprocess
import sys

SCRIPT = """
import json, os, sys
import torch
from engine import start
from engine.evaluate.reference import compile_rehearsal

asked, before = torch.cuda.is_available, dict(os.environ)
compile_rehearsal.before_forks()
start.may_fork()
import torch._inductor.config as config
import torch.utils._triton as triton
from torch._inductor.runtime import triton_compat
state = {
    "hashes": not triton_compat.HAS_TRITON or triton_compat.triton_key.cache_info().currsize == 1,
    "modules": all(name in sys.modules for name in compile_rehearsal.MODULES),
    "asks again": torch.cuda.is_available is asked,
    "environment": dict(os.environ) == before,
    "threads": config.compile_threads,
    "decided": {n: f.cache_info().currsize for n, f in vars(triton).items() if hasattr(f, "cache_info")},
    "cuda": torch.cuda.is_initialized(),
}
reader, writer = os.pipe()
if os.fork() == 0:
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    x, already = torch.ones(3), len(sys.modules)
    y = torch.compile(lambda t: t * 2 + 1, backend="aot_eager")(x)
    os.write(writer, json.dumps([y.tolist(), len(sys.modules) - already]).encode())
    os._exit(0)
os.close(writer)
state["fork"] = json.loads(os.read(reader, 1000))
print(json.dumps(state))
"""


def test_the_imports_are_done_and_nothing_is_decided_for_the_forks():
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    state = json.loads(out.stdout.splitlines()[-1])
    (values, imported), decided = state.pop("fork"), state.pop("decided")
    assert state == {
        "hashes": True, "modules": True, "asks again": True, "environment": True, "threads": 1, "cuda": False,
    }  # fmt: skip
    assert not decided["has_triton"], "a fork asks the GPU that it has"
    assert values == [3.0, 3.0, 3.0] and imported < 100
