"""A μCUTLASS program on PyTorch tensors. Importing it needs no GPU and no PyTorch; calling it needs both.

    import ucutlass_NAME
    y = ucutlass_NAME.call(x, w)                            # results are allocated for you
    ucutlass_NAME.run([x, w], [y], backend="cpp")           # or by you; work goes to the current CUDA stream

`PARAMETERS` and `RESULTS` are (name, shape, element type), in order; tensors are contiguous and start at a multiple of
16 bytes. `BACKENDS` are the implementations in this package, the default first: `cute` (CuTe DSL) is compiled at
the first call, in seconds; `cpp` (CUDA C++) by nvcc, once on each machine, in a minute.
"""

import functools
import importlib.util
import json
from pathlib import Path

_HERE = Path(__file__).resolve().parent
FACTS = json.loads((_HERE / "facts.json").read_text(encoding="utf-8"))
PROGRAM = (_HERE / "program.ucutlass").read_text(encoding="utf-8")
PARAMETERS = tuple((name, tuple(shape), dtype) for name, shape, dtype in FACTS["parameters"])
RESULTS = tuple((name, tuple(shape), dtype) for name, shape, dtype in FACTS["results"])
BACKENDS = tuple(FACTS["backends"])
_TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "i8": "int8", "i32": "int32",
}  # fmt: skip


def torch_dtype(name):
    """The torch dtype of an element type of the language."""
    import torch

    return getattr(torch, _TORCH[name])


@functools.cache
def load(backend=None):
    """`run(inputs, outputs)` of a back end, built on the first call."""
    backend = backend or BACKENDS[0]
    if backend not in BACKENDS:
        raise ValueError(f"this package has no back end {backend!r}; it has {', '.join(BACKENDS)}")
    artifact = None
    if backend == "cpp":
        from . import _nvcc

        artifact = str(_nvcc.build(_HERE / "cpp_kernel.cu", FACTS["arch"]))
    # Load it from its file, because CuTe DSL reads the text of kernels from there.
    path = _HERE / f"{backend}_kernel.py"
    spec = importlib.util.spec_from_file_location(f"{__name__}.{backend}_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(artifact)


def run(inputs, outputs, backend=None):
    """Run on `inputs`, in the order of PARAMETERS, into `outputs`, in the order of RESULTS."""
    load(backend)(list(inputs), list(outputs))


def call(*inputs, backend=None):
    """The results of the program: a tensor, or a tuple of several."""
    import torch

    if len(inputs) != len(PARAMETERS):
        names = ", ".join(name for name, _, _ in PARAMETERS)
        raise TypeError(f"{FACTS['program']} takes {len(PARAMETERS)} tensors ({names}), not {len(inputs)}")
    outputs = [torch.empty(shape, dtype=torch_dtype(t), device=inputs[0].device) for _, shape, t in RESULTS]
    run(inputs, outputs, backend)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
