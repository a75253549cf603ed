"""Real programs to machine code with no GPU, by the real worker; a second process finds the kernels in the cache."""

import os
import subprocess
import sys

import pytest

from dsl.lower.cute import lower
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder, environment
from engine.build.limited import BuildError
from tests.dsl.lower.cute import programs

pytestmark = pytest.mark.toolchain

BIAS = """program p(x: f16[{m}, 512], w: f16[256, 512], b: f32[256]) -> f16[{m}, 256] {{
  y = gemm(x, w.T) {{ tile 128x128x64 cluster 1x1x1 schedule cooperative epilogue gelu(acc + b[n]) }}
  return y
}}"""


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    cute_builder = CuteBuilder(Cache(tmp_path_factory.mktemp("cache")))
    cute_builder.warm()
    yield cute_builder
    cute_builder.close()


def test_a_gemm_with_its_resources(builder):
    built = builder.build(lower(programs.program(BIAS.format(m=512))))
    (kernel,) = built.resources
    assert kernel["stage"] == "y" and "with epilogue_" in kernel["kernel"]
    assert 0 < kernel["registers"] <= 255 and kernel["spill_bytes"] == 0
    assert 100_000 < kernel["shared_bytes"] <= 232_448 and kernel["threads"] == 384
    assert not built.cached


def test_a_product_in_tf32_has_the_machine_code_of_one_in_f16_over_half_as_much_of_k(builder):
    """Both read 128 bytes of K at a time, eight rows to a swizzle pattern: what differs is the instruction's type."""
    half = BIAS.format(m=512).replace("-> f16", "-> f32").replace("epilogue", "store f32 epilogue")
    full = half.replace("f16", "f32").replace("128x128x64", "128x128x32")
    (narrow,) = builder.build(lower(programs.program(half))).resources
    (wide,) = builder.build(lower(programs.program(full))).resources
    same = ("registers", "shared_bytes", "spill_bytes", "stages", "threads", "instructions")
    assert {k: wide[k] for k in same} == {k: narrow[k] for k in same}


def test_a_convolution_in_tf32_has_the_machine_code_of_one_in_f16_over_twice_the_channels(builder):
    text = """program p(x: {t}[8, {c}, 32, 32], w: {t}[128, {c}, 3, 3], b: f32[128]) -> f32[8, 128, 32, 32] {{
      xt = transform(x) {{ layout nhwc }}
      wt = transform(w) {{ layout nhwc }}
      y = conv2d(xt, wt) {{
        compute {k}  padding 1x1  tile 128x128x{c}  schedule cooperative  stages 3  store f32 nhwc
        epilogue relu(acc + b[c])
      }}
      z = transform(y) {{ layout nchw }}
      return z
    }}"""
    seen = []
    for t, k, c in (("f16", "f16", 64), ("f32", "tf32", 32)):
        built = builder.build(lower(programs.program(text.format(t=t, k=k, c=c))))
        seen.append(next(r for r in built.resources if r["stage"] == "y"))
    same = ("registers", "shared_bytes", "spill_bytes", "instructions")
    assert {k: seen[0][k] for k in same} == {k: seen[1][k] for k in same}


def test_the_same_kernel_serves_another_size(builder):
    builder.build(lower(programs.program(BIAS.format(m=512))))
    other = builder.build(lower(programs.program(BIAS.format(m=1024))))
    assert other.cached
    assert other.resources[0]["stages"] >= 2


def test_casts_batches_and_split_k(builder):
    text = """program p(x: f32[4, 128, 512], w: f32[4, 64, 512], r: bf16[4, 128, 64], s: f16[]) -> f32[4, 128, 64] {
      xh = transform(x) { to f16 }
      wh = transform(w) { to f16  prepack }
      y = gemm(xh, wh.T) {
        tile 128x64x64  cluster 1x1x1  schedule cooperative  scheduler split_k(2)  store f32
        epilogue tanh(acc * s) + r[l, m, n]
      }
      return y
    }"""
    built = builder.build(lower(programs.program(text)))
    assert [r["stage"] for r in built.resources] == ["xh", "wh", "y"]
    assert built.resources[0]["kernel"] == "cast_kernel" and built.resources[0]["spill_bytes"] == 0


def test_a_second_process_takes_the_kernels_from_the_cache(builder):
    built = builder.build(lower(programs.program(BIAS.format(m=512))))
    code = (
        "import sys, time; from engine.build.cute_worker import Builder; worker = Builder();"
        "t = time.process_time(); worker.build({'path': sys.argv[1]}); print(time.process_time() - t)"
    )
    env = {**os.environ, **environment(builder.cache), "PYTHONPATH": ".", "CUDA_VISIBLE_DEVICES": ""}
    objects = sorted(builder.cache.folder("quack").rglob("*.o"))
    process = subprocess.run(
        [sys.executable, "-c", code, str(built.path)], env=env, capture_output=True, text=True, check=True
    )
    assert sorted(builder.cache.folder("quack").rglob("*.o")) == objects
    assert float(process.stdout) < 1.5  # 0.02 to 0.05 s of a core; a compile takes 1.5 to 4.5


def test_pruned_kernels_are_compiled_again(builder):
    source = lower(programs.program(BIAS.format(m=512)))
    builder.build(source)
    for path in builder.cache.folder("quack").rglob("*.o"):
        path.unlink()
    again = builder.build(source)
    assert not again.cached and again.resources[0]["registers"]


def test_a_module_that_does_not_compile_says_why(builder):
    from dataclasses import replace

    good = lower(programs.program(BIAS.format(m=512)))
    bad = replace(good, text=good.text.replace("tile_M=128", "tile_M=100"))
    with pytest.raises(BuildError) as caught:
        builder.build(bad)
    assert caught.value.code == "compile_failed" and "64/128/192/256" in caught.value.reason
    worker = builder.pid
    assert builder.build(good).resources and builder.pid == worker, "it lived on"
