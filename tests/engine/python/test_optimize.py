"""`ucutlass.optimize`: a module comes back with its report, and each mistake is one sentence."""

import json
import re
import sys
from dataclasses import replace

import pytest
import torch
import ucutlass
from torch import nn

from engine.session import recording


class Net(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, scale=2.0):
        h = torch.nn.functional.gelu(self.a(x))
        return {"y": self.b(torch.logcumsumexp(h, 1)) * scale}


@pytest.fixture(scope="module")
def net():
    return Net().eval(), torch.randn(256, 1024)


def test_the_module_computes_the_same_and_says_that_its_times_are_predicted(net, priced):
    model, x = net
    fast = ucutlass.optimize(model, [x], trials=4, verbose=False, device="modelled:h200")
    report = fast.report
    assert report.kind == "predicted" and report.speedup > 1 and report.cls == "tf32" and report.ms < report.pytorch_ms
    assert "predicted by a model" in str(report) and "logcumsumexp" in str(report) and 0 < report.trials <= 4
    assert json.loads(json.dumps(report.to_dict()))["programs"] == list(report.programs)
    with torch.no_grad():
        right, out = model(x)["y"], fast(x)["y"]
    assert torch.allclose(out, right, atol=1e-4) and isinstance(fast, Net) and fast.a.weight is model.a.weight
    assert list(fast.state_dict()) == list(model.state_dict())
    assert recording.read(report.log).rows[-1].kind == "session.ended"


def test_named_inputs_and_a_class(net, priced):
    model, x = net
    fast = ucutlass.optimize(
        model, {"scale": 0.5, "x": x}, classes="f16", trials=2, verbose=False, device="modelled:h200"
    )
    assert fast.report.cls in ("f16", "") and "f16" in fast.report.bounds_ms
    with torch.no_grad():
        assert torch.allclose(fast(x, 0.5)["y"], model(x, 0.5)["y"], atol=1e-3)


def test_another_way_to_run_the_same_programs_is_a_package_of_its_own(net, priced, monkeypatch):
    from ucutlass import search

    model, x = net
    whole, packages = search.history.of_session, []
    for fused in (False, True):
        monkeypatch.setattr(search.history, "of_session", lambda *a, f=fused, **k: replace(whole(*a, **k), fused=f))
        fast = ucutlass.optimize(model, [x], trials=2, verbose=False, device="modelled:h200")
        packages.append(type(fast).__module__)
        assert ("compiled by Inductor" in str(fast.report)) is fused
    assert packages[0] != packages[1]


class Sorts(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=1)[0]


def test_where_no_program_is_faster_the_module_itself_comes_back(priced):
    model, x = Sorts().eval(), torch.randn(8, 8)
    fast = ucutlass.optimize(model, x, trials=1, verbose=False, device="modelled:h200")
    assert type(fast) is type(model) and torch.equal(fast(x), model(x)) and not hasattr(model, "report")
    assert fast.report.cls == "" and "PyTorch stays" in str(fast.report)


def test_it_runs_a_real_session_and_stops_in_time():
    model, x = nn.Sequential(nn.Linear(256, 256), nn.ReLU()).eval(), torch.randn(256, 256)
    fast = ucutlass.optimize(model, x, seconds=25, trials=1, verbose=False, device="modelled:h200")
    assert fast.report.seconds < 120 and torch.allclose(fast(x), model(x), atol=1e-4)
    validated = [r for r in recording.read(fast.report.log).rows if r.kind == "trial.validated"]
    assert validated or "25 s are used up" in fast.report.reason


