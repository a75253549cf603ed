"""A guarded program is also run on inputs that f16 cannot hold, and counts only where it answers there as well."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.classes import class_of  # noqa: E402
from engine.suite import cases  # noqa: E402
from engine.suite.child import Child  # noqa: E402


def small(name: str, guard: bool) -> dict:
    """A run of a program of the suite on a little instance of its module, as the runner asks for it."""
    case = next(c for c in cases.cases() if c.name == name)
    text = case.text.replace("  arch sm_90a\n", "  arch sm_90a\n  guard f32\n") if guard else case.text
    child = Child("cpu")
    child.open({"module": str(case.module_path), "seed": 4})
    cls = class_of(check(text).program)
    request = {"text": text, "cls": cls, "case": case.name, "backend": "oracle"}
    return child.run(request) | {"child": child, "request": request}


@pytest.mark.parametrize("name", ["linear_scale_leaky_f16", "conv2d_relu_bias_f16"])
def test_the_rescue_is_held_against_float64_in_class_tf32(name):
    ran = small(name, guard=True)
    assert ran["request"]["cls"] == "tf32" and ran.get("ok"), ran
    assert ran["rescued"] < 1e-5 < ran["error"]


def test_without_a_guard_nothing_more_is_run():
    ran = small("linear_scale_leaky_f16", guard=False)
    assert ran["ok"] and ran["request"]["cls"] == "f16" and "rescued" not in ran


def test_a_guard_that_does_not_rescue_is_a_wrong_result(monkeypatch):
    from engine.evaluate.correctness import oracle

    monkeypatch.setattr(oracle, "trips", lambda x: False)
    ran = small("linear_scale_leaky_f16", guard=True)
    assert ran["wrong"] == "wrong_result" and "10^6 times as large" in ran["message"]
    assert "guard f32" in to_text(check(ran["request"]["text"]).program)
