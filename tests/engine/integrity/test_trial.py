"""What a session's trial showed of itself becomes evidence, and the worst of it the verdict."""

import pytest

from engine.evaluate.integrity import trial
from engine.evaluate.timing import cupti
from engine.evaluate.timing.cupti import groups
from engine.evaluate.timing.samples import net

SILENT = {"launches": ["xh", "y"], "same": False, "unwritten": 1000, "elements": 1000}


def kernel(name, start=0.0, us=100.0, stream=7, library=False):
    return {"name": name, "start_us": start, "us": us, "stream": stream, "library": library}


def facts(**changes):
    return {"silent": SILENT, "kernels": [kernel("kernel_cutlass_gemm")], "busy_us": 100.0, "patched": []} | changes


def verdicts(**changes):
    checks = trial.of_run(facts(**changes), 0.105, 2, 15)
    return trial.worst(checks), {c["name"]: c for c in checks}


def test_an_honest_program_is_clean_and_each_check_says_what_was_seen():
    verdict, checks = verdicts()
    assert verdict == "clean" and all(c["verdict"] == "passed" for c in checks.values())
    assert checks["without kernels"]["said"] == "2 launches left out, 1,000 of 1,000 elements stay unwritten"
    assert checks["streams"]["said"] == "0.1 ms on 1 stream, 0.105 ms by events"
    assert checks["timed results"]["said"] == "2 of 15 timed results were compared, and right"


def test_of_many_kernels_the_longest_are_named_with_their_places():
    many = [kernel(f"kernel_cutlass_h{i}", us=10.0) for i in range(6)] + [kernel("slow", us=40.0)]
    _, checks = verdicts(kernels=many)
    assert checks["kernels"]["said"].startswith(
        "CUPTI saw 7 of 7 kernels that are the program's own; the longest of 100 us"
    )
    assert "number 7 (slow) 40 us, 40%; number 1 (kernel_cutlass_h0) 10 us, 10%" in checks["kernels"]["said"]


def test_streams_of_a_library_alone_hide_nothing():
    """As an nn.LSTM in both directions that stays PyTorch beside our programs."""
    network = [
        kernel("void LSTM_elementWise_fp<float>", 200.0 + i, 90.0, stream, True) for i, stream in ((0, 8), (95, 9))
    ]
    verdict, checks = verdicts(kernels=[kernel("kernel_cutlass_gemm"), *network])
    assert verdict == "clean" and checks["streams"]["said"] == "0.1 ms on 1 stream, 0.105 ms by events"
    assert cupti.busy_us(cupti.beside_libraries([kernel("own"), *network])) == 100.0
    own = kernel("uc_0_stage_y", 150.0, 400.0, stream=8)
    assert cupti.busy_us(cupti.beside_libraries([kernel("own"), own, *network])) > 400.0


@pytest.mark.parametrize(
    ("changes", "verdict", "name", "says"),
    [
        ({"silent": {**SILENT, "same": True}}, "gaming", "without kernels", "the kernels have no part in it"),
        ({"silent": {**SILENT, "launches": []}}, "library only", "without kernels", "no kernel of its own"),
        ({"kernels": []}, "gaming", "kernels", "nothing run"),
        ({"kernels": [kernel("nvjet_hsh", library=True)]}, "library only", "kernels", "nvjet_hsh"),
        (
            {"kernels": [kernel("a"), kernel("b", stream=9)], "busy_us": 100.0},
            "minor",
            "streams",
            "0.1 ms on 2 streams",
        ),
        ({"busy_us": 400.0}, "gaming", "streams", "hidden from the clock"),
        ({"patched": ["torch.cuda.Event.elapsed_time"]}, "gaming", "clocks", "torch.cuda.Event.elapsed_time"),
    ],
)
def test_what_is_wrong_is_named(changes, verdict, name, says):
    worst, checks = verdicts(**changes)
    assert worst == verdict and checks[name]["verdict"] == verdict and says in checks[name]["said"]


def test_what_could_not_be_looked_at_is_told_and_accuses_nobody():
    silent = {"left_out": "its kernels could not be left out: RuntimeError: no"}
    verdict, checks = verdicts(silent=silent, kernels=None, no_kernels="CUPTI did not answer: RuntimeError")
    assert verdict == "clean"
    assert checks["without kernels"]["verdict"] == checks["kernels"]["verdict"] == "not looked at"
    assert "CUPTI did not answer" in checks["kernels"]["said"]


def test_a_coarser_product_than_its_class_is_no_honest_entry():
    assert trial.of_precision("tf32", "tf32")["verdict"] == trial.of_precision("tf32", "f16")["verdict"] == "passed"
    assert trial.of_precision("bf16", "f16")["verdict"] == "gaming"
    assert "in f16, it is compared in tf32" in trial.of_precision("f16", "tf32")["said"]


def test_the_precision_of_guarded_products_is_what_they_multiply_in():
    check = trial.of_precision("tf32", "tf32", "f16")
    assert check["verdict"] == "passed" and "its products are in f16 under a guard" in check["said"]
    assert "its products are in tf32" in trial.of_precision("tf32", "tf32", "tf32")["said"]


def test_nothing_is_faster_than_the_hardware():
    assert trial.of_limit(0.85, 0.3, 0.9)["verdict"] == "gaming"
    assert trial.of_limit(1.2, 0.3, 0.9)["said"] == "1.20 times the limit of 0.3 ms"
    assert trial.of_limit(4078.0, 2e-6, 0.9)["said"] == "bound by launches, far above the limit of 2e-06 ms"


def test_cupti_spans_begin_after_the_flush_and_the_hold():
    log = [kernel(n) for n in ("fill", "spin_kernel(long)", "a", "b", "fill", "spin_kernel(long)", "spin_kernel(long)")]
    assert [[k["name"] for k in g] for g in groups(log, ["fill"])] == [["a", "b"], ["spin_kernel(long)"]]


def test_the_time_of_events_themselves_is_taken_off_and_never_more_than_half():
    assert net(0.1, 0.0045) == pytest.approx(0.0955)
    assert net(0.006, 0.0045) == 0.003


def test_a_guard_that_tripped_is_told_and_one_that_did_not_is_no_flaw():
    def guard(raised):
        return [c for c in trial.of_run(facts(guard=raised), 0.105, 2, 15) if c["name"] == "guard"]

    assert guard([]) == guard([None, None]) == []  # no guard
    (down,) = guard([False, False])
    assert down["verdict"] == "passed" and "stayed down" in down["said"] and trial.tripped([down]) == ""
    (up,) = guard([True, False])
    assert trial.worst([up]) == "minor" and trial.tripped([up]) == up["said"]
    assert up["said"].startswith("the guard tripped on 1 of 2 sets of timed inputs: timed is all of it again in f32")
    assert "on all timed inputs" in guard([True, True])[0]["said"]


def test_a_guard_that_tripped_names_the_magnitudes_that_f16_does_not_hold():
    checks = trial.of_run(facts(guard=[True], ranges={"h": [1e-7, 2e-3]}), 0.105, 2, 15)
    assert trial.ranges(checks) == {"h": (1e-7, 2e-3)}
    assert trial.ranges(trial.of_run(facts(guard=[True]), 0.105, 2, 15)) == trial.ranges([]) == {}
