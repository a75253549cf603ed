"""What counts as a guard that holds, which programs are run, and what is committed. The run itself needs a GPU."""

import json
import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

import engine.results
from dsl.check.program import check
from dsl.compile import compile as generate
from engine.bench.studies import guarded
from engine.classes import class_of

RESULTS = Path(engine.results.__file__).parent
FILES = sorted(RESULTS.glob("guard-*.json"))
HELD = {"error": 3e-4, "graph_error": 3e-4, "plain_error": 3e-4, "eager_tf32": 3e-4, "flag": 0, "unexpected": 0}
RESCUED = HELD | {"error": 1e-6, "graph_error": 1e-6, "plain_error": 0.02, "flag": 1}


def row(**sets):
    outcomes = {"own": HELD, "large": RESCUED, "tiny": RESCUED, "row": RESCUED, "spread": HELD}
    return {
        "program": "p", "sets": deepcopy(outcomes | sets), "rescue_ms": 6.0, "build_s": {"guarded": 3.0, "plain": 2.0},
        "ms": {"guarded": 0.262, "graph": 0.26, "plain": 0.257, "eager_tf32": 0.35},
    }  # fmt: skip


def test_a_guard_that_holds_everywhere_has_no_fault_and_its_cost_is_against_the_same_without_one():
    assert guarded.faults(row()) == []
    assert guarded.line(row()).startswith("ok  p ") and "costs 5.0 us" in guarded.line(row())


@pytest.mark.parametrize("wrong", [1e-3, float("nan")])
def test_an_error_beyond_tf32s_is_a_fault_in_a_graph_as_well(wrong):
    (fault,) = guarded.faults(row(row=RESCUED | {"graph_error": wrong}))
    assert fault.startswith(f"row: graph_error {wrong:.1e}, more than 3.3e-04")


def test_a_flag_that_stays_down_or_is_raised_for_nothing_is_a_fault():
    (fault,) = guarded.faults(row(tiny=RESCUED | {"flag": 0}))
    assert fault == "tiny: the flag is 0"
    assert guarded.faults(row(own=HELD | {"flag": 1})) == ["own: the flag is 1"]
    assert guarded.faults(row(spread=HELD | {"flag": 1})) == []  # a set of older files, as its numbers fall


def test_a_program_that_was_lost_is_one_line_with_the_reason():
    assert guarded.line({"program": "p", "error": "the process was lost"}).split(None, 2)[2] == "the process was lost"


def test_without_its_guard_a_program_is_the_same_in_every_other_clause():
    programs = {kind: check(text).program for kind, text in guarded.texts("conv_transpose2d_square_f16").items()}
    assert class_of(programs["guarded"]) == "tf32" and programs["guarded"].guard and programs["graph"].graph
    assert (
        not programs["plain"].guard
        and programs["plain"].stages == programs["guarded"].stages == programs["graph"].stages
    )
    assert all(s.config.tile for s in programs["plain"].stages if hasattr(s, "config"))
    assert replace(programs["graph"], graph=False) == replace(programs["guarded"], graph=False)


def test_a_rescue_on_tensor_cores_is_held_to_the_program_in_tf32():
    assert guarded.faults(row() | {"rescue_ms": 0.39, "tf32_ms": 0.35, "limit": guarded.BEFORE}) == []
    (fault,) = guarded.faults(row() | {"rescue_ms": 0.49, "tf32_ms": 0.35, "limit": guarded.BEFORE})
    assert fault == "large: a rescue takes 1.40 times the tf32 program, more than 1.15"
    after = row() | {"rescue_ms": 0.49, "tf32_ms": 0.35, "limit": guarded.AFTER}
    assert "(1.40 of tf32's on large)" in guarded.line(after)


def test_the_limit_holds_for_data_that_trip_in_their_last_row_too():
    times = {"rescue_ms": 0.39, "tf32_ms": 0.35, "rescue_row_ms": 0.42, "tf32_row_ms": 0.35, "limit": guarded.BEFORE}
    (fault,) = guarded.faults(row() | times)
    assert fault == "row: a rescue takes 1.20 times the tf32 program, more than 1.15"
    assert "(1.11 of tf32's on large, 1.20 of tf32's on row)" in guarded.line(row() | times)
    assert guarded.faults(row() | times | {"limit": guarded.AFTER}) == []
    assert guarded.TRIPPED.keys() <= {which for which, trips in guarded.SETS.items() if trips}


@pytest.mark.parametrize(
    ("name", "limit"), [("linear_div_gelu_f16", guarded.BEFORE), ("mlp_sigmoid_logsumexp_f16", guarded.AFTER)]
)
def test_the_limit_goes_by_what_is_multiplied_before_the_flag_is_set(name, limit):
    texts = guarded.texts(name)
    assert class_of(check(texts[guarded.TF32]).program) == "tf32" and not check(texts[guarded.TF32]).program.guard
    assert guarded.limit(check(texts["guarded"]).program) == limit


def test_programs_that_read_images_as_they_lie_are_one_launch_of_cpp_and_say_whether_their_guard_tripped():
    # The first one's images are checked by themselves; reading the second one's would take too much of its product.
    for name, limit in zip(guarded.ROWS, (guarded.BEFORE, guarded.AFTER), strict=True):
        texts = guarded.texts(name)
        assert "compute tf32" in texts[guarded.TF32]
        assert guarded.limit(check(texts["guarded"]).program) == limit
        assert "transform" not in texts["guarded"] and len(check(texts["guarded"]).program.stages) == 1
        assert "run.tripped = " in sources(texts["guarded"])["cpp"].binding
        assert "tripped" not in sources(texts["plain"])["cpp"].binding


def test_a_module_of_cute_says_so_too():
    assert "run.tripped = " in sources(guarded.texts("bmm_f16")["guarded"])["cute"].text


def sources(text):
    return generate(check(text).program).sources


def test_the_sets_are_families_of_the_evaluators_rounds():
    from engine.evaluate.correctness.gpu_rounds import FAMILIES
    from engine.evaluate.correctness.inputs import GUARD_FAMILIES

    assert guarded.FAMILIES.keys() == guarded.SETS.keys()
    assert set(guarded.FAMILIES.values()) <= {*FAMILIES, *GUARD_FAMILIES}


def test_the_plan_needs_no_gpu_and_mistakes_get_one_line(capsys, tmp_path):
    assert guarded.main(["--plan", "--only", "bmm_f16"]) == 0
    assert "1 programs, 4 to build, 4 sets each" in capsys.readouterr().out
    assert guarded.main(["--plan", "--only", "cube"]) == 2
    assert "no program is called 'cube'" in capsys.readouterr().err
    if not os.path.exists("/dev/nvidiactl"):
        assert guarded.main(["--json", str(tmp_path / "x.json")]) == 2 and "no NVIDIA GPU" in capsys.readouterr().err


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_what_is_committed_was_right_on_every_set(path):
    """A rescue that takes too long is told there and in its entry; programs that did not run have no sets."""
    results = json.loads(path.read_text(encoding="utf-8"))
    assert results.keys() >= {"date", "gpu", "driver", "toolchain", "command", "method"}
    ran = {r["program"] for r in results["results"]}
    assert ran <= set(guarded.NAMES)
    rows = [r for r in results["results"] if "sets" in r]
    assert "-part-" in path.name or (len(ran) >= 17 and len(rows) >= 15)
    for r in rows:
        wrong = [f for f in (*guarded.faults(r), *r["faults"]) if "a rescue takes" not in f]
        assert not wrong and r["cost_us"] == guarded.cost_us(r)
