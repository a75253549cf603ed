"""Arguments and results of any structure: the optimised module gives what the original gives, or says what differs."""

import collections
import dataclasses

import pytest
import torch
import ucutlass
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("priced")
Two = collections.namedtuple("Two", "a b")


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(256, 256)


def x():
    return torch.randn(512, 256)


def module(forward):
    return type("Case", (Base,), {"forward": forward})().eval()


def optimised(model, *args, **kwargs):
    torch._dynamo.reset()
    return ucutlass.optimize(model, args or kwargs, kwargs=kwargs if args else None, device="modelled:h200",
                             trials=1, verbose=False)  # fmt: skip


def same(want, got):
    assert type(want) is type(got)
    if isinstance(want, torch.Tensor):
        return torch.testing.assert_close(got, want, atol=1e-2, rtol=1e-2)
    if isinstance(want, Pair):
        want, got = vars(want), vars(got)
    if isinstance(want, dict):
        assert list(want) == list(got)
        want, got = list(want.values()), list(got.values())
    if isinstance(want, (list, tuple)):
        return [same(a, b) for a, b in zip(want, got, strict=True)]
    assert want == got


CASES = {
    "keyword only": (lambda s, x, *, y, k=2.0: F.relu(s.l(x) + y) * k, [x()], {"y": x()}),
    "named, one left out": (lambda s, x, y=None, z=None: F.relu(s.l(x) + z if y is None else y), [],
                            {"z": x(), "x": x()}),
    "any name": (lambda s, **k: F.relu(s.l(k["x"]) - k["y"]), [], {"y": x(), "x": x()}),
    "several and named": (lambda s, x, *more, z: F.relu(s.l(x) - more[0] + 3 * z), [x(), x()], {"z": x()}),
    "a dataclass in a dictionary": (lambda s, d: F.relu(s.l(d["a"].a) - d["a"].b), [{"a": Pair(x(), x())}], {}),
    "a dataclass of results": (lambda s, x: Pair(F.relu(s.l(x)), x), [x()], {}),
    "results of all kinds": (lambda s, x: {"z": Two(F.relu(s.l(x)), None), "a": [3, "b", (x, 2.5, True)]}, [x()], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_optimised_module_takes_and_gives_what_the_original_does(name):
    forward, args, kwargs = CASES[name]
    model = module(forward)
    fast = optimised(model, *args, **kwargs)
    assert fast.report.programs
    with torch.no_grad():
        want = model(*args, **kwargs)
        same(want, fast(*args, **kwargs))
        same(want, fast(*args, **dict(sorted(kwargs.items(), reverse=True))) if name != "any name" else want)


def test_arguments_that_differ_in_structure_are_never_taken_for_others():
    """All of one shape: taken by their order alone they would give wrong results."""
    model = module(lambda s, x, y=None, z=None, k=1.0: F.relu(s.l(x)) * k + (3 * y if z is None else z))
    a, b = x(), x()
    fast = optimised(model, a, b)
    with torch.no_grad():
        same(model(y=b, x=a), fast(y=b, x=a))
        with pytest.raises(TypeError, match=r"optimised for the tensors x, y, not x, z. Call the original"):
            fast(a, z=b)
        with pytest.raises(ValueError, match=r"for the other arguments z=None, k=1.0, not z=None, k=2.0"):
            fast(a, b, k=2.0)
        with pytest.raises(TypeError, match="misses 'x'"):
            fast(y=b)
        with pytest.raises(TypeError, match="got 'w' and has no such argument"):
            fast(a, b, w=1)


def test_a_dictionary_in_another_order_is_refused_since_forward_may_go_through_it():
    fast = optimised(module(lambda s, d: F.relu(s.l(d["a"]) - d["b"])), {"a": (a := x()), "b": (b := x())})
    with torch.no_grad(), pytest.raises(ValueError, match=r"for d\['a'\], d\['b'\] in this order"):
        fast({"b": b, "a": a})


def test_a_module_of_integers_is_the_module_itself():
    model, n = module(lambda s, i: i * 2 + 1), torch.arange(64)
    assert torch.equal(optimised(model, n)(n), n * 2 + 1)
