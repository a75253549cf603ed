"""The device functions, compiled by g++ for the host, against PyTorch: values, infinities and NaN."""

import ctypes
import itertools
import shutil
import subprocess

import pytest
import torch
from torch.nn import functional as F

from dsl.functions import COMPARISONS
from dsl.lower.cpp.functions import FUNCTIONS, definitions

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
    "erf": torch.erf,
    "floor": torch.floor,
    "round": torch.round,
    "sin": torch.sin,
    "cos": torch.cos,
    **{fn: getattr(torch, fn) for fn in COMPARISONS},
    "where": lambda c, x, y: torch.where(c != 0, x, y),
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
    text = ["#include <cmath>", "#define CUTLASS_HOST_DEVICE static inline", *definitions(FUNCTIONS)]
    for name, (arity, _) in FUNCTIONS.items():
        params, args = ", ".join(f"float {p}" for p in "xyz"[:arity]), ", ".join("xyz"[:arity])
        text.append(f'extern "C" float {name}_({params}) {{ return fn_{name}({args}); }}')
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
    known |= {"where": [(2.5, -7.0), (float("nan"), 1.0)], **dict.fromkeys(COMPARISONS)}
    second = known.get(name, [()])
    rest = [(p,) for p in POINTS] if second is None else second
    for x, more in itertools.product(POINTS, rest):
        args = [torch.tensor(v, dtype=torch.float32) for v in (x, *more)]
        got, want = torch.tensor(fn(x, *more)), TORCH[name](*(a.double() for a in args)).float()
        if name in ("gelu", "gelu_tanh", "hardswish") and x == -float("inf"):
            continue  # -inf * 0: PyTorch itself differs between CPU and GPU
        close = torch.allclose(got, want, rtol=2e-6, atol=1e-7, equal_nan=True)
        assert close, f"{name}{(x, *more)} is {got.item()}, PyTorch says {want.item()}"


@pytest.mark.parametrize("name", ["erf", "gelu", "gelu_tanh", "mish", "selu", "sigmoid", "silu", "softplus", "tanh"])
def test_is_accurate_everywhere(library, name):
    """Series and approximations meet, and nothing cancels, from where the function is 0 to where it is flat."""
    fn = library[name + "_"]
    fn.restype, fn.argtypes = ctypes.c_float, [ctypes.c_float]
    x = torch.linspace(-12, 12, 4001)
    got, want = torch.tensor([fn(v) for v in x.tolist()]), TORCH[name](x.double())
    # The float argument's own rounding in exp(x) and exp(x^2 / 2) is part of the error far from 0.
    allowed = want.abs() * (1e-6 + 6e-8 * (x.double() ** 2 if name.startswith("gelu") else x.double().abs())) + 1e-12
    assert ((got - want).abs() <= allowed).all(), x[((got - want).abs() / allowed).argmax()]


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("size", [1.0, 100.0, 1e4, 1e6])
def test_an_angle_of_any_size_is_reduced_without_loss(library, name, size):
    fn = library[name + "_"]
    fn.restype, fn.argtypes = ctypes.c_float, [ctypes.c_float]
    x = torch.linspace(-size, size, 4001)
    error = (torch.tensor([fn(v) for v in x.tolist()]) - TORCH[name](x.double())).abs()
    assert error.max() < 3e-7, x[error.argmax()]


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_huge_angle_stays_between_minus_one_and_one(library, name):
    fn = library[name + "_"]
    fn.restype, fn.argtypes = ctypes.c_float, [ctypes.c_float]
    assert all(-1 <= fn(x) <= 1 for x in (1e8, -1e12, 3e38))


def test_a_function_brings_what_it_is_made_of():
    text = "\n".join(definitions(["gelu", "div"]))
    for part in ("fast_divide", "fast_exp", "fast_reciprocal", "gelu_tail", "fn_gelu"):
        assert text.count(f"float {part}(") == 1
    assert "tanh" not in text and "fn_div" not in text
    assert definitions(["relu"]) == ["CUTLASS_HOST_DEVICE float fn_relu(float x) { return x < 0.0f ? 0.0f : x; }"]
