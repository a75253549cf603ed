"""Every program of the suite passes `check` and computes what its module computes: meanings on the CPU, small sizes."""

import pytest

torch = pytest.importorskip("torch")

from engine.suite.cases import cases, module_ids  # noqa: E402
from engine.suite.child import Child  # noqa: E402

CASES = cases()
IDS = module_ids()


@pytest.fixture(scope="module")
def child():
    return Child("cpu")


def test_every_problem_has_a_program_of_its_own_precision():
    whole = {c.module for c in CASES if c.name == c.module}
    assert whole == set(IDS) and len(set(IDS.values())) == 59


def test_many_have_a_second_one_on_the_f16_tensor_cores():
    narrow = [c.module for c in CASES if c.name.endswith("_f16")]
    assert len(narrow) >= 20
    assert sum("conv" in n for n in narrow) >= 8 and sum("conv" not in n for n in narrow) >= 8


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_program(case, child):
    from engine.suite.cases import precision

    program = case.program()
    assert program.name == case.name
    child.open({"module": str(case.module_path), "seed": 7})
    cls = precision(program)
    answer = child.run({"text": case.text, "cls": cls, "case": case.name, "backend": "oracle"})
    assert answer.get("ok"), answer


def test_a_wrong_program_is_told(child):
    case = next(c for c in CASES if c.name == "linear_scale_leaky")
    child.open({"module": str(case.module_path), "seed": 7})
    text = case.text.replace("* 2.0", "* 2.02")
    answer = child.run({"text": text, "cls": "tf32", "case": case.name, "backend": "oracle"})
    assert answer["wrong"] == "wrong_result" and "relative error" in answer["message"]


def test_a_parameter_that_the_module_lacks_is_named(child):
    case = next(c for c in CASES if c.name == "linear_scale_leaky")
    child.open({"module": str(case.module_path), "seed": 7})
    text = case.text.replace("linear_bias", "linear_offset")
    answer = child.run({"text": text, "cls": "tf32", "case": case.name, "backend": "oracle"})
    assert "no `linear_offset`" in answer["message"]
