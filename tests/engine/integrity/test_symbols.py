"""Kernel names as a profiler and a compiler give them, shortened to what a reader looks for."""

import pytest

from engine.evaluate.integrity.texts.symbols import plain_name
from engine.evaluate.integrity.trial import LIBRARY
from engine.evaluate.integrity.trial import _ran as ran

CUTLASS = "_ZN7cutlass13device_kernelIN12flash_kernel10sm90_GEMM_INS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEE"
SIGMOID = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda(at::TensorIteratorBase&)::{"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(float*, float const*, int)"
XMMA = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cub"
)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (CUTLASS, "cutlass::device_kernel"),
        ("_Z4gatePKfPfl", "gate"),
        ("_Z" + "9" * 5000, "_Z" + "9" * 5000),
        ("_ZN2ns4gateEPf", "ns::gate"),
        ("_ZN12_GLOBAL__N_17forwardEPf", "(anonymous namespace)::forward"),
        ("_ZNKSt6vectorIfE4sizeEv", "std::vector"),
        (
            "_ZN2at6native27unrolled_elementwise_kernelINS0_13AUnaryFunctorIffEE",
            "at::native::unrolled_elementwise_kernel",
        ),
        (SIGMOID, "at::native::vectorized_elementwise_kernel"),
        (SOFTMAX, "(anonymous namespace)::softmax_warp_forward"),
        ("at::native::(anonymous namespace)::cat<float>(float*)", "at::native::(anonymous namespace)::cat"),
        ("void foo<int>::bar<2>(int)", "foo::bar"),
        (XMMA, XMMA),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("_Z99x", "_Z99x"),
        ("", ""),
    ],
)
def test_a_symbol_is_shortened_to_its_whole_qualified_name(symbol, name):
    assert plain_name(symbol) == name


def test_evidence_names_library_kernels_whole():
    kernels = [{"name": n, "library": True, "stream": 7} for n in (CUTLASS, SIGMOID, SIGMOID + "x", XMMA)]
    line = ran({"kernels": kernels})
    assert line["verdict"] == LIBRARY
    names = f"cutlass::device_kernel, at::native::vectorized_elementwise_kernel, {XMMA}"
    assert line["said"] == f"only library kernels ran: {names}"
