"""`torch.compile(model, backend="ucutlass")`: graphs are optimised with the parameters of the compiled module."""

import pytest
import torch
import ucutlass
from torch import nn
from ucutlass import dynamo

OPTIONS = {"trials": 2, "device": "modelled:h200"}


@pytest.fixture(autouse=True)
def fresh(priced, compiles):
    dynamo.REPORTS.clear()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(512, 2048), nn.BatchNorm1d(2048), nn.Linear(2048, 512)

    def forward(self, x):
        return self.b(torch.relu(self.norm(self.a(x)))).logcumsumexp(0)


def test_it_is_a_backend_by_its_name():
    assert "ucutlass" in torch._dynamo.list_backends()
    assert torch._dynamo.lookup_backend("ucutlass") is ucutlass.backend


def test_a_compiled_module_runs_its_programs_with_its_own_weights():
    model, x = Net().eval(), torch.randn(256, 512)
    compiled = torch.compile(model, backend="ucutlass", options=OPTIONS)
    with torch.no_grad():
        assert torch.allclose(compiled(x), model(x), atol=1e-4)
        assert len(dynamo.REPORTS) == 1 and dynamo.REPORTS[0].programs
        for p in model.parameters():
            p.mul_(1.5)
        assert torch.allclose(compiled(x), model(x), atol=1e-3)
        model.a.weight = nn.Parameter(torch.randn(2048, 512))
        assert torch.allclose(compiled(x), model(x), atol=1e-2)


def test_a_graph_break_gives_two_graphs():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(512, 512), nn.Linear(512, 512)

        def forward(self, x):
            h = torch.relu(self.a(x))
            torch._dynamo.graph_break()
            return torch.sigmoid(self.b(h))

    model, x = Broken().eval(), torch.randn(64, 512)
    with torch.no_grad():
        out = torch.compile(model, backend="ucutlass", options=OPTIONS)(x)
        assert torch.allclose(out, model(x), atol=1e-4) and len(dynamo.REPORTS) == 2


def test_training_stays_pytorch_and_says_so():
    model, x = nn.Linear(64, 64), torch.randn(8, 64)
    compiled = torch.compile(model, backend="ucutlass", options=OPTIONS)
    with pytest.warns(UserWarning, match="stays PyTorch: a gradient may be wanted"):
        out = compiled(x)
    out.sum().backward()
    assert model.weight.grad is not None and not dynamo.REPORTS


def test_what_cannot_be_optimised_stays_pytorch_with_its_reason():
    model, x = nn.Linear(64, 64).eval(), torch.randn(8, 64)
    compiled = torch.compile(model, backend="ucutlass", options=OPTIONS | {"classes": "tf64"})
    with torch.no_grad(), pytest.warns(UserWarning, match="'tf64' is not one of"):
        assert torch.allclose(compiled(x), model(x))
