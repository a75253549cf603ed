"""What would be a class's best is held on larger and smaller inputs, too, as a session holds every program."""

import pytest

from engine.evaluate.candidate.faults import Wrong
from engine.suite.cases import cases
from engine.suite.child import Child

CASE = next(c for c in cases() if c.name == "linear_scale_leaky")


@pytest.fixture(scope="module")
def child():
    made = Child("cpu")
    made.open({"module": str(CASE.module_path), "seed": 7})
    return made


def held(child, text):
    from dsl.check.program import check

    return child._held({"text": text}, check(text).program, "tf32")


def test_a_right_program_has_an_error_on_each(child):
    problem = child.problem
    found = held(child, CASE.text)
    assert set(found) == {"large", "tiny"} and all(0 <= e < 2**-9 for e in found.values())
    assert child.problem is problem


def test_what_saturates_is_wrong_on_large_inputs_alone(child):
    """On the module's own inputs no element is near 40."""
    text = CASE.text.replace("leaky_relu(", "leaky_relu(min(40.0, ", 1)
    text = text.replace(" * 2.0", ") * 2.0", 1) if ") * 2.0" not in text else text.replace(") * 2.0", ")) * 2.0", 1)
    assert child.run({"text": text, "cls": "tf32", "case": "x", "backend": "oracle"}).get("ok"), text
    problem = child.problem
    with pytest.raises(Wrong, match="on large inputs, "):
        held(child, text)
    assert child.problem is problem
