"""The kernel of a recurrent stage on the CPU, whose clusters' blocks take turns at random, against PyTorch's modules.

The text is the one that nvcc compiles. Shared memory that was never written holds NaN; a store into a block that has
not begun or has ended, and a barrier that some threads never reach, end the process (cpu/clusters.h).
"""

import faulthandler
import os
import signal
import sys
from dataclasses import replace
from multiprocessing import get_context

import pytest
import torch
from torch import nn

from dsl.ir import DType
from dsl.lower.cpp import emit, lower
from dsl.rules.recurrent import layout as rules
from tests.dsl.recurrent_programs import text

from . import emulated
from .emulated import build, program

WITHIN = {"tf32": 1e-3, "f16": 2e-3, "bf16": 2e-2, "f32": 2e-6}  # of the result's norm
MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN, "rnn_relu": nn.RNN}
SMALL = [
    {"op": op, "directions": d, "states": s, "order": o, "bias": b}
    for op in MODULES
    for d, s, o, b in ((1, False, "tb", True), (2, True, "bt", True), (1, True, "tb", False), (2, False, "bt", False))
]
CASES = [
    *SMALL,
    {"op": "lstm", "hidden": 1, "batch": 1, "steps": 1},
    {"op": "gru", "hidden": 7, "batch": 1, "steps": 2, "states": True},
    {"op": "lstm", "hidden": 33, "batch": 9, "steps": 4, "directions": 2},
    {"op": "lstm", "hidden": 64, "batch": 10, "states": True},
    {"op": "gru", "hidden": 96, "batch": 17, "steps": 3},
    {"op": "rnn_tanh", "hidden": 100, "batch": 5, "directions": 2, "states": True},
    {"op": "lstm", "hidden": 130, "batch": 6, "order": "bt", "states": True},
    {"op": "lstm", "hidden": 256, "batch": 10, "steps": 4, "states": True},  # KernelBench's
    {"op": "gru", "hidden": 256, "batch": 10, "steps": 3, "directions": 2},
    {"op": "rnn_relu", "hidden": 256, "batch": 3, "steps": 3},
    {"op": "lstm", "hidden": 512, "batch": 2, "steps": 2},  # some weights in shared memory
    {"op": "lstm", "hidden": 40, "batch": 3, "states": True, "layers": 3, "clauses": "layer 2"},
    {"op": "gru", "hidden": 24, "batch": 2, "directions": 2, "states": True, "layers": 2, "clauses": "layer 1"},
    {"op": "lstm", "hidden": 72, "batch": 4, "clauses": "compute f16", "states": True},
    {"op": "gru", "hidden": 72, "batch": 12, "clauses": "compute bf16", "directions": 2},
    {"op": "lstm", "hidden": 50, "batch": 4, "clauses": "compute f32", "states": True},
    {"op": "gru", "hidden": 144, "batch": 10, "steps": 3, "clauses": "compute f32"},
    {"op": "lstm", "hidden": 48, "batch": 3, "element": "f16", "weight": "f16"},
    {"op": "lstm", "hidden": 64, "batch": 9, "clauses": "cluster 2x1x1", "states": True},
    {"op": "gru", "hidden": 61, "batch": 4, "clauses": "cluster 8x1x1", "directions": 2},
    {"op": "rnn_tanh", "hidden": 136, "batch": 9, "element": "bf16", "weight": "bf16", "directions": 2},
]  # fmt: skip


def module_of(op="lstm", hidden=20, directions=1, bias=True, **_) -> nn.Module:
    """PyTorch's layer in float64. Its input is the gates themselves: weight_ih is the unit matrix, bias_ih zero."""
    torch.manual_seed(hidden + directions)
    more = {"nonlinearity": op[4:]} if op.startswith("rnn") else {}
    width = {"lstm": 4, "gru": 3}.get(op, 1) * hidden
    module = MODULES[op](width, hidden, bias=bias, bidirectional=directions == 2, **more).double()
    with torch.no_grad():
        for name, p in module.named_parameters():
            if name.startswith("weight_ih"):
                p.copy_(torch.eye(width))
            elif name.startswith("bias_ih"):
                p.zero_()
    return module


def inputs_of(p, module: nn.Module) -> dict[str, torch.Tensor]:
    """The program's tensors by name. Both directions have the same gates, for PyTorch's module has one input."""
    g = torch.Generator().manual_seed(3)
    suffix = {"0": "", "1": "_reverse"}
    weights = {
        f"{kind}{d}": f"{name}_l0{suffix[d]}" for kind, name in (("w", "weight_hh"), ("b", "bias_hh")) for d in "01"
    }
    stored = dict(module.named_parameters())
    tensors = {}
    for param in p.params:
        dtype = {DType.F32: torch.float32, DType.F16: torch.float16, DType.BF16: torch.bfloat16}[param.type.dtype]
        if param.name in weights:
            x = stored[weights[param.name]].detach()
        elif param.name == "g1":
            tensors["g1"] = tensors["g0"].clone()
            continue
        else:
            x = torch.randn(param.type.shape, generator=g)
        tensors[param.name] = x.to(dtype).contiguous()
    return tensors


