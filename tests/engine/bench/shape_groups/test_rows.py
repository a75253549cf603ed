"""A row says how many shapes have a time, and each kernel's share of the bandwidth's bound and of a plain copy."""

import pytest

from engine.bench.studies.shape_groups import rows

COPY = {"bytes": 100, "ms": 0.9, "kind": "measured", "method": "outside clock"}
TIMED = {"ms": 1.0, "bandwidth": 0.8, "speedup": 2.0, "compiled": None}


def shape(tuned=True, **arms):
    arm = {"best": TIMED}
    row = {"shape": [16, 4096], "tuned": tuned, "copy": COPY, "own": arm, "direct": arm, "general": TIMED}
    return rows.with_shares(row | arms)


def row(*shapes):
    one = {"problem": "p", "cls": "f16", "why": "", "shapes": list(shapes)}
    return one | {"summary": rows.summary(one)}


def test_means_and_lines_say_how_many_shapes_have_a_time():
    one = row(shape(direct={"best": None}), shape(general=None), shape(tuned=False))
    assert one["summary"]["general_tuned"]["right"] == 1 and one["summary"]["own_tuned"]["bandwidth"] == 0.8
    text = "\n".join(rows.lines(one))
    assert (
        "p f16 direct_tuned    80% of the bandwidth's bound (least 80%, 80% of all time), 90% of a measured copy "
        "(least 90%), 2.00x PyTorch; right at 1 of 2"
    ) in text


def test_a_share_of_the_copy_is_the_copys_time_over_the_kernels():
    slow = shape(own={"best": TIMED | {"ms": 1.8, "bandwidth": 0.1}})
    assert slow["shares"]["own"] == {"bandwidth": 0.1, "copy": pytest.approx(0.5)}
    mean = row(shape(), slow)["summary"]["own_tuned"]
    assert mean["copy"] == pytest.approx((0.9 * 0.5) ** 0.5) and mean["least_copy"] == pytest.approx(0.5)
    assert mean["whole"] == pytest.approx((0.8 * 1.0 + 0.1 * 1.8) / 2.8), "a shape counts by its time"


def test_without_a_copy_a_row_keeps_its_share_of_the_bound():
    one = row(shape(copy={"bytes": 100, "ms": None, "why": "no memory"}))
    assert one["shapes"][0]["shares"]["own"] == {"bandwidth": 0.8, "copy": None}
    assert one["summary"]["own_tuned"]["copy"] is None and "copy (" not in "\n".join(rows.lines(one))


def test_the_table_has_a_line_for_each_shape_and_arm_and_says_what_was_measured():
    table = list(rows.table(row(shape(), shape(tuned=False, general=None))))
    assert "of the bandwidth's bound | of a measured copy" in table[0] and len(table) == 2 + 2 * len(rows.ARMS)
    assert table[2] == "| 16x4096 | one configuration for all shapes | 1.0000 | 0.9000 | 80% | 90% | 2.00x | - |"
    assert table[5] == "| 16x4096, unseen | one configuration for all shapes | - | 0.9000 | - | - | - | - |"
    predicted = shape(copy=COPY | {"kind": "predicted"})
    assert "of a predicted copy" in next(iter(rows.table(row(predicted))))


def test_arms_that_have_not_run_yet_have_no_shares():
    one = row(shape(own=None, direct=None, general=None))
    assert one["summary"]["own_tuned"]["right"] == 0
    assert "own_tuned       nothing with a time at 1 shapes" in "\n".join(rows.lines(one))
