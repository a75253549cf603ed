"""torch.cond and PyTorch's loops over functions are traced as the operations that they stand for."""

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as mapped

from engine.devices import SessionRefused
from engine.trace.names import of_functions, remarks
from tests.engine.traced import in_copies, once

pytestmark = pytest.mark.filterwarnings("ignore")
CELL = torch.nn.GRUCell(8, 8)


def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: (x.sin(), x.amax(0)), lambda x: (x * 2, x.amin(0)), (x,))


def counted(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.tanh()), (torch.tensor(0), x))


def numbered(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.tanh()), (0, x))[1]


def halved(x):
    return while_loop(lambda x: x.abs().max() > 0.1, lambda x: (x * 0.5,), (x,))


def scanned(x):
    def step(state, x):
        h = CELL(x, state["h"])
        return {"h": h}, (h * 2, h.sum(-1))

    return scan(step, {"h": torch.zeros(4, 8)}, x.view(4, 5, 8), dim=1, reverse=True)


def every(x):
    return mapped(lambda row, other: {"sum": row + other}, x, torch.ones(8))


@pytest.mark.parametrize("what", [chosen, counted, numbered, halved, scanned, every])
def test_it_computes_what_pytorch_computes(what):
    torch.manual_seed(0)
    for x in (torch.randn(20, 8).abs(), -torch.randn(20, 8).abs()):
        with torch.no_grad():
            right = what(x)
            with of_functions.opened():
                ours = what(x)
        torch.testing.assert_close(ours, right, rtol=0, atol=0)


SOURCE = """
import torch
import torch.nn as nn
from torch._higher_order_ops import scan, while_loop

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        LINE

def get_inputs():
    return [torch.randn(6, 8)]
"""
COND = "return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x), (x,))"
LOOPS = {
    "return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.a(x)), (torch.tensor(0), x))[1]": 3,
    "return scan(lambda c, x: (self.a(x), c.clone()), x[0], x)[1]": 6,
}


def test_both_branches_are_in_the_graph_and_the_session_says_so():
    traced = once(SOURCE.replace("LINE", COND), local_user=True)
    names = [op.op for op in traced.graph.ops]
    assert traced.has["by"] == "torch.export" and names.count("linear") == 2 and names[-1] == "where"
    assert traced.note.startswith("Both branches of torch.cond are computed")


@pytest.mark.parametrize("line", LOOPS)
def test_a_loop_is_unrolled(line):
    traced = once(SOURCE.replace("LINE", line), local_user=True)
    assert [op.op for op in traced.graph.ops].count("linear") <= LOOPS[line] and traced.note == ""


def test_the_branch_of_a_shape_is_the_one_that_is_computed():
    source = SOURCE.replace("LINE", COND.replace("x.sum() > 0", "x.shape[0] > 4"))
    traced = once(source, local_user=True)
    assert [op.op for op in traced.graph.ops] == ["linear"] and not traced.note


def test_a_loop_that_ends_by_values_is_refused_with_its_line():
    line = "return while_loop(lambda x: x.abs().max() > 0.1, lambda x: (self.a(x),), (x,))[0]"
    with pytest.raises(SessionRefused, match=r"Line 13.*Let its condition depend on a count of steps"):
        in_copies(SOURCE.replace("LINE", line), local_user=True)


def test_a_branch_that_writes_a_tensor_is_refused_with_its_line():
    line = "return torch.cond(x.sum() > 0, lambda x: x + self.calls.add_(1), lambda x: x * 2, (x,))"
    with pytest.raises(SessionRefused, match=r"Line 13.*a branch of torch.cond writes a tensor.*return the new value"):
        in_copies(SOURCE.replace("LINE", line), local_user=True)


def test_a_new_module_has_no_branches():
    with of_functions.opened():
        chosen(torch.ones(2, 8))
    assert remarks.every()
    remarks.forget()
    assert not remarks.every()
