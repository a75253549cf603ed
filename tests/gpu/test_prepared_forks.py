"""A fork of a server that rehearsed CuTe DSL's compilation has its translated kernels, and uses the GPU."""

import time

import pytest

from engine import sandbox
from engine.evaluate.integrity.process import candidate

pytestmark = pytest.mark.gpu
SAYS = """
import torch
from quack.gemm_sm90 import GemmSm90
x = torch.ones(4, device="cuda").sum().item()
raise ValueError(f"{x} {getattr(GemmSm90.kernel.__wrapped__, '_preprocessed', False)}")
"""


def test_a_prepared_fork_uses_the_gpu(cuda):
    late, until, seen = candidate.late("import quack", "python"), time.monotonic() + 90, ""
    while "4.0 True" not in seen:
        assert time.monotonic() < until, seen
        with sandbox.take(gpu=True, preload=candidate.PRELOAD, late=late, local_user=True) as box:
            request = {"entry": "engine.trace.child", "source": SAYS}
            seen = box.request(request, timeout=60)["error"]["reason"]
        assert "4.0" in seen, seen
    sandbox.drain()
