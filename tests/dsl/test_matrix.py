"""The configuration matrix is large and the same everywhere, and a sample of it compiles here without a GPU.

The whole of it runs with `python -m tests.dsl.matrix --jobs N --json OUT`.
"""

import os
import subprocess
import sys
import threading

import pytest

from dsl.lower import Source
from engine.build import toolchain
from engine.build.nvcc import BuildError
from tests import compiled
from tests.dsl.matrix.build import build, jobs, whole
from tests.dsl.matrix.configurations import FAMILIES, configurations

CUTE = (
    "gemm_f16", "gemm_bf16", "gemm_fp8", "gemm_reduced", "pairs", "conv2d_f16", "conv_direct", "map", "reduce",
    "normalize", "pool", "transform",
)  # fmt: skip
CPP = ("normalize", "gemm_sm80", "conv2d_tf32")  # and gemm_tf32 in tests/engine/build/test_halves.py


def test_it_holds_400_configurations_that_pass_every_check():
    members = {family: configurations(family)[0] for family in FAMILIES}
    assert sum(map(len, members.values())) >= 400
    short = {f: len(c) for f, c in members.items() if len(c) < 0.75 * FAMILIES[f][0]}
    assert not short, f"too few of these pass: {short}"


def test_it_is_the_same_under_another_hash_seed():
    ask = (
        "import hashlib; from tests.dsl.matrix.configurations import *\n"
        "texts = [program([c]) for f in ('gemm_f16', 'conv2d_f16', 'normalize') for c in configurations(f)[0]]\n"
        "print(hashlib.sha256(repr(texts).encode()).hexdigest())"
    )
    outputs = {
        subprocess.check_output([sys.executable, "-c", ask], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.toolchain
def test_a_sample_compiles():
    """Twelve by CuTe DSL and three by nvcc, at once; of those that compiled before (tests.compiled) one each."""
    tools = toolchain.find()
    if not (tools.cute and tools.cpp):
        pytest.skip("; ".join(tools.missing()))
    rows, lock = [], threading.Lock()

    def say(row):
        with lock:
            rows.append(row)

    todo, known = [], 0
    for backend, families in (("cute", CUTE), ("cpp", CPP)):
        sample = {}
        for family in families:
            work = (job for c in configurations(family)[0] for job in jobs([c], say, backend))
            first = next(work, None)
            assert first is not None, f"{backend} takes no configuration of {family}"
            sample[family] = first
        chosen = compiled.wanted(backend, {family: job.source.arch + job.source.text for family, job in sample.items()})
        todo += [sample[family] for family in chosen]
        known += len(sample) - len(chosen)
    build(todo, 2, say)
    wrong = [f"{r['name']} {r['backend']}: {r['message']}" for r in rows if not r["ok"]]
    assert not wrong, "\n\n".join(wrong)
    assert sum("refused" not in r for r in rows) + known == len(CUTE) + len(CPP)
    for job in todo:
        compiled.compiled(job.backend, job.source.arch + job.source.text)


@pytest.mark.toolchain
def test_kernels_alone_are_no_build():
    """A unit whose host code is wrong fails, though nvcc makes a cubin of it."""
    tools = toolchain.find()
    if not tools.cpp:
        pytest.skip("; ".join(tools.missing()))
    text = """extern "C" __global__ void kernel() {}
#ifndef UCUTLASS_DEVICE_ONLY
int launch() { return missing; }
#endif
"""
    with pytest.raises(BuildError) as caught:
        whole(Source("cpp", "cuda", text, "", "uc_0", ()))
    assert caught.value.code == "compile_failed" and "missing" in caught.value.reason
