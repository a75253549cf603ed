"""A module in which only sizes depend on values is optimised around them: these operations stay PyTorch."""

import pytest

from engine.session import events
from tests.engine.unbuilt import assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.net = nn.Linear(64, 4), nn.Linear(64, 64)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 64)) for _ in range(4))
        self.register_buffer("bias", torch.tensor([0.0, 0.0, 0.0, 0.0]))

    def forward(self, x, t):
        FORWARD

def get_inputs():
    return [torch.randn(32, 64), torch.randint(0, 64, (32,))]
"""
MIXTRAL = """
w, chosen = torch.topk(F.softmax(self.gate(x) + self.bias, dim=1), 2, dim=-1)
w = w / w.sum(dim=-1, keepdim=True)
final = torch.zeros((32, 64), dtype=x.dtype, device=x.device)
mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
for i in range(4):
    idx, top_x = torch.where(mask[i])
    rows = self.experts[i](x[None, top_x].reshape(-1, 64)) * w[top_x, idx, None]
    final.index_add_(0, top_x, rows.to(x.dtype))
return final
"""
MODULES = {
    "experts as in Mixtral": MIXTRAL,
    "experts of which two get no rows": MIXTRAL.replace("self.bias", "self.bias - 1e9 * (torch.arange(4) > 1)"),
    "experts by masks": """
best, out = self.gate(x).argmax(-1), torch.zeros_like(x)
for i in range(4):
    out[best == i] = self.experts[i](x[best == i])
return out
""",
    "the loss of the labels that count": "y = self.net(x)\nreturn F.cross_entropy(y[t != 3], t[t != 3])",
    "the mean of what is positive": "y = self.net(x)\nreturn y[y > 0].mean()",
    "values written where a mask is": "y = self.net(x)\ny[y < 0] = x[y < 0] * 0.1\nreturn y",
    "rows that are unique": "u, back = torch.unique(t, return_inverse=True)\nreturn self.net(x) + x[u % 32][back]",
    "the rows of a mask": "return self.net(x)[t > 9]",
}


def source(name: str) -> str:
    return SOURCE.replace("FORWARD", "\n        ".join(MODULES[name].strip().splitlines()))


@pytest.mark.parametrize("name", MODULES)
def test_it_is_verified_and_judged_and_what_varies_stays_pytorch(name):
    log = session(source(name))
    assert_judged_clean(log)
    (covered,) = (e for e in log if isinstance(e, events.Covered))
    whys = [u["why"] for u in covered.uncovered]
    assert "has a size that depends on values, and a program has one size" in whys
