"""The engine reads a graph that pasted text may have written itself: what the tracer never writes is refused."""

import copy

import pytest

from engine.devices import SessionRefused
from engine.trace import parent
from engine.trace.capture import MAX_OPS


def tensor(name, kind="intermediate"):
    return {"name": name, "shape": [4, 8], "dtype": "f32", "kind": kind, "path": ""}


def op(name, reads, makes):
    return {"name": name, "op": "mul", "inputs": reads, "outputs": makes, "attrs": {}, "line": 1, "module": ""}


GOOD = {
    "ok": {
        "graph": {
            "tensors": [tensor("x", "input"), tensor("y"), tensor("z")],
            "ops": [op("first", ["x"], ["y"]), op("second", ["y", "x"], ["z"])],
            "inputs": ["x"],
            "outputs": ["z"],
        },
        "title": "t",
        "has": {},
    }
}


def forged(change):
    answer = copy.deepcopy(GOOD)
    change(answer["ok"]["graph"])
    return answer


def test_the_graph_before_the_forgeries_is_read():
    assert [o.name for o in parent._read(GOOD, 0.0).graph.ops] == ["first", "second"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda g: g["ops"][0].update(inputs=["z"]), "before it is made"),  # a circle
        (lambda g: g["ops"][0].update(inputs=["y"]), "before it is made"),  # of one operation
        (lambda g: g["ops"].reverse(), "before it is made"),
        (lambda g: g["ops"][1].update(outputs=["y"]), "for the second time"),
        (lambda g: g["ops"][1].update(outputs=["x"]), "for the second time"),
        (lambda g: g["ops"].pop(), "nothing makes an output"),
        (lambda g: g.update(ops=g["ops"] * MAX_OPS), "operations on"),
        (lambda g: g["ops"][1].update(inputs=["x"] * (300 * MAX_OPS)), "operations on"),
        (lambda g: g["ops"][0].update(op=["mul"]), "no name"),
        (lambda g: g["ops"][0].update(attrs=[1]), "no name"),
        (lambda g: g["tensors"][0].update(shape=[10**39]), "no valid shape"),
        (lambda g: g["tensors"][0].update(shape=[1] * 17), "no valid shape"),
        (lambda g: g["tensors"].append(7), "not an op graph"),
        (lambda g: g.update(tensors={}), "unknown tensor"),
    ],
)  # fmt: skip
def test_a_forged_graph_is_garbled(change, why):
    with pytest.raises(SessionRefused, match=why) as caught:
        parent._read(forged(change), 0.0)
    assert caught.value.code == "garbled" and len(caught.value.reason) < 600
