"""Each figure of an edit says its source: measured before and after, or predicted in both, and in one unit."""

import pytest


@pytest.fixture
def drawn(checkout):
    """drawn([(topic, facts)..]): the text of OptiML's part of the page of a session that ended."""

    def text(shown):
        script = """async (shown) => {
          const { draw } = await import("/static/js/session/strategies/optiml.js");
          return draw(shown, () => {}, true).textContent;
        }"""
        return checkout.evaluate(script, [{"topic": topic, "facts": facts} for topic, facts in shown])

    return text


COMMON = {
    "cls": "f16", "form": "program", "outcome": "right", "text": "t", "language": "", "prior": 0.5, "targets": "memory",
    "note": "", "ruling": "within", "reason": "Right.", "diagnosis": {"missing": "the option judge is off"},
    "incumbent": 1, "kind": "measured", "change": "a candidate",
}  # fmt: skip
FIGURES = {"time": 0.3, "memory": 637_534_208.0, "occupancy": 0.25}


def node(number, **more):
    """The root (0) or an edit of it."""
    place = {"parent": 0, "depth": 1, "before": "t", "edits": 1} if number else {
        "parent": None, "depth": 0, "before": "", "edits": None,
    }  # fmt: skip
    facts = {
        "node": number, "trial": number + 1, "reward": 0.5, "parts": [], "figures": FIGURES, "unknown": {},
        "path": [[number, 1, 0.5]],
    }  # fmt: skip
    return "node", COMMON | place | facts | more


def test_a_figure_is_measured_before_and_after_or_predicted_in_both_and_has_one_unit(drawn):
    counted = {"memory": 1.2e9, "occupancy": 0.5, "instructions": 3e6}
    edit = node(1, incumbent=2, counted={"memory": 6e8, "occupancy": 0.4, "instructions": 2e6}, uncounted="")
    text = drawn([node(0, counted=counted, uncounted=""), edit])
    assert "Memory traffic measured by Nsight Compute1.2 GB600 MB0.500 times" in text
    assert "Instructions measured by Nsight Compute3,000,0002,000,000" in text and "MiB" not in text
    why = "the profiler could not count"
    text = drawn([node(0, counted=counted, uncounted=""), node(1, incumbent=2, uncounted=why)])
    assert "Memory traffic predicted by the model of the GPU637.5 MB637.5 MB1.00 times" in text
    assert f"Nsight Compute measured none of these: {why}." in text and "1.2 GB" not in text
