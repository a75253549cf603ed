"""Every library says in words of its own that there is no GPU. All of them become one code."""

import pytest

torch = pytest.importorskip("torch")

from engine.trace.explain import explain  # noqa: E402


@pytest.mark.parametrize(
    "words",
    [
        "0 active drivers ([]). There should only be one.",  # Triton
        "DSLCudaRuntimeError: cudaErrorInsufficientDriver (error code: 35)",  # CuTe DSL
        "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "Found no NVIDIA driver on your system.",
        "CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        "libcuda.so.1: cannot open shared object file",
    ],
)
def test_a_library_that_misses_the_gpu_is_recognised(words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert explain(RuntimeError(words), "the module").code == "asks_for_cuda"


def test_other_words_about_drivers_are_not():
    assert explain(RuntimeError("the drivers of this gap are two"), "the module").code == "module_raised"


def test_where_there_is_a_gpu_an_error_that_names_cuda_keeps_its_own_words(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    error = RuntimeError("Command '['/usr/bin/gcc', '-lcuda', '-L/usr/lib', 'libcuda.so']' returned exit status 1")
    bad = explain(error, "forward")
    assert bad.code == "module_raised" and bad.reason.startswith("Calling forward raised RuntimeError: Command")
