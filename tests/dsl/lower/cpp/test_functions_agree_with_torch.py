"""The device functions, compiled by g++ for the host, against PyTorch: values, infinities and NaN."""

import ctypes
import itertools
import shutil
import subprocess

import pytest
import torch
from torch.nn import functional as F

from dsl.lower.cpp.functions import FUNCTIONS, definition

TORCH = {
    "relu": F.relu,
    "leaky_relu": lambda x, y: torch.where(x > 0, x, x * y),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "clamp": torch.clamp,
    "min": torch.minimum,
    "max": torch.maximum,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
    "elu": lambda x, y: torch.where(x > 0, x, y * torch.expm1(x)),
    "selu": F.selu,
    "mish": F.mish,
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "softsign": F.softsign,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": torch.clamp,
}
POINTS = [
    0.0,
    1e-8,
    -1e-4,
    1e-3,
    -0.3,
    0.9,
    -1.0,
    2.5,
    -7.0,
    30.0,
    -100.0,
    1e4,
    float("inf"),
    -float("inf"),
    float("nan"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("functions")
    text = ["#include <cmath>", "#define CUTLASS_HOST_DEVICE static inline"]
    for name, (arity, _) in FUNCTIONS.items():
        params, args = ", ".join(f"float {p}" for p in "xyz"[:arity]), ", ".join("xyz"[:arity])
        text += [definition(name), f'extern "C" float {name}_({params}) {{ return fn_{name}({args}); }}']
    (folder / "f.cpp").write_text("\n".join(text))
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", "f.cpp", "-o", "f.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "f.so"))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_agrees_with_torch(library, name):
    arity = FUNCTIONS[name][0]
    fn = library[name + "_"]
    fn.restype, fn.argtypes = ctypes.c_float, [ctypes.c_float] * arity
    bounds = [(-1.0, 1.0), (2.0, 2.0)]
    known = {"leaky_relu": [(0.1,)], "elu": [(0.7,)], "clamp": bounds, "hardtanh": bounds, "min": None, "max": None}
    second = known.get(name, [()])
    rest = [(p,) for p in POINTS] if second is None else second
    for x, more in itertools.product(POINTS, rest):
        args = [torch.tensor(v, dtype=torch.float32) for v in (x, *more)]
        got, want = torch.tensor(fn(x, *more)), TORCH[name](*(a.double() for a in args)).float()
        if name in ("gelu", "gelu_tanh", "hardswish") and x == -float("inf"):
            continue  # -inf * 0: PyTorch itself differs between CPU and GPU
        tolerance = 1e-6 + (3e-7 if name in ("gelu", "gelu_tanh") else 0)  # they cancel near -7
        close = torch.allclose(got, want, rtol=2e-6, atol=tolerance, equal_nan=True)
        assert close, f"{name}{(x, *more)} is {got.item()}, PyTorch says {want.item()}"
