"""Attention to machine code with no GPU: every form of its operands, causal or not, in one kernel each."""

import pytest

from dsl.lower.cute import lower
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder
from tests.dsl.lower.cute import programs

pytestmark = pytest.mark.toolchain

PROGRAM = """program p(x: f16[2, 256, 12, 64], kv: f16[2, 128, 4, 64]) -> (f16[2, 256, 8, 64], f16[2, 256, 12, 64]) {
  y = attention(x) { order bmhd  heads 8x2  causal }
  z = attention(x, kv) { order bmhd }
  return y, z
}"""


def test_each_form_is_one_kernel_without_spills(tmp_path):
    builder = CuteBuilder(Cache(tmp_path))
    try:
        built = builder.build(lower(programs.program(PROGRAM)))
    finally:
        builder.close()
    assert [(r["kernel"], r["stage"]) for r in built.resources] == [
        ("FlashAttentionForwardSm90", "y"), ("FlashAttentionForwardSm90", "z"),
    ]  # fmt: skip
    for kernel in built.resources:
        assert kernel["spill_bytes"] == 0 and kernel["threads"] == 512
        assert 80_000 < kernel["shared_bytes"] <= 232_448
