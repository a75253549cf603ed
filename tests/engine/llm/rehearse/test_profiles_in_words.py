"""The rehearsal of cutegen reads what a profile says in either form: the model's stages, or the profiler's words."""

from engine.llm.rehearse.evolving import _derived

WORDS = """<<<profile 9e6fd11f554a39ae
Trial 6: 2 kernels by Nsight Compute, 0.372 ms in all. It fixes the clocks and flushes the caches.

kernel_cutlass_kernel_quackepiloguefrontendGemmMod_epilogue_ebef7a: 0.2792 ms, 75% of it; grid (2, 1, 66)
- Speed of light: compute 70.7%, memory 46.7%, device memory 21.0%, L2 46.9%, L1 54.2%
- Compute: tensor pipes 82.0%, FMA pipes 2.3%, instructions a cycle 0.55

kernel_cutlass_cast_kernel: 0.09283 ms, 25% of it; grid (8192, 1, 1), block (256, 1, 1)
- Speed of light: compute 5.8%, memory 86.2%, device memory 86.2%, L2 91.2%, L1 34.1%
9e6fd11f554a39ae end>>>"""


def test_the_profilers_words():
    derived = _derived(WORDS)
    assert derived["bottleneck"].startswith("Rehearsed: kernel kernel_cutlass_kernel_quackepilogue")
    assert derived["bottleneck"].endswith("is bound by compute (70.7% of its peak) and takes 75% of the time.")
    assert [line.rpartition(", ")[2] for line in derived["observations"]] == [
        "bound by compute (70.7% of its peak)", "bound by memory (86.2% of its peak)",
    ]  # fmt: skip


def test_the_models_stages():
    stage = '{"name": "y", "kind": "gemm", "ms": 0.25, "bound_by": "tensor"}'
    derived = _derived(f"<<<profile 9e6fd11f554a39ae\n{stage}\n9e6fd11f554a39ae end>>>")
    assert derived["bottleneck"] == "Rehearsed: stage y is bound by tensor and takes 100% of the time."


def test_a_profile_without_either_says_so():
    assert _derived("no profile")["observations"] == []
