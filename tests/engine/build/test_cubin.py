"""Registers, stack and static shared memory are read from machine code as ptxas reported them."""

import re
import subprocess

import pytest

from engine.build import cubin
from engine.build.cuda_toolchain import find_toolchain

KERNELS = """
extern "C" __global__ void plain(float* x) { x[threadIdx.x] *= 2.0f; }
extern "C" __global__ void shared(float* x) {
  __shared__ float s[512];
  s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[511 - threadIdx.x];
}
extern "C" __global__ void spilling(float* x, int n) {
  float local[64];
  for (int i = 0; i < 64; ++i) local[i] = x[i * n];
  for (int i = 0; i < n; ++i) x[i] = local[(i * 7) % 64];
}
"""


@pytest.mark.toolchain
def test_what_is_read_is_what_ptxas_said(tmp_path):
    (tmp_path / "k.cu").write_text(KERNELS)
    toolchain = find_toolchain()
    args = [
        toolchain.nvcc,
        "-cubin",
        "-arch=sm_90a",
        "-Xptxas",
        "-v",
        *(f"-I{i}" for i in toolchain.includes[2:]),
        "k.cu",
    ]
    log = subprocess.run([*args, "-o", "k.cubin"], cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    read = {k.name: k for k in cubin.kernels((tmp_path / "k.cubin").read_bytes())}
    assert set(read) == {"plain", "shared", "spilling"}
    for name, kernel in read.items():
        part = log[log.index(f"entry function '{name}'") :]
        assert kernel.registers == int(re.search(r"Used (\d+) registers", part)[1])
        assert kernel.stack_bytes == int(re.search(r"(\d+) bytes stack frame", part)[1])
        static = re.search(r"(\d+) bytes smem", part.partition("entry function '")[2].partition("Compiling")[0])
        assert kernel.shared_static == (int(static[1]) if static else 0)
    assert 0 < read["plain"].instructions < read["spilling"].instructions < 4096
    code = cubin.code((tmp_path / "k.cubin").read_bytes())
    assert {name: len(text) // cubin.INSTRUCTION for name, text in code.items()} == {
        k.name: k.instructions for k in read.values()
    }
    assert read["spilling"].stack_bytes == 256 and read["shared"].shared_static == 2048

    # An object file carries it somewhere inside.
    carried = cubin.kernels(b"host code" * 1000 + (tmp_path / "k.cubin").read_bytes() + b"more")
    assert {k.name: k for k in carried} == read


def test_bytes_that_are_no_cubin_have_no_kernels():
    assert cubin.kernels(b"") == []
    assert cubin.kernels(b"\x7fELF\x02\x01" + b"\0" * 12 + (190).to_bytes(2, "little") + b"\xff" * 200) == []
