"""A module returns tensors in any structure, with plain values beside them."""

import pytest

from engine.devices import SessionRefused
from engine.trace import trace
from tests.engine.test_bad_input import X, text
from tests.engine.traced import in_copies
from tests.engine.unbuilt import assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

DATACLASS = """import dataclasses
from typing import Any
@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: Any = None
    steps: int = 0
"""


def with_dataclass(forward: str) -> str:
    source = text(forward)
    return source.replace("class Model", DATACLASS + "class Model", 1)


CACHE = """class Layer:
    def __init__(self):
        self.keys, self.dtype, self.seen = None, None, 0
    def update(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys])
        self.dtype, self.seen = keys.dtype, self.seen + len(keys)
        return self.keys
class Cache:
    def __init__(self):
        self.layers, self.kind = [Layer()], Layer
"""


def with_cache(forward: str, inputs: str = "") -> str:
    source = text(forward, inputs) if inputs else text(forward)
    return source.replace("class Model", CACHE + "class Model", 1)


KINDS = """from collections import OrderedDict
class Fields(dict):
    def __init__(self, **values):
        super().__init__(values)
        self.__dict__ = self
class Output(OrderedDict):
    pass
class Pair(tuple):
    pass
class Several(list):
    pass
"""


def with_kinds(forward: str) -> str:
    return text(forward).replace("class Model", KINDS + "class Model", 1)


RETURNED = {
    "a class of dictionaries": with_kinds("h = self.l(x)\nreturn Fields(a=h.relu(), b=Output(c=h, d=3))"),
    "classes of lists and tuples": with_kinds("h = self.l(x)\nreturn Several([h.relu(), Pair((h, None))])"),
    "an object": with_cache("c, h = Cache(), self.l(x)\nc.layers[0].update(h)\nreturn h.relu(), c"),
    "a dataclass": with_dataclass("h = self.l(x)\nreturn Output(h.relu(), hidden=(h,), steps=3)"),
    "a dataclass in a dictionary": with_dataclass("h = self.l(x)\nreturn {'a': Output(h.relu()), 'b': [h, None]}"),
    "nothing beside tensors": text("h = self.l(x)\nreturn h.relu(), None, h"),
    "numbers and words beside tensors": text("h = self.l(x)\nreturn x.shape[0], h.relu(), {'name': 'a', 'h': h}, 0.5"),
}


@pytest.mark.parametrize("name", RETURNED)
def test_its_tensors_are_the_graph_s_outputs(name):
    graph = in_copies(RETURNED[name]).graph
    assert len(graph.outputs) == 2 and {op.op for op in graph.ops} == {"linear", "relu"}


def test_an_object_goes_in_and_out():
    inputs = f"c = Cache()\n    c.layers[0].update({X})\n    return [{X}, c]"
    source = with_cache("return self.l(c.layers[0].update(x)), c").replace("forward(self, x)", "forward(self, x, c)")
    source = source.replace(source[source.index("    return [") :], f"    {inputs}\n")
    graph = in_copies(source).graph
    assert len(graph.inputs) == 2 and [op.op for op in graph.ops] == ["cat", "linear"] and len(graph.outputs) == 2
    assert_judged_clean(session(source))


def test_an_object_without_tensors_is_refused_by_its_class():
    with pytest.raises(SessionRefused, match="forward returns a Layer beside its tensors"):
        in_copies(with_cache("return self.l(x), Layer()"))


def test_a_session_on_it_ends_with_a_program():
    assert_judged_clean(session(RETURNED["a dataclass"]))


def test_the_second_tracer_leaves_plain_values_out():
    scripted = text("return self.l(x), None, 2", f"[{X}]", init="self.l = torch.jit.script(nn.Linear(64, 64))")
    assert len(trace(scripted).graph.outputs) == 1
