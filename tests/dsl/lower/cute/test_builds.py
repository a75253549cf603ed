"""What passes `check` is compiled to a cubin, with no GPU: one program for each thing that quack's epilogues lacked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.lower.cute import lower
from tests import compiled

from . import programs, tensor_floats
from .own_cases import CASES as OWN

PROGRAMS = {
    "reductions": (
        "x: f16[1000, 520], w: f16[776, 520], b: f32[776]",
        "(f16[1000, 776], f32[1000], f32[1000], f32[1000], f32[776])",
        "gemm(x, w.T)", "tile 192x192x64  let t = silu(acc + b[n])  also s = row_sum(t)  also q = row_max(t)  "
        "also e = row_logsumexp(t)  also v = col_sum(t)  epilogue elu(t)", "y, s, q, e, v",
    ),
    "pairs": (
        "x: bf16[512, 512], w: bf16[1024, 512], b: bf16[512]", "(bf16[512, 512], bf16[512, 512], f32[512])",
        "gemm(x, w.T)", "pairs  tile 128x128x64 schedule pingpong  also z = acc2  also s = row_max(acc)  "
        "epilogue silu(acc + b[n]) * acc2", "y, z, s",
    ),
    "groups": (
        "x: f16[1000, 512], w: f16[8, 512, 256], sizes: i32[8], g: f32[1000]", "f16[1000, 256]",
        "grouped_gemm(x, w, sizes)", "epilogue mish(acc) * g[m]", "y",
    ),
    "fp8": (
        "x: e4m3[512, 1024], w: e4m3[768, 1024], s: f32[]", "bf16[512, 768]", "gemm(x, w.T)",
        "tile 128x208x128 schedule cooperative backend cute  store bf16  epilogue softplus(acc * s)", "y",
    ),
    "int8": (
        "x: i8[512, 1024], w: i8[768, 1024], s: f32[768]", "f32[512, 768]", "gemm(x, w.T)",
        "backend cute  store f32  epilogue acc * s[n]", "y",
    ),
    "choices": (
        "x: f16[512, 512], w: f16[512, 512], b: f16[512]", "f16[512, 512]", "gemm(x, w.T)",
        "let c = (acc > b[n]) * (acc <= 1.0)  "
        "epilogue where(c, erf(acc) + sin(acc), max(-inf, floor(acc) - round(acc)))", "y",
    ),
    "triangle": (
        "x: f16[3, 200, 64], w: f16[3, 136, 64]", "f32[3, 200, 136]", "gemm(x, w.T)",
        "store f32  epilogue triu(acc) - tril(acc, -1)", "y",
    ),
}  # fmt: skip

CHILD = """
import importlib.util, json, sys, traceback
from engine import start
from engine.build.cute_worker import plan_without_device
for path in sys.argv[1:]:
    failure = ""
    try:
        spec = importlib.util.spec_from_file_location("generated", path)
        module = importlib.util.module_from_spec(spec)
        with start.importing():
            spec.loader.exec_module(module)
        plan_without_device()  # after the module, which names the architecture before it imports quack
        module.build()
    except Exception:
        failure = traceback.format_exc()
    print(json.dumps({"path": path, "failure": failure}), flush=True)