class Reads(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Counts(nn.Module):
    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return x * self.calls


class Cached(nn.Module):
    """Makes positions for its first input, as ConViT does."""

    def __init__(self, width=1024):
        super().__init__()
        self.a = nn.Linear(width, width)
        self.register_buffer("places", torch.zeros(1, 1))

    def forward(self, x):
        if len(self.places) != len(x):
            self.places = torch.arange(len(x), dtype=x.dtype)[:, None]
        return torch.nn.functional.gelu(self.a(x)) + self.places


def test_buffers_that_the_first_call_makes_are_read_by_the_programs(priced):
    model, x = Cached().eval(), torch.randn(512, 1024)
    fast = ucutlass.optimize(model, x, trials=2, verbose=False, device="modelled:h200")
    assert fast.report.programs and model.places.shape == (512, 1)
    with torch.no_grad():
        assert torch.allclose(fast(x), model(x), atol=1e-4)
        fresh = Cached().eval()
        fresh.a.load_state_dict(model.a.state_dict())
        package = sys.modules[type(fast).__module__.partition(".")[0]]
        assert torch.allclose(package.optimized(fresh)(x), model(x), atol=1e-4)


class Grows(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("past", torch.zeros(1, 4))

    def forward(self, x):
        self.past = torch.cat([self.past, x])
        return self.past.sum(0)


class Dtype(nn.Module):
    def forward(self, x, dtype=None):
        return x * 2, x.dtype


class Fails(nn.Module):
    def forward(self, x):
        return x @ torch.zeros(3, 3)


@pytest.mark.parametrize(
    ("module", "inputs", "fields", "words"),
    [
        (lambda x: x, torch.ones(2), {}, "must be a torch.nn.Module"),
        (Net(64), torch.ones(2, 64), {}, r"call \.eval\(\) first"),
        (Net(64).eval(), [], {}, "does not take these inputs: missing a required argument: .x."),
        (Net(64).eval(), {"z": torch.ones(2, 64)}, {}, "does not take these inputs"),
        (Net(64).eval(), [torch.ones(2, 64).numpy()], {}, "an array of NumPy, which torch.from_numpy makes a tensor"),
        (Net(64).eval(), [torch.ones(2, 64)] * 4, {}, "does not take these inputs: too many positional"),
        (Net(64).eval(), [torch.ones(0, 64)], {}, r"input 1 has the shape .0, 64.: axis 0 has size 0"),
        (Net(64).eval().to("meta"), [torch.ones(2, 64, device="meta")], {}, "on meta, without values; give them some"),
        (Counts().eval(), torch.ones(2), {}, "changes the module's attribute calls, so each call computes something"),
        (Grows().eval(), torch.ones(2, 4), {}, r"replaces the module's past, float32 .3, 4., by .* .5, 4., so"),
        (Dtype().eval(), torch.ones(2), {}, "forward returns a torch.dtype: give tensors, plain values, and tuples"),
        (Dtype().eval(), [torch.ones(2), torch.int8], {}, "forward takes a torch.dtype: give tensors, plain values"),
        (Net(64).eval(), "x", {}, "must be a tensor, a list, a tuple or a dictionary, not a str"),
        (Net(64).eval(), torch.ones(2, 64, device="meta"), {}, "the module is on cpu and an input on meta; move one"),
        (Net(64).eval(), torch.ones(2, 64), {"device": "cuda"}, r"on cpu and the search on the GPU: move .* \.cuda"),
        (Net(64).eval(), torch.ones(2, 64), {"classes": "tf64"}, "'tf64' is not one of f32, tf32, f16, bf16, fp8"),
        (Net(64).eval(), torch.ones(2, 64), {"device": "modelled:x"}, "write cuda, or for a prediction one of"),
        (Net(64).eval(), torch.ones(2, 64), {"triels": 2}, "triels: no such field"),
        (
            Reads().eval(),
            torch.ones(2),
            {},
            "Reads .line .* of test_optimize.py.: .*reads the value",
        ),
        (Fails().eval(), torch.ones(2, 2), {}, "PyTorch cannot trace Fails .*same reduction dim"),
    ],
)
def test_each_mistake_is_one_sentence(module, inputs, fields, words, capsys):
    with pytest.raises(ucutlass.OptimizeError) as raised:
        ucutlass.optimize(module, inputs, verbose=False, **fields)
    text = str(raised.value)
    assert re.search(words, text) and "\n" not in text and "Traceback" not in text
    assert "".join(capsys.readouterr()) == ""


def test_a_module_that_is_too_long_for_a_session_says_how_long(monkeypatch):
    from ucutlass import search

    monkeypatch.setattr(search, "LIVE_SOURCE", 1000)
    with pytest.raises(ucutlass.OptimizeError, match=r"Net has 5 operations.* takes 1,000. Optimise its layers"):
        ucutlass.optimize(Net(64).eval(), torch.ones(2, 64), verbose=False)
