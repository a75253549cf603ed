"""Ways to write a module that PyTorch runs, and that tracing once missed: each ends with a verified program."""

import pytest

from tests.engine.test_bad_input import X, text
from tests.engine.unbuilt import assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

BATCH = """import dataclasses
@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    scale: float = 2.0
"""
OWN = """@torch.library.custom_op("own::scaled", mutates_args=())
def scaled(x: torch.Tensor, s: float) -> torch.Tensor:
    return F.silu(x) * s
@scaled.register_fake
def _(x, s):
    return torch.empty_like(x)
class Model"""
TABLE = """import functools
@functools.cache
def table(n):
    return torch.ones(n, n).triu()
class Model"""
WRITTEN = {
    "memory that is written before it is read": text(
        "out = torch.empty(32, 128)\nout[:, :64] = self.l(x)\nout[:, 64:] = x\nreturn out"
    ),
    "a lazy layer": text("return self.lazy(x).relu()", init="self.lazy = nn.LazyLinear(48)"),
    "a compiled child": text("return self.c(x)", init="self.c = torch.compile(nn.Sequential(self.l, nn.ReLU()))"),
    "a compiled function": text("return f(self.l(x))").replace(
        "class Model", "@torch.compile(mode='reduce-overhead')\ndef f(x):\n    return x.relu() * 2\nclass Model", 1
    ),
    "the data of an intermediate": text("y = self.l(x)\nreturn y.data + y.relu()"),
    "a gradient in forward": text(
        "with torch.enable_grad():\n    z = x.detach().requires_grad_(True)\n    e = self.l(z).pow(2).sum()\n"
        "    (g,) = torch.autograd.grad(e, z)\nreturn x - 0.1 * g"
    ),
    "an input in a dataclass": text("return self.l(x.x) * x.scale", f"[Batch({X})]").replace(
        "class Model", BATCH + "class Model", 1
    ),
    "train that returns nothing": text("return self.l(x).relu()").replace(
        "    def forward", "    def train(self, mode=True):\n        super().train(mode)\n    def forward", 1
    ),
    "a distribution": text("d = torch.distributions.Normal(self.l(x), 0.5)\nreturn d.log_prob(x), d.entropy()"),
    "a call of itself with structures": text(
        "return self.l(x['a']) if left == 0 else self.forward({'a': x['a'] * 2}, left - 1)", f"[{{'a': {X}}}]"
    ).replace("(self, x)", "(self, x, left=2)", 1),
    "a table that a function keeps": text("return (self.l(x) @ x.T + table(32)).relu()").replace(
        "class Model", TABLE, 1
    ),
    "an operator of its own": text("return self.l(scaled(self.l(x), 1.5))").replace("class Model", OWN, 1),
    "a byte order mark and ends of lines of Windows": "\ufeff" + text("return self.l(x).relu()").replace("\n", "\r\n"),
    "masks by operators": text("keep = (x > 0) & ~(x > 1) | (x < -1)\nreturn self.l(x).swapaxes(0, 1), keep"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_it_ends_with_a_verified_program(name):
    assert_judged_clean(session(WRITTEN[name]))