"""


OWN_BUILT = ("map_full_f16", "nhwc_padded", "interleave", "rows_in_parts_argmax", "columns_in_parts", "softmax_held",
             "layernorm_long", "avg_pool_padded_nhwc",
             "max_pool_dilated_1d", "max_pool_dilated_3d", "depthwise_stride", "wide_window")  # fmt: skip


WATCHED = """program p(x: f32[200, 136], w: f32[136, 136], i: f32[1, 64, 9, 9], v: f32[72, 64, 3, 3],
    u: f32[64, 72, 1, 1]) -> (f32[200, 136], f32[1, 64, 7, 7]) {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  ih = transform(i) { layout nhwc  to f16 }
  vh = transform(v) { layout nhwc  to f16 }
  uh = transform(u) { layout nhwc  to f16 }
  h = gemm(xh, wh.T) { tile 128x128x64  store f16 }
  y = gemm(h, wh.T) { tile 128x128x64  store f32 }
  g = conv2d(ih, vh) { store f16 nhwc }
  z = conv2d(g, uh) { store f32 nchw }
  return y, z
}"""


FOLDED = """program p(x: f16[1, 64, 18, 18], w: f16[72, 64, 3, 3], u: f16[64, 24, 3, 3], r: f32[1, 72, 8, 8])
    -> (f32[1, 16, 16], f16[1, 24, 37, 37], f32[1, 72, 8, 8]) {
  xh = transform(x) { layout nhwc }
  wh = transform(w) { layout nhwc }
  uh = transform(u) { layout nhwc }
  h = conv2d(xh, wh) { tile 128x80x64 store f32 }
  y = reduce(h) { op logsumexp over c store f32 }
  g = conv_transpose2d(xh, uh) { stride 2x2 tile 128x48x64 store f32 }
  z = normalize(g) { op softmax over c store f16 nchw }
  k = conv2d(xh, wh) { tile 128x48x64 store f16 epilogue relu(acc) }
  pooled = pool(k) { op max window 2x2 stride 2x2 store f16 }
  q = map(pooled) { store f32 nchw epilogue acc + r[b, c, h, w] }
  return y, z, q
}"""


# Weights and whole windows in shared memory, phases that leave from the registers; behind the gate of a guard.
WHOLE = """program p(x: f32[64, 32, 66, 132], w: f32[64, 32, 3, 3], u: f32[32, 32, 4, 4], b: f32[64])
    -> (f32[64, 64, 64, 130], f32[64, 64, 130], f32[64, 32, 132, 264]) {
  guard f32
  xh = transform(x) { layout nhwc  to f16 }
  wh = transform(w) { layout nhwc  to f16 }
  uh = transform(u) { layout nhwc  to f16 }
  y = conv2d(xh, wh) { tile 128x64x64  schedule pingpong  store f32 nchw  epilogue relu(acc + b[c]) }
  h = conv2d(xh, wh) { tile 256x64x64  schedule pingpong  store f32 }
  z = reduce(h) { op logsumexp over c store f32 }
  q = conv_transpose2d(xh, uh) { stride 2x2 padding 1x1 tile 128x64x64 schedule pingpong store f32 nchw }
  return y, z, q
}"""


@pytest.fixture(scope="module")
def texts():
    """The generated text of everything that is compiled here, by name."""
    kinds = {
        name: f"program p({signature}) -> {results} {{\n  y = {call} {{ {clauses} }}\n  return {returned}\n}}"
        for name, (signature, results, call, clauses, returned) in PROGRAMS.items()
    }
    own = {name: OWN[name] for name in OWN_BUILT}
    asked = kinds | own | tensor_floats.texts() | {"watched": WATCHED, "folded": FOLDED, "whole": WHOLE}
    return {name: lower(programs.program(text)).text for name, text in asked.items()}


@pytest.fixture(scope="module")
def failures(texts, tmp_path_factory):
    """What is wrong with each, "" if it compiles: all in one process, because quack takes 9 s to import. A text that
    compiled before (tests.compiled) is left out."""
    pytest.importorskip("quack", reason="CuTe DSL and quack-kernels are not installed")
    folder = tmp_path_factory.mktemp("builds")
    chosen = compiled.wanted("cute", texts, always=0)  # tests/dsl/test_matrix.py compiles one in any case
    if not chosen:
        return dict.fromkeys(texts, "")
    for name in chosen:
        (folder / f"{name}.py").write_text(texts[name])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *(str(folder / f"{name}.py") for name in chosen)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "QUACK_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"path"')]
    failures = {Path(row["path"]).stem: row["failure"] for row in rows}
    ended = f"the process ended with {done.returncode} before this one was compiled: {done.stderr[-2000:]}"
    compiled.compiled("cute", *(texts[name] for name in chosen if not failures.get(name, ended)))
    return {name: failures.get(name, ended)[-3000:] if name in chosen else "" for name in texts}


@pytest.mark.toolchain
def test_a_program_of_each_kind_compiles(failures):
    assert not [f"{name}: {failures[name]}" for name in PROGRAMS if failures[name]]


@pytest.mark.toolchain
def test_tf32_compiles(failures):
    assert not [f"{name}: {failures[name]}" for name in tensor_floats.texts() if failures[name]]


@pytest.mark.toolchain
def test_kernels_of_our_own_compile(failures):
    assert not [f"{name}: {failures[name]}" for name in OWN_BUILT if failures[name]]


@pytest.mark.toolchain
def test_epilogues_that_look_at_what_they_store_compile(texts, failures):
    text = texts["watched"]
    assert '"watched": Watched("watched", ragged=True)' in text and "G_0 = WatchedKernel(" in text
    assert not failures["watched"], failures["watched"]


@pytest.mark.toolchain
def test_convolutions_that_fold_channels_or_pixels_compile(texts, failures):
    assert "Y_0 = FoldKernel(" in texts["folded"] and "Z_1 = FoldKernel(" in texts["folded"]
    assert "\nPOOLED_0 = PoolKernel(" in texts["folded"]
    assert not failures["folded"], failures["folded"]


@pytest.mark.toolchain
def test_convolutions_that_keep_whole_windows_compile(texts, failures):
    text = texts["whole"]
    assert "whole_window(ConvKernel)" in text and "whole_window(FoldKernel)" in text
    assert "at_once=True" in text
    assert not failures["whole"], failures["whole"]
