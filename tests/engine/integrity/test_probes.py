"""What a candidate's process observes of its calls, and how it proves that it did: each part by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from engine.evaluate.integrity.judging import adds_operands, explain
from engine.evaluate.integrity.probes.library_names import WORK

ROOT = Path(__file__).resolve().parents[3]

# In processes of their own: they replace functions for good.
RECORD = """
import json, sys, threading, torch
from engine.evaluate.integrity.probes.operations import OpLog

x = torch.ones(4)
switch = torch.autograd._enable_record_function
def plain():
    torch.exp(x)
def off():
    switch(False)
    torch.exp(x)
    switch(True)
def in_a_thread():
    thread = threading.Thread(target=off)
    thread.start()
    thread.join()
def hook():
    sys.setprofile(None)
    torch.exp(x)
def ended():
    torch._C._autograd._disable_profiler()
    torch.exp(x)
for device in ("cpu", "cuda"):
    for call in (plain, off, in_a_thread, hook, ended):
        with OpLog(device) as record:
            call()
        names = [name for name, _ in record.ops]
        print(json.dumps([device, call.__name__, bool(record.unrecorded), "exp" in names]))
"""
LEFT_OUT = """
import ctypes, json, torch
from engine.evaluate.integrity.probes.native_calls import Native, _again

native = Native()
libc = ctypes.CDLL(None)
prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)
absolute = prototype(("toupper", libc))
libc.frexp.restype, libc.frexp.argtypes = ctypes.c_double, (ctypes.c_double, ctypes.POINTER(ctypes.c_int))
power = ctypes.c_int(0)
first = [libc.abs(-7), absolute(97), libc.frexp(8.0, ctypes.byref(power)), power.value]
native.silent, power.value = True, 0
second = [libc.abs(-1), absolute(98), libc.frexp(64.0, ctypes.byref(power)), power.value]
y = _again(torch.ones(3))()
print(json.dumps([first, second, libc.labs(-3), bool(y.isnan().all()), native.calls]))
"""
CALLS = """
import ctypes, glob, json, os, torch
from engine.evaluate.integrity.process.entries import Entries
from engine.evaluate.integrity.probes.library_names import WORK

(path,) = glob.glob(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
library = ctypes.CDLL(path)
a = torch.randn(16, 16)
before = a @ a
with Entries(WORK) as entries:
    a @ a
    torch.log(a.abs())
inside = dict(entries.counts)
name = next(n for n in ("sdot_", "cblas_sdot", "sgemm_") if hasattr(library, n))
with Entries(WORK) as entries:
    getattr(library, name)(1, 2, 3, 4, 5)
print(json.dumps([inside, list(entries.counts), name, bool(torch.equal(a @ a, before))]))
"""


@pytest.fixture
def printed(tmp_path):
    """The rows that a program prints. As a candidate's does, its folder holds nothing: libraries in it would be taken
    for the candidate's own builds."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return lambda program: _printed(program, {"cwd": tmp_path, "env": env})


def _printed(program: str, where: dict) -> list:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **where)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_a_record_shows_that_it_was_switched_off(printed):
    rows = {(device, call): (off, seen) for device, call, off, seen in printed(RECORD)}
    assert len(rows) == 10
    for (device, call), (off, seen) in rows.items():
        assert off == (call != "plain"), (device, call)
        if call in ("off", "hook") or (call, device) == ("in_a_thread", "cpu"):
            assert seen, (device, call)  # what switches it off did nothing


def test_a_function_that_is_left_out_returns_what_it_returned_before(printed):
    (row,) = printed(LEFT_OUT)
    assert row == [[7, 65, 0.5, 4], [7, 65, 0.5, 4], 0, True, 7]


def test_calls_of_a_library_count_and_its_own_do_not(printed):
    ((inside, outside, name, whole),) = printed(CALLS)
    assert not [n for n in inside if "libtorch" in n], inside
    assert any(n.startswith(name.rstrip("_")) for n in outside), outside  # one function may have two names
    assert whole


@pytest.mark.parametrize(
    "name",
    [
        "sgemm_",
        "cgemm_",
        "cgemm3m_",
        "zgemm3m",
        "sdot_",
        "cdotu_sub_64",
        "cblas_sdot",
        "scnrm2_",
        "idamax_",
        "gemm_f16f16f32_",
        "GEMM_F16F16F32",
        "gemm_s8u8s32",
        "sgemm_batch_strided",
        "sgemm_pack",
        "vsExp",
        "vmsExp",
        "VSEXP",
        "vsexp_64_",
        "vdErfInv",
        "vsMulI",
        "sgetrf_",
        "LAPACKE_sgesv",
        "scipy_cblas_sgemm64_",
        "scipy_sgemm_64_",
        "mkl_blas_avx2_sgemm_kernel",
        "mkl_sparse_s_mv",
        "DftiComputeForward",
        "ippsExp_32f",
        "Sleef_expf8_u10",
        "dnnl_sgemm",
        "aoti_torch_cpu_mm_out",
    ],
)
def test_names_of_library_functions(name):
    assert WORK.fullmatch(name)


@pytest.mark.parametrize(
    "name",
    [
        "malloc",
        "memcpy",
        "send",
        "mkl_serv_malloc",
        "mkl_serv_get_max_threads",
        "MKL_Set_Num_Threads_Local",
        "vmlSetMode_",
        "xerbla_",
        "scipy_openblas_set_num_threads64_",
        "aoti_torch_get_data_ptr",
        "THPVariable_Wrap",
        "main",
        "gate",
        "softmax",
        "run",
    ],
)
def test_names_that_do_no_work(name):
    assert not WORK.fullmatch(name)


def result(error: float, **more) -> dict:
    about = {"error": error, "max_error": error, "unexpected": 0, "elements": 64, "unwritten": 0, "unequal": False}
    return {**about, "input": None, "same_as": [], "others": 0, "trivial": {}, **more}


def test_a_product_that_adds_its_operands_is_wrong_and_has_the_range_of_its_type():
    assert adds_operands(result(250.0), "powers")
    assert not adds_operands(result(0.9), "powers")
    assert not adds_operands(result(250.0, unexpected=3), "powers")
    assert not adds_operands(result(250.0), "uneven")


def test_a_small_error_skips_nothing():
    blocks = {"axis": 1, "right": 6, "of": 16, "span": [0, 55], "size": 56}
    assert {f.code for f in explain("f32", result(1.2e-5, blocks=blocks), "normal", None, {})} == {"wrong_result"}
    assert {f.code for f in explain("f32", result(0.4, blocks=blocks), "normal", None, {})} == {"skipped"}
