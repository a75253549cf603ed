"""A session's spec: what a person may ask for, and one clear message for what they may not."""

import pytest

from engine.session.spec import LIVE_SOURCE, MAX_SOURCE, BadSpec, LiveSpec, SessionSpec

GOOD = {"title": "t", "source": "class Model: ..."}


def test_a_spec_goes_through_json_unchanged():
    spec = SessionSpec(**GOOD, classes=("f16",), trials=3, eps=0.5, seed=7)
    assert SessionSpec.from_json(spec.to_json()) == spec
    assert SessionSpec.from_json({**GOOD, "classes": ["f16"]}).classes == ("f16",)


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("source", "  ", "paste a PyTorch module"),
        ("source", "x" * 200_001, "200,000"),
        ("source_kind", "poem", "module, program"),
        ("device", "h200", "modelled:h200"),
        ("device", "modelled:h900", "'modelled:h900' is not a device"),
        ("device", "modelled:a100-80gb", "is NVIDIA A100 SXM4 80GB, which cannot run programs for sm_90a"),
        ("strategy", "oracle", "planner"),
        ("strategy", "x" * 10_000, "… is not one of"),
        ("title", "a\0b", "control characters"),
        ("classes", (), "at least one"),
        ("classes", ("f16", "f16"), "once"),
        ("classes", ("f13",), "tf32"),
        ("trials", 0, "from 1 to 1000"),
        ("trials", True, "whole number"),
        ("trials", 2.5, "whole number"),
        ("window", -1, "whole number"),
        ("eps", -0.1, "from 0 to 100"),
        ("eps", float("nan"), "from 0 to 100"),
        ("seed", "x", "whole number"),
        ("title", "t" * 201, "200 characters"),
    ],
)
def test_a_bad_field_is_named_with_what_is_allowed(field, value, words):
    with pytest.raises(BadSpec) as caught:
        SessionSpec(**{**GOOD, field: value})
    assert caught.value.field == field and words in caught.value.message and len(caught.value.message) < 400


@pytest.mark.parametrize(
    "text, field", [("{", "spec"), ("[1]", "spec"), ('{"title": "t"}', "source"), ('{"colour": 1}', "colour")]
)
def test_what_is_no_spec_is_refused_by_name(text, field):
    with pytest.raises(BadSpec) as caught:
        SessionSpec.from_json(text)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("strategy", "options", "words"),
    [
        ("two_stage", {"preset": "junk"}, "preset: no JSON: Expecting value, at line 1, column 1"),
        ("two_stage", {"preset": "[" * 5000}, "preset: no JSON that is read"),
        ("two_stage", {"profile": "maybe"}, "profile: true or false"),
        ("optiml", {"judge": 7}, "judge: true or false"),
        ("optiml", {"depth": None}, "depth: a whole number from 1 to 32"),
        ("cutegen", {"form": "cuda"}, "form: one of auto, program, kernel"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_with_what_it_takes(strategy, options, words):
    with pytest.raises(BadSpec) as e:
        SessionSpec(title="x", source="y", strategy=strategy, options=options, device="modelled:h200")
    assert words in str(e.value) and len(str(e.value)) < 700


def test_the_text_of_a_live_module_may_be_longer_than_what_people_paste():
    spec = LiveSpec(title="x", source="y" * (MAX_SOURCE + 1))
    assert len(spec.changed(trials=3).source) == MAX_SOURCE + 1
    with pytest.raises(BadSpec, match="at most 1,000,000 are allowed"):
        LiveSpec(title="x", source="y" * (LIVE_SOURCE + 1))
