"""Runs a program of our own kernels on the CPU: the generated text built by g++ over cpu/cuda_runtime.h."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from dsl.check.program import check
from dsl.ir import DType, Program
from dsl.lower.cpp import lower
from dsl.resolve import resolve
from engine.evaluate.correctness import oracle

HEADERS = Path(__file__).parent / "cpu"
TOLERANCE = {DType.F32: 2e-5, DType.F16: 1.5e-3, DType.BF16: 1.2e-2, DType.E4M3: 0.07, DType.E5M2: 0.14}


def program(text: str) -> Program:
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return resolve(checked.program, 132)


# Fortified, a jump to another stack would end the process.
FLAGS = ("-std=c++17", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-fPIC", "-w", "-U_FORTIFY_SOURCE")


@functools.cache
def compiled_headers() -> Path:
    """A folder with the compiled form of cuda_runtime.h, made once in a test run: g++ reads it in half of the time."""
    folder = Path(os.environ["UCUTLASS_TEST_RUN"]) / "emulated"
    folder.mkdir(exist_ok=True)
    header = folder / "cuda_runtime.h.gch"
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not header.exists():
            part = folder / "part"
            subprocess.run(["g++", *FLAGS, "-x", "c++-header", str(HEADERS / "cuda_runtime.h"), "-o", part], check=True)
            part.rename(header)
    return folder


def build(p: Program, folder: Path):
    """(source, run(inputs) -> outputs) of a program."""
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    source = lower(p)
    unit, library = folder / f"{source.namespace}.cpp", folder / f"{source.namespace}.so"
    unit.write_text(source.text)
    places = [f"-I{compiled_headers()}", f"-I{HEADERS}"]
    subprocess.run(["g++", *FLAGS, "-shared", *places, str(unit), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    size, entry = loaded[f"{source.namespace}_workspace"], loaded[f"{source.namespace}_run"]
    size.restype = ctypes.c_longlong

    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        choices = (ctypes.c_int * 64)()
        guard = 1 << 12
        room = torch.full((size(choices) + 2 * guard,), 0xFF, dtype=torch.uint8)
        outputs = [torch.empty(t.shape, dtype=oracle.TORCH[t.dtype]) for t in p.result_types]
        for o in outputs:
            o.view(torch.uint8).fill_(0xFF) if o.dim() else o.fill_(0)
        start = -(-room.data_ptr() // guard) * guard
        arguments = (ctypes.c_void_p * max(1, len(inputs)))(*(t.data_ptr() for t in inputs))
        results = (ctypes.c_void_p * len(outputs))(*(t.data_ptr() for t in outputs))
        assert entry(arguments, results, ctypes.c_void_p(start), None, choices) == 0
        return outputs

    return source, run


def inputs_of(p: Program, seed: int = 0) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    tensors = []
    for param in p.params:
        if param.type.dtype in (DType.I8, DType.I32):
            tensors.append(torch.randint(-100, 100, param.type.shape, generator=g).to(oracle.TORCH[param.type.dtype]))
        else:
            x = torch.randn(param.type.shape, generator=g)
            x = x.abs() + 0.5 if param.name.startswith("positive") else x
            tensors.append(x.to(oracle.TORCH[param.type.dtype]))
    return tensors


def agree(text: str, folder: Path, inputs: list[torch.Tensor] | None = None) -> list[torch.Tensor]:
    """Builds, runs, and compares every result with float64; returns the results."""
    p = program(text)
    _, run = build(p, folder)
    inputs = inputs_of(p) if inputs is None else inputs
    got, want = run(inputs), oracle.run(p, inputs, exact=True)
    for name, kind, g, w in zip(p.results, p.result_types, got, want, strict=True):
        assert tuple(g.shape) == kind.shape
        if kind.dtype in (DType.I8, DType.I32):
            assert torch.equal(g, w.to(g.dtype)), name
            continue
        g, w = g.double(), w.double()
        if kind.dtype in (DType.E4M3, DType.E5M2):
            most = torch.finfo(oracle.TORCH[kind.dtype]).max
            w = w.clamp(-most, most)
        tolerance = TOLERANCE[kind.dtype]
        close = torch.isclose(g, w, rtol=tolerance, atol=tolerance * float(w.abs().mean().clamp(min=1e-3)))
        bad = int((~close).sum())
        assert bad == 0, f"{name}: {bad} of {g.numel()}, worst {float((g - w).abs().max())}, got {g.flatten()[:4]}"
    return got
