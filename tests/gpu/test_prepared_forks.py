"""A fork has what its server did beforehand, CuTe DSL's compilation or torch.compile's imports, and uses the GPU."""

import time

import pytest

from engine import sandbox
from engine.evaluate.integrity.process import candidate
from engine.evaluate.reference import module_process

pytestmark = pytest.mark.gpu
SAYS = """
import torch
from quack.gemm_sm90 import GemmSm90
x = torch.ones(4, device="cuda").sum().item()
raise ValueError(f"{x} {getattr(GemmSm90.kernel.__wrapped__, '_preprocessed', False)}")
"""
COMPILES = """
import sys
import torch
imported = "torch._inductor.compile_fx" in sys.modules
x = torch.ones(4, device="cuda")
import torch._inductor.config as config
raise ValueError(f"{x.sum().item()} {imported} {config.compile_threads} {torch.cuda.is_available()}")
"""


def seen_until(words, text, preload, late=()):
    """What a fork of this kind says, once it has `words` in it; every one has a working GPU."""
    until, seen = time.monotonic() + 90, ""
    while words not in seen:
        assert time.monotonic() < until, seen
        with sandbox.take(gpu=True, preload=preload, late=late, local_user=True) as box:
            request = {"entry": "engine.trace.child", "source": text}
            seen = box.request(request, timeout=60)["error"]["reason"]
        assert "4.0" in seen, seen
    sandbox.drain()


def test_a_prepared_fork_uses_the_gpu(cuda):
    seen_until("4.0 True", SAYS, candidate.PRELOAD, candidate.late("import quack", "python"))


def test_a_module_s_fork_has_imported_torch_compile_and_uses_the_gpu(cuda):
    seen_until("4.0 True 1 True", COMPILES, module_process.ON_A_GPU)
