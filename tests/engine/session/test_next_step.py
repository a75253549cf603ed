"""What limits the best program and what to try next: one sentence from the log and the report."""

import pytest

from engine.session.fold.next_step import sentence, untried
from engine.session.fold.reduce import fold

BOUND = {"bound_by": "matrix", "parts": {"matrix": 0.1, "vector": 0.0, "special": 0.0, "memory": 0.05}}
FUSE = {"action": "fuse_tail", "title": "Fuse gelu into the epilogue of linear", "why": "", "saves_ms": 0.1,
        "speedup": 1.4, "cls": "tf32"}  # fmt: skip
GEMM = {"name": "y", "kind": "gemm", "ms": 0.12, "bound_by": "tensor", "parts": {"launch": 0.004}}
COPY = {"name": "x_f16", "kind": "transform", "ms": 0.2, "bound_by": "memory", "parts": {"launch": 0.004}}


def report(levers=(), **bound):
    return {"bounds": {"tf32": BOUND | bound}, "levers": list(levers)}


def view(ms=0.15, limit=0.1, stages=(GEMM,), kind="predicted", speedup=2.0, tried=(), resources=(), best=True):
    judged = {"verdict": "clean", "cls": "tf32", "kind": kind, "ms": ms, "speedup": speedup, "gap": ms / limit}
    kinds = [
        ("session.started", {"classes": ["tf32"]}),
        ("reported", {"bounds": {"tf32": limit}}),
        ("trial.proposed", {"trial": 1, "cls": "tf32"}),
        ("trial.checked", {"trial": 1, "stages": list(stages), "tried": list(tried)}),
        ("trial.compiled", {"trial": 1, "resources": list(resources)}),
        ("trial.judged", {"trial": 1, "best": best, **judged}),
    ]
    return fold({"seq": i, "kind": k, "t": 0.0, "data": d} for i, (k, d) in enumerate(kinds, 1))


def test_before_a_trial_has_a_time_there_is_nothing_to_say():
    assert sentence(fold([]), None) == ""
    flagged = [("trial.proposed", {"trial": 1}), ("trial.judged", {"trial": 1, "verdict": "gaming", "ms": 1.0})]
    assert sentence(fold({"seq": i, "kind": k, "t": 0, "data": d} for i, (k, d) in enumerate(flagged, 1)), None) == ""


def test_the_longest_stage_and_what_binds_it_are_named_with_a_remedy():
    assert sentence(view(stages=[GEMM, COPY]), report()) == (
        "Trial 1 (TF32) takes 1.50 times the limit; by the model, its stage x_f16 takes 62% of the time and is bound "
        "by memory bandwidth; try next: reading its source directly, without this copy."
    )
    assert "another tile, cluster or schedule" in sentence(view(), report())


@pytest.mark.parametrize(
    ("by", "kind", "remedy"),
    [("l2", "gemm", "larger tile"), ("memory", "gemm", "another tile"), ("memory", "map", "fewer passes"),
     ("special", "map", "cheaper functions"), ("epilogue", "gemm", "shorter epilogue"), ("vector", "map", "pipes")],
)  # fmt: skip
def test_each_bottleneck_has_its_remedy(by, kind, remedy):
    text = sentence(view(stages=[GEMM | {"bound_by": by, "kind": kind}]), report())
    assert remedy in text.partition("try next: ")[2]


def test_a_lever_of_the_report_that_no_trial_used_comes_first():
    assert "try next: fuse gelu into the epilogue of linear (predicted 1.40x" in sentence(view(), report([FUSE]))
    assert "fuse gelu" not in sentence(view(tried=["fuse_tail"]), report([FUSE]))
    assert "fuse gelu" not in sentence(view(), report([FUSE | {"speedup": 1.01}]))
    lower = FUSE | {"action": "lower_class", "title": "Use the f16 class", "target": "f16"}
    assert "f16" not in sentence(view(), report([lower]))  # a class is the user's choice


def trials(*rows):
    """A log of trials, (class, levers that its program uses, kind and data of its last event or None)."""
    kinds = [("session.started", {"classes": ["tf32", "f16"]})]
    for n, (cls, tried, end) in enumerate(rows, 1):
        kinds += [("trial.proposed", {"trial": n, "cls": cls}), ("trial.checked", {"trial": n, "tried": tried})]
        kinds += [(end[0], {"trial": n, **end[1]})] if end else []
    return fold({"seq": i, "kind": k, "t": 0.0, "data": d} for i, (k, d) in enumerate(kinds, 1))


CLEAN = ("trial.judged", {"verdict": "clean", "ms": 1.0, "best": True})
WRONG = ("trial.failed", {"step": "validate", "code": "wrong_result", "reason": "wrong"})
CHEAT = ("trial.judged", {"verdict": "gaming", "ms": 1.0})


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([], ["fuse_tail", "lower_class"]),
        ([("f16", ["fuse_tail"], CLEAN), ("tf32", [], CLEAN)], []),  # in another class than the latest trial
        ([("tf32", [], CLEAN), ("tf32", ["fuse_tail"], None)], ["lower_class"]),  # that trial still runs
        ([("f16", ["fuse_tail"], WRONG)], ["fuse_tail", "lower_class"]),
        ([("f16", ["fuse_tail"], CHEAT)], ["fuse_tail", "lower_class"]),
    ],
)
def test_a_lever_that_any_trial_uses_is_not_called_untried(rows, left):
    levers = [FUSE, FUSE | {"action": "lower_class", "title": "Use the f16 class", "target": "f16"}]
    assert [x.action for x in untried(trials(*rows), levers)] == left
    assert "fuse_tail" not in [x.action for x in untried(trials(*rows), levers, ["fuse_tail"])]  # it waits


def test_spilled_registers_come_before_everything():
    spills = [{"kernel": "y", "spill_bytes": 128}]
    assert "registers are spilled" in sentence(view(resources=spills), report([FUSE]))


def test_a_time_that_the_model_does_not_explain_wants_a_profile():
    assert "try next: a profile, because it takes 1.25" not in sentence(view(kind="measured"), report())
    assert "a profile, because it takes 2.50 times what the model" in sentence(view(ms=0.3, kind="measured"), report())


def test_near_the_limit_only_less_work_helps():
    assert sentence(view(ms=0.105), report()) == (
        "Trial 1 (TF32) is within 5% of the limit, which the matrix units set: only less work or a lower precision "
        "class helps much."
    )
    assert "memory bandwidth sets: only moving fewer bytes" in sentence(view(ms=0.105), report(bound_by="memory"))


def test_a_tiny_module_is_bound_by_its_launches():
    text = sentence(view(ms=0.008, limit=4e-6, stages=[GEMM, COPY]), report())
    assert text.startswith("Trial 1 (TF32) is bound by the launch: its 2 launches") and "times the limit" not in text
    assert "CUDA graph" in sentence(view(ms=0.008, limit=4e-6), report())


def test_where_pytorch_stays_the_sentence_is_about_the_trial_that_came_closest():
    text = sentence(view(speedup=0.8, best=True), report())
    assert text.startswith("No program is faster than PyTorch so far; the fastest, trial 1 (TF32), takes 1.50 times")


def test_a_kernel_without_stages_is_compared_with_its_work():
    assert sentence(view(stages=()), report()) == (
        "Trial 1 (TF32) takes 1.50 times the limit; at full rate, the matrix units need 67% of that time."
    )
    assert sentence(view(stages=()), None) == "Trial 1 (TF32) takes 1.50 times the limit."