def expected(case: dict, module: nn.Module, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    d, layer = (
        case.get("directions", 1),
        int(case.get("clauses", "").rpartition("layer ")[2] or 0) if "layer " in case.get("clauses", "") else 0,
    )
    module.batch_first = case.get("order") == "bt"
    first = tuple(tensors[n][layer * d : (layer + 1) * d].double() for n in ("h0", "c0") if n in tensors)
    states = None if not first else first if len(first) == 2 else first[0]
    with torch.no_grad():
        y, last = module(tensors["g0"].double(), states)
    hn, cn = last if isinstance(last, tuple) else (last, None)
    return {"y": y, "hn": hn, "cn": cn}


def differences(case: dict, folder) -> list[float]:
    p = program(text(**case))
    module = module_of(**case)
    tensors = inputs_of(p, module)
    _, run = build(p, folder)
    return apart(p, run(list(tensors.values())), expected(case, module, tensors))


def apart(p, got: list[torch.Tensor], want: dict[str, torch.Tensor]) -> list[float]:
    """How far each result is from PyTorch's, of its norm."""
    return [float((g.double() - want[n]).norm() / want[n].norm()) for n, g in zip(p.results, got, strict=True)]


def compute_of(case: dict) -> str:
    words = case.get("clauses", "").split()
    return (
        words[words.index("compute") + 1]
        if "compute" in words
        else {"f32": "tf32"}.get(case.get("weight", "f32"), case.get("weight", "f32"))
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items()))
def test_it_is_pytorch_s_module(case, tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_TURNS", "7")
    assert all(d < WITHIN[compute_of(case)] for d in differences(case, tmp_path))  # NaN is not less


def test_the_order_in_which_blocks_run_changes_no_bit(tmp_path, monkeypatch):
    case = {"op": "gru", "hidden": 256, "batch": 3, "steps": 4}
    p = program(text(**case))
    assert rules.layout_of(p.stages[0], {q.name: q.type for q in p.params}).cluster == 16
    tensors = inputs_of(p, module_of(**case))
    _, run = build(p, tmp_path)
    results = []
    for seed in range(8):
        monkeypatch.setenv("UCUTLASS_TURNS", str(seed))
        results.append(run(list(tensors.values()))[0])
    assert all(torch.equal(r, results[0]) for r in results)


# ---- kernels with one mistake, each of which the cases above would show ---------------------------------------------

SPOILT = {
    "one buffer of hidden state": ("hidden + (~step & 1) * kBuffer", "hidden + (step & 1) * kBuffer"),
    "no barrier before the first step": ("  cluster_arrive();\n  cluster_wait();\n", "  __syncthreads();\n"),
    "sums that are read too early": ("__syncthreads();  // the sums are whole", "// the sums are whole"),
    "sending after the last step": ("    if (!last) {\n      // This block's", "    {\n      // This block's"),
    "the other rank's units": ("(block + 1 + i /", "(block + 2 + i /"),
    "K in two orders": ("weight[1][t], h.z, h.w", "weight[1][t], h.w, h.z"),
    "no zeros where no unit is": ("for (int i = thread; i < 2 * kBuffer; i += kThreads) hidden[i] = 0u;", ""),
    "no wait": ("barrier_wait(full + (step & 1), (step - 1) >> 1 & 1);", ""),
    "the other parity": ("(step - 1) >> 1 & 1", "step >> 1 & 1"),
    "nothing expected again": ("if (thread == 0 && step + 2 < kSteps) barrier_expect(full + (step & 1), kBytes);", ""),
    "more bytes than are sent": ("kVectors * 16;\n", "kVectors * 16 + 16;\n"),
    "fewer bytes than are sent": ("kVectors * 16;\n", "kVectors * 16 - 16;\n"),
    "counted at the other barrier": ("full + (~step & 1)", "full + (step & 1)"),
    "sent before it is whole": ("      __syncthreads();  // this block's units are whole\n", ""),
}  # fmt: skip
SPOILT_CASE = {"op": "lstm", "hidden": 140, "batch": 3, "steps": 5, "states": True}


def in_many_orders(folder):
    """The differences of SPOILT_CASE from PyTorch, in many orders of its blocks."""
    p = program(text(**SPOILT_CASE))
    module = module_of(**SPOILT_CASE)
    tensors = inputs_of(p, module)
    want = expected(SPOILT_CASE, module, tensors)
    _, run = build(p, folder)
    for seed in range(12):
        os.environ["UCUTLASS_TURNS"] = str(seed)
        yield from apart(p, run(list(tensors.values())), want)


def end_as_it_is_seen(old: str, new: str, folder) -> None:
    """Run the kernel with `new` in place of `old`, and end this process: with 3 if a result is wrong."""
    faulthandler.disable()  # pytest's writes the stack of every thread to the terminal
    with (folder / "stderr").open("w") as errors:
        os.dup2(errors.fileno(), 2)

    def spoilt(p):
        source = lower(p)
        assert old in source.text
        return replace(source, text=source.text.replace(old, new))

    emulated.lower = spoilt
    sys.exit(0 if all(d < WITHIN["tf32"] for d in in_many_orders(folder)) else 3)


@pytest.mark.parametrize("mistake", SPOILT)
def test_a_spoilt_kernel_is_seen(mistake, tmp_path):
    """In a process of its own, which the emulation may end; a fork, as importing PyTorch takes most of the time."""
    process = get_context("fork").Process(target=end_as_it_is_seen, args=(*SPOILT[mistake], tmp_path))
    process.start()
    process.join(300)
    process.kill()
    seen = process.exitcode in (3, -signal.SIGABRT)  # a wrong result, or a message of the emulation
    assert seen, (process.exitcode, (tmp_path / "stderr").read_text())


def test_the_unspoilt_kernel_is_right_in_these_orders(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_TURNS", "0")
    assert max(in_many_orders(tmp_path)) < WITHIN["tf32"]


def test_its_lines_are_mapped():
    p = program(text(states=True))
    lines = {line for line, _, _ in emit.lower(p).line_map}
    assert len(lines) >= 5
