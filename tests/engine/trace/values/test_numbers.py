"""Forward may read whole numbers that its module keeps in buffers outside of the state_dict."""

import pytest

from engine.devices import SessionRefused
from tests.engine.trace.test_graph import graph_of

pytestmark = pytest.mark.usefixtures("full_sandbox")

X = "torch.randn(4, 3, 30)"
BUFFER = "self.register_buffer('n', torch.tensor({}, dtype=torch.int64), persistent={})"
PADDED = (
    "x, = args\nframes = (x.shape[-1] - 5 + self.n) / 4 + 1\n"
    "extra = (frames.ceil().to(torch.int64) - 1) * 4 + 5 - self.n - x.shape[-1]\n"
    "if x.shape[-1] <= max(int(self.n), int(extra)):\n    x = x * 2\nreturn F.pad(x, (self.n, extra), mode='reflect')"
)


@pytest.mark.parametrize("value", [BUFFER.format(1, False), f"self.scale = [1.0][{X}.sum().item() > 1e9]\n"
                                   + BUFFER.format(1, False)], ids=["fake tensors", "real tensors"])  # fmt: skip
def test_a_number_decides_how_far_to_pad(value):
    graph = graph_of(PADDED, X, value)
    assert graph.tensors[graph.outputs[0]].shape == (4, 3, 33) and graph.ops[-1].op in ("pad", "reflection_pad1d")
    assert not [op.op for op in graph.ops if op.op == "mul"]


@pytest.mark.parametrize(
    ("forward", "init"),
    [
        ("return args[0] * 2 if self.n > 3 else args[0]", BUFFER.format(1, True)),
        ("self.n += 1\nreturn args[0] * 2 if self.n > 3 else args[0] + 1", BUFFER.format(1, False)),
        ("return args[0] * 2 if args[1] > 3 else args[0]", BUFFER.format(1, False)),
    ],
    ids=["which a checkpoint replaces", "which each call changes", "of an input"],
)
def test_other_numbers_decide_nothing(forward, init):
    with pytest.raises(SessionRefused, match=r"reads the value of a tensor|changes the module's attribute") as e:
        graph_of(forward, f"{X}, torch.tensor(1)", init)
    assert e.value.code in ("data_dependent", "writes")
