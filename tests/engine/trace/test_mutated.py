"""Graphs of a real trace with something else in one or two places, as a module may write them itself: each ends in a
report or in a refusal that says so, never in another error, and soon."""

import json
import random

import pytest

from engine.devices import SessionRefused
from engine.trace import parent
from engine.trace.capture import MAX_OPS
from sol.hardware import HardwareError, load
from sol.report import Garbled, of_a_trace, report

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402

H200 = load("h200")
MOST = 2**40 - 1
VALUES = (
    MOST, 2**63 - 1, 10**9, -1, 0, 1e308, -1e308, "x", None, True, [], [10**9] * 3, [[1] * 3] * 3, {"a": 1}, "9" * 40,
    [-1, -1], [0, 0], 10**39, "inf", [None, "@"], 0.5,
)  # fmt: skip
SIZES = (1, 2, 3, 7, 10**6, 2**39, 0)


class Many(nn.Module):
    """Operations of every kind that a cost looks into the arguments of."""

    def __init__(self):
        super().__init__()
        self.conv, self.back = nn.Conv2d(8, 16, 3, padding=1), nn.ConvTranspose2d(16, 8, 2, 2)
        self.norm, self.pool, self.line = nn.GroupNorm(4, 16), nn.MaxPool2d(2), nn.Linear(32, 32)
        self.steps, self.table = nn.LSTM(32, 16, batch_first=True), nn.Embedding(50, 32)

    def forward(self, x, i):
        y = F.interpolate(self.back(self.pool(torch.relu(self.norm(self.conv(x))))), scale_factor=2.0)
        q = F.layer_norm(torch.softmax(self.line(y.mean(1)), -1), (32,))
        q = F.scaled_dot_product_attention(q, q, q) + torch.einsum("bij,bkj->bik", q, q).tril()
        h, _ = self.steps(q + self.table(i))
        h = F.pad(torch.cat([h, h.flip(1)], -1), (1, 1)).cumsum(1)
        a, b = h.permute(0, 2, 1).chunk(2, 1)
        return (a @ b.transpose(1, 2)).sum(-1), h[:, -1].topk(3)[0], h.sort(-1)[0], x.pow(2.0).reshape(-1)


@pytest.fixture(scope="module")
def traced():
    inputs = (torch.randn(2, 8, 16, 16), torch.randint(0, 50, (2, 32)))
    return json.dumps(Capture(export(Many().eval(), inputs)).graph())


def ending(graph):
    """report | the code of a refusal."""
    try:
        read = parent._read({"ok": {"graph": graph, "title": "t", "has": {}}}, 0.0).graph
        parent._check_elements(read)
        parent._check_size(read, 1 << 60)
        with of_a_trace():
            report(read, H200).to_json()
    except SessionRefused as e:
        return e.code
    except Garbled as e:
        assert "The module's trace is garbled" in str(e) and len(str(e)) < 600
        return "garbled"
    except HardwareError:
        return "hardware"
    return "report"


def mutate(graph, rng):
    kind = rng.choice(("attrs", "attrs", "attrs", "tensor", "tensor", "shape", "op", "inputs", "outputs", "field"))
    op = rng.choice(graph["ops"])
    if kind == "attrs" and op["attrs"]:
        op["attrs"][rng.choice(list(op["attrs"]))] = rng.choice(VALUES)
    elif kind == "tensor":
        rng.choice(graph["tensors"])[rng.choice(("shape", "dtype", "strides", "kind", "name"))] = rng.choice(VALUES)
    elif kind == "shape":
        rng.choice(graph["tensors"])["shape"] = [rng.choice(SIZES) for _ in range(rng.randrange(8))]
    elif kind == "op":
        op["op"] = rng.choice(graph["ops"])["op"]
    elif kind == "inputs":
        op["inputs"] = op["inputs"][: rng.randrange(len(op["inputs"]) + 1)]
    elif kind == "outputs":
        op["outputs"] = op["outputs"] * rng.randrange(3)
    else:
        op[rng.choice(("line", "module", "unmasked", "causal", "name", "op", "attrs"))] = rng.choice(VALUES)


def test_the_graph_itself_has_a_report(traced):
    assert ending(json.loads(traced)) == "report"


def test_a_mutated_graph_ends_as_a_report_or_as_a_refusal(traced):
    rng, endings = random.Random(29), []
    for _ in range(400):
        graph = json.loads(traced)
        for _ in range(rng.choice((1, 1, 2))):
            mutate(graph, rng)
        endings.append(ending(graph))
    assert set(endings) <= {"report", "garbled", "memory_limit", "empty_tensor", "hardware"}
    assert endings.count("report") > 50 and endings.count("garbled") > 50


@pytest.mark.parametrize("value", [MOST, 2**63 - 1, [MOST, MOST]])
@pytest.mark.parametrize("name", ["kernel_size", "stride", "padding", "dilation"])
def test_a_window_of_any_size_ends(traced, name, value):
    graph = json.loads(traced)
    for op in graph["ops"]:
        if "stride" in op["attrs"]:
            op["attrs"][name] = value
    assert ending(graph) in ("report", "garbled")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda op: op["attrs"].update(size=2**64), "arguments"),
        (lambda op: op["attrs"].update(size={"a": 1}), "arguments"),
        (lambda op: op["attrs"].update(size=float("inf")), "arguments"),
        (lambda op: op["attrs"].update(size="x" * 100_000), "arguments"),
        (lambda op: op["attrs"].update(size=[[0] * 1000] * 1000), "arguments"),
        (lambda op: op["attrs"].update(size=[[[[[[[[[[1]]]]]]]]]]), "arguments"),
        (lambda op: op["attrs"].update({"a b": 1}), "without a name"),
        (lambda op: op.update(op="no name"), "no name"),
        (lambda op: op.update(name="a b"), "no name"),
        (lambda op: op.update(line="x"), "on no line"),
        (lambda op: op.update(inputs=op["inputs"] * 3 * MAX_OPS, outputs=op["outputs"] * 200), "operations on"),
    ],
)
def test_what_the_tracer_never_writes_is_refused_before_a_report(traced, change, why):
    graph = json.loads(traced)
    change(graph["ops"][0])
    with pytest.raises(SessionRefused, match=why) as caught:
        parent._read({"ok": {"graph": graph, "title": "t", "has": {}}}, 0.0)
    assert caught.value.code == "garbled" and len(caught.value.reason) < 600


def test_two_operations_of_one_name_are_refused(traced):
    graph = json.loads(traced)
    graph["ops"][1]["name"] = graph["ops"][0]["name"]
    assert ending(graph) == "garbled"
    graph = json.loads(traced)
    graph["tensors"][0]["shape"] = [2**30] * 3
    assert ending(graph) == "garbled"
