"""A unit over CUTLASS is built in halves at once, kernels by nvcc and host code by g++, and is the same library.

What is built is a configuration of the matrix, and stands for the family gemm_tf32 in tests/dsl/test_matrix.py.
"""

import dataclasses
import struct

import pytest
import torch

from dsl.lower.cpp import lower
from engine.build import cuda_toolchain, halves, limited, pool
from engine.build.cache import Cache
from engine.build.cubin import kernels
from tests.dsl.lower.cpp import programs
from tests.dsl.matrix.build import compiled
from tests.dsl.matrix.configurations import configurations, program

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def toolchain():
    cuda = cuda_toolchain.find_toolchain()
    if cuda is None or cuda.nvcc is None:
        pytest.skip("needs requirements-gpu.txt")
    return cuda


@pytest.fixture(scope="module")
def built(toolchain, tmp_path_factory):
    """(source, library). A stage over CUTLASS takes half a minute of a core and more, so there is one for all tests."""
    members = [c for c in configurations("gemm_tf32")[0] if "gemm(a0, w0.T)" in program([c])]
    source = compiled([next(c for c in members if "schedule cooperative" in program([c]))]).sources["cpp"]
    return source, pool.build_cpp(source, Cache(tmp_path_factory.mktemp("cache")), seconds=400)


def test_the_library_tells_what_ptxas_and_cutlass_said(built):
    source, library = built
    (stage,) = library.resources
    assert stage["stage"] == "y0" and 128 <= stage["registers"] <= 255 and stage["spill_bytes"] == 0
    assert stage["stages"] >= 3 and stage["threads"] == 384 and stage["shared_bytes"] > 150_000
    space = {}
    exec(source.binding, space)
    run = space["load"](str(library.path))
    with pytest.raises(ValueError, match="contiguous CUDA tensor"):
        run(*([torch.empty(shape) for _, shape, _ in space[side]] for side in ("INPUTS", "OUTPUTS")))


def test_its_machine_code_is_found_as_in_one_built_whole(built):
    source, library = built
    (kernel,) = kernels(library.path.read_bytes())
    assert kernel.name == f"{source.namespace}_stage_y0" and kernel.registers == library.resources[0]["registers"]


def test_it_was_built_by_halves_and_not_whole(built):
    """nvcc puts a fat binary into what it builds whole; the cubin of a half lies there as it is."""
    _, library = built
    assert b".nv_fatbin" not in library.path.read_bytes()


def test_parameters_that_host_and_device_lay_out_differently_are_no_library(built):
    source, library = built
    data = library.path.read_bytes()
    at = next(i for i in range(len(data)) if data[i : i + 5] == b"\x7fELF\x02" and data[i + 18 : i + 20] == b"\xbe\x00")
    (size,) = {v for k, v in halves.constant_bank(data[at:]).items() if k.endswith("_y0")}
    start = halves.PARAMETERS_AT["sm_90a"]
    resources = ({"stage": "y0", "params": size - start - 64, "params_align": 64},)
    with pytest.raises(limited.BuildError, match=r"lay out the parameters of .*_stage_y0 differently"):
        halves._agree([data[at:]], resources, source)


def test_what_gpp_cannot_read_is_built_whole(toolchain, tmp_path, caplog):
    """Own kernels build in two seconds either way; here one that says it reads CUTLASS."""
    source = lower(programs.program(programs.LINEAR_LEAKY))
    text = (
        '#include <cuda_runtime.h>\n#include "cutlass/cutlass.h"\n'
        f"__global__ void {source.namespace}_k(int* p) {{ *p = __brev(*p); }}\n"
        f'extern "C" char const* {source.namespace}_facts() {{ return "[]"; }}\n'
    )
    odd = dataclasses.replace(source, text=text)
    library = pool.build_cpp(odd, Cache(tmp_path), seconds=400)
    assert library.path.exists() and "is built whole" in caplog.text
    assert struct.unpack_from("<4s", library.path.read_bytes())[0] == b"\x7fELF"
