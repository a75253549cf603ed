"""A session whose best program is slower than torch.compile says so at its end."""

import pytest

from engine.session import events, outcome
from engine.session.event_base import Measurement
from engine.session.journal import Journal

OURS = events.TrialJudged(1, "clean", "tf32", "measured", 0.427, 1.315, "eager_tf32", 31.4, 0.57, True, "")


def compiled(name, cls, ms, ratio=None, beside=""):
    return events.Baseline(name, cls, Measurement(ms, ms, ms, [ms], "", {}), "", beside, ratio)


def end(*baselines):
    proposed = events.TrialProposed(1, "tf32", "", "cpp", "first", "")
    return outcome.summary("The search is over.", Journal([proposed, OURS, *baselines], str, float), ("tf32",), None)


@pytest.mark.parametrize(
    ("baseline", "said_faster"),
    [
        (compiled("compile_tf32", "tf32", 0.344, 0.612, "eager_tf32"), True),
        (compiled("compile", "f32", 0.342, 0.61, "eager_tf32"), True),
        (compiled("compile_tf32", "tf32", 0.426, 0.77, "eager_tf32"), False),  # the ratio beside the same calls decides
        (compiled("compile_tf32", "tf32", 0.344), True),  # timed in another run
        (compiled("compile_tf32", "tf32", 0.5), False),
        (compiled("compile_f16", "f16", 0.2), False),  # a coarser class
    ],
)
def test_the_end_names_it_where_it_is_faster_in_the_class_or_a_finer_one(baseline, said_faster):
    words = end(baseline)
    assert "Best in tf32: 0.427 ms measured" in words
    assert ("is faster in tf32: " in words) is said_faster


def test_its_ratio_is_said_beside_its_time_since_a_time_of_another_run_may_be_longer():
    words = end(compiled("compile_tf32", "tf32", 0.45, 0.5, "eager_tf32"))
    assert words.endswith("torch.compile (TF32) is faster in tf32: 0.45 ms measured, 2.00x PyTorch eager (TF32).")


def test_without_its_time_nothing_is_said_of_it():
    assert "torch.compile" not in end()
