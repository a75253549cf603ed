"""Input of unusual structure, type or size: a session handles it, or says in one sentence what to change."""

import pytest

from engine.devices import SessionRefused
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.trace import trace
from tests.engine.traced import in_copies, once
from tests.engine.unbuilt import Unbuilt, assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

TEXT = """
import collections, time
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(64, 64)
        {init}
    def forward(self, {arguments}):
        {forward}
def get_inputs():
    return {inputs}
"""
X = "torch.randn(32, 64)"


def text(forward="return F.relu(self.l(x))", inputs=f"[{X}]", arguments="x", init="pass"):
    body = "\n        ".join(forward.splitlines())
    return TEXT.format(init=init, arguments=arguments, forward=body, inputs=inputs)


def test_named_inputs_reach_the_arguments_of_their_names():
    """Not the first ones in order: `scale` is left out."""
    forward = "return F.relu(self.l(x) * scale + mask)"
    named = text(forward, f"{{'x': {X}, 'mask': {X}}}", "x, scale=3.0, mask=None")
    (scaled,) = (op for op in once(named).graph.ops if op.op == "mul")
    assert scaled.attrs["other"] == 3.0
    assert_judged_clean(session(named))


ADDED = "return F.relu(self.l(x) + y)"
INPUTS = {
    "keyword only": text(ADDED, f"{{'x': {X}, 'y': {X}}}", "x, *, y"),
    "any keyword": text("return F.relu(self.l(more['x']) + more['y'])", f"{{'x': {X}, 'y': {X}}}", "**more"),
    "positional and named": text(ADDED, f"[[{X}], {{'y': {X}}}]", "x, *, y"),
    "a list of tensors": text("return F.relu(self.l(x[0]) + x[1])", f"[[{X}, {X}]]"),
    "a dictionary": text("return F.relu(self.l(x['a']) + x['b'])", f"[{{'a': {X}, 'b': {X}}}]"),
    "a tuple beside a tensor": text("return F.relu(self.l(x) + y[0] * y[1])", f"[{X}, ({X}, 0.5)]", "x, y"),
    "token ids": text("return F.relu(self.l(self.e(x)))", "[torch.randint(0, 99, (2, 16))]",
                      init="self.e = nn.Embedding(99, 64)"),
    "a mask": text("return F.relu(self.l(x)).masked_fill(y, 0.0)", f"[{X}, {X} > 0.5]", "x, y"),
    "doubles beside floats": text("return self.l(x) + y", f"[{X}, {X}.double()]", "x, y"),
    "floats for a layer of bfloat16": text("return self.l(x.to(torch.bfloat16)).float()", init="self.l.bfloat16()"),
    "a layer of doubles beside one of floats": text(
        "return F.relu(self.l(x)), self.k(y)", f"[{X}, {X}.double()]", "x, y", "self.k = nn.Linear(64, 64).double()"
    ),
    "a parameter": text(inputs=f"[nn.Parameter({X})]"),
    "numbers": text("return F.relu(self.l(x)) * y + z", f"[{X}, 0.5, 3]", "x, y, z"),
}  # fmt: skip
EMPTY = {
    "one inside a dictionary": text("return self.l(x['a'])", f"[{{'a': {X}, 'b': torch.randn(32, 0)}}]"),
    "a cache that begins empty": text(
        "k = torch.cat([y, self.l(x)])\nreturn k @ x.T", f"[{X}, torch.zeros(0, 64)]", "x, y"
    ),
    "a buffer": text("return self.l(x) + self.c.sum()", init="self.register_buffer('c', torch.zeros(0, 64))"),
    "a slice": text("return self.l(x) + x[:, :0].sum()"),
    "an index": text("return self.l(x) + x[y].sum()", f"[{X}, torch.zeros(0, dtype=torch.long)]", "x, y"),
    "a part of a split": text("a, b = x.split([64, 0], 1)\nreturn torch.cat([self.l(a), b], 1)"),
}
RESULTS = {
    "a dictionary": "y = self.l(x)\nreturn {'a': F.relu(y), 'more': {'b': y.tanh()}}",
    "a nested tuple": "y = self.l(x)\nreturn F.relu(y), (y.tanh(), [y * 2])",
    "a named tuple": "y = self.l(x)\nreturn collections.namedtuple('Out', 'a b')(F.relu(y), y.tanh())",
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_of_any_structure_are_planned_verified_and_judged(name):
    assert_judged_clean(session(INPUTS[name]))


@pytest.mark.parametrize("name", EMPTY)
def test_a_tensor_without_elements_beside_others_is_no_hindrance(name):
    assert_judged_clean(session(EMPTY[name]))


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_any_structure_are_planned_verified_and_judged(name):
    log = session(text(RESULTS[name]))
    assert_judged_clean(log)


def test_a_module_of_integers_stays_pytorch_in_the_class_that_it_has():
    log = session(text("return x * 2 + 1", "[torch.randint(0, 9, (32, 64))]"))
    assert log[-1].state == "done" and "computes in i64" in log[-1].reason and "PyTorch stays" in log[-1].reason


def test_a_product_of_bytes_between_operations_on_floats_stays_pytorch_with_them():
    forward = "s = x.abs().amax(-1, keepdim=True) / 127\nq = (x / s).round().to(torch.int8)"
    log = session(text(f"{forward}\nreturn torch._int_mm(q, q.T).float() * s"))
    assert log[-1].state == "done" and "PyTorch stays" in log[-1].reason


REFUSED = {
    "a name that forward does not have": (
        text(inputs=f"{{'x': {X}, 'mask': {X}}}"), "bad_inputs", "forward has no argument 'mask'; it has x.",
    ),
    "an input without elements": (
        text(inputs="[torch.randn(0, 64)]"), "bad_inputs", "axis 0 has size 0, so there is nothing to compute; give",
    ),
    "a result without elements": (
        text("return self.l(x), x[:0]"), "empty_tensor", "Line 10 (slice) makes a tensor without elements, [0, 64]; ",
    ),
    "a layer without columns": (
        text("return self.l(x) + self.e(x).sum()", init="self.e = nn.Linear(64, 0)"), "empty_tensor",
        "The module's parameter e.weight is a tensor without elements, [0, 64]; give every axis a size from 1.",
    ),
    "an object beside a tensor": (
        text("return self.l(x), object()"), "not_a_tensor", "forward returns an object beside its tensors; "
        "return tensors, plain values",
    ),
    "a product of two element types": (
        text("return self.l(x.to(torch.bfloat16))"), "module_raised",
        "Line 10 raised RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float. Convert one "
        "side with .to(...).",
    ),
    "doubles for a layer of floats": (
        text(inputs="[torch.randn(32, 64, dtype=torch.float64)]"), "module_raised", "Line 10 raised RuntimeError: mat1 "
        "and mat2 must have the same dtype, but got Double and Float. Convert one side with .to(...).",
    ),
    "more inputs than arguments": (
        text(inputs=f"[{X}, {X}, {X}]", arguments="x, y"), "bad_inputs", "get_inputs gives 3 inputs, and forward in "
        "line 9 takes (x, y): too many positional arguments. Give one input for each argument.",
    ),
    "fewer inputs than arguments": (
        text(arguments="x, *, y, z=1"), "bad_inputs", "get_inputs gives 1 input, and forward in line 9 takes "
        "(x, *, y, z=1): missing a required argument: 'y'. Give one input for each argument.",
    ),
    "a module": (
        text("return f(self.l(x))", f"[{X}, nn.Linear(64, 64)]", "x, f"), "bad_inputs", "get_inputs gives a module as "
        "input 2 (Linear): build it in __init__, and let forward call it.",
    ),
    "a scripted module": (
        text().replace("nn.Module", "torch.jit.ScriptModule"), "no_model", "Model is a torch.jit.ScriptModule, whose "
        "forward is no Python any more: derive it from torch.nn.Module, without @torch.jit.script_method.",
    ),
    "a quantised layer": (
        text(init="self.l = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 64)))"),
        "not_covered", "uses an object of PyTorch's C++ (quantized.LinearPackedParamsBase), as quantised layers do",
    ),
    "arrays of numpy": (
        text(inputs=f"[{X}.numpy()]"), "bad_inputs", "get_inputs gives no tensor; convert its arrays of numpy with "
        "torch.from_numpy(...).",
    ),
    "another number at each call": (
        text("self.calls += 1\nreturn self.l(x), self.calls", init="self.calls = 0"), "not_a_tensor",
        "forward returns other plain values at each call; return them as tensors, or leave them out.",
    ),
    "a parameter of 69 GB": (
        text("return x @ self.w", "[torch.randn(8, 131072)]", init="self.w = nn.Parameter(torch.ones(131072, 131072))"),
        "memory_limit", "Line 8: the module needs 68.7 GB for its tensors, the largest being w [131072, 131072] of 68",
    ),
    "an input of 77 GB": (
        text(inputs="[torch.randn(300_000_000, 64)]"), "memory_limit", "Line 11: the module needs 153.6 GB for its "
        "tensors, the largest being x [300000000, 64] of 76.8 GB; the limit is 68.7 GB. Give a smaller input, such as",
    ),
    "a buffer of 160 GB": (
        text(init="self.register_buffer('m', torch.ones(200_000, 200_000))", forward="return self.l(x) * self.m[0, 0]"),
        "memory_limit", "Line 8: the module needs 160.0 GB for its tensors, the largest being m [200000, 200000]",
    ),
    "scores of 360 GB": (
        text("return self.l(x) @ x.transpose(-1, -2)", "[torch.randn(1, 300_000, 64)]"),
        "memory_limit", "Line 10: the module needs 360.1 GB for its tensors, the largest being matmul [1, 300000, 3",
    ),
    "more layers than fit": (
        text("for layer in self.m:\n    x = layer(x)\nreturn x", "[torch.randn(8, 16384)]",
             init="self.m = nn.ModuleList(nn.Linear(16384, 16384) for _ in range(80))"),
        "memory_limit", "Line 8: the module needs 85.9 GB for its tensors, the largest being m.0.weight [16384, 16384]",
    ),
    "too large for any device": (
        text("return self.w(x)", "[torch.randn(2, 200000)]", init="self.w = nn.Linear(200000, 200000)"),
        "memory_limit", "Line 8: the module needs 160.0 GB for its tensors, the largest being w.weight "
        "[200000, 200000] of 160.0 GB; the limit is 68.7 GB. Make it smaller, or optimise one layer of the module by "
        "itself.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_is_refused_with_the_way_out(name):
    source, code, words = REFUSED[name]
    with pytest.raises(SessionRefused) as refusal:
        in_copies(source)
    assert refusal.value.code == code and words in refusal.value.reason and "\n" not in refusal.value.reason


@pytest.mark.parametrize("where", ["forward", "init"])
def test_a_first_call_that_takes_a_minute_is_told_the_limit_and_what_to_do(where):
    slow = text("time.sleep(60)\nreturn self.l(x)") if where == "forward" else text(init="time.sleep(60)")
    with pytest.raises(SessionRefused) as refusal:
        trace(slow, timeout=3)
    line = 10 if where == "forward" else 8
    assert refusal.value.reason == (
        f"Line {line}: the module did not end within 3 s. It is built, and called three times: shorten what it does in "
        "Python, or end its loop."
    )


def test_a_module_that_does_not_fit_the_card_is_told_what_it_needs_and_what_the_card_has():
    """80 million rows: five tensors of 20 GB at once, on a card of 80 GB."""
    large = text("y = self.l(x)\nz = y.tanh()\nw = y.exp()\nreturn (y + z) * w", "[torch.randn(80_000_000, 64)]")
    spec = SessionSpec(title="a", source=large, device="modelled:h100-sxm", classes=("tf32",), trials=1)
    log = [e.event for e in run(spec, device=Evaluator(Unbuilt("h100-sxm")), teaches=False)]
    assert log[-1].state == "refused" and not any(isinstance(e, events.TrialProposed) for e in log)
    assert log[-1].reason == (
        "Line 13 (add) needs 102 GB in PyTorch with all that is alive then, and NVIDIA H100 SXM5 80GB has 80 GB: make "
        "the inputs smaller, or choose a GPU with more memory."
    )
