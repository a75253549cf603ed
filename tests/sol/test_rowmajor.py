"""What a convolution that reads nchw on the tensor cores is expected to take: its bytes once, its padding in full."""

import pytest

from dsl.check.program import check
from dsl.resolve import resolve
from dsl.rules import problem
from sol.attainable import collective_time, predict, product_of
from sol.hardware import load

H200 = load("h200")
TEXT = """program p(x: f32[{b}, {c}, 256, 256], w: f32[{k}, {c}, {r}, {r}]) -> f32[{b}, {k}, {o}, {o}] {{
  y = conv2d(x, w) {{ compute {compute} {more} }}
  return y
}}"""


def program(b=32, c=8, k=32, r=3, compute="tf32", more=""):
    return check(TEXT.format(b=b, c=c, k=k, r=r, o=257 - r, compute=compute, more=more)).program


def test_few_channels_are_bound_by_memory_and_each_tensor_is_moved_once():
    p = resolve(program(b=128, c=4, r=1))
    prediction = predict(p, H200)
    assert prediction.bound_by == "memory"
    tensors = sum(t.bytes for t in (*(x.type for x in p.params), p.stages[0].type))
    assert prediction.stages[0].bytes == pytest.approx(tensors)
    assert tensors / H200.copy_rate * 1e3 < prediction.ms < 1.5 * tensors / H200.copy_rate * 1e3


def test_many_channels_are_bound_by_the_tensor_cores_at_well_under_their_peak():
    p = resolve(program(c=256, k=128))
    prediction = predict(p, H200)
    assert prediction.bound_by == "tensor"
    assert 0.3 * H200.peak("tf32") < prediction.rate < 0.65 * H200.peak("tf32")


def test_filters_that_fill_half_a_tile_are_paid_for_whole():
    half, full = (
        collective_time(p, p.stages[0], H200) for p in (program(c=256, k=k, more="tile 128x128x72") for k in (64, 128))
    )
    assert half.tensor_ms == pytest.approx(full.tensor_ms)


def test_it_beats_the_channels_last_program_where_channels_are_few_and_loses_where_they_are_many():
    def last(c, k):
        text = f"""program p(x: f32[32, {c}, 256, 256], w: f32[{k}, {c}, 3, 3]) -> f32[32, {k}, 254, 254] {{
          xt = transform(x) {{ layout nhwc }}
          wt = transform(w) {{ layout nhwc }}
          y = conv2d(xt, wt) {{ store nchw }}
          return y
        }}"""
        return predict(resolve(check(text).program), H200).ms

    def row(c, k):
        return predict(resolve(program(c=c, k=k)), H200).ms

    assert row(8, 32) < 0.6 * last(8, 32)
    assert row(512, 512) > last(512, 512)


def test_a_class_with_a_higher_peak_is_never_expected_to_be_slower():
    for c in (8, 64, 256):
        tf32, f16 = (predict(resolve(program(c=c, compute=x)), H200).ms for x in ("tf32", "f16"))
        assert f16 < 1.05 * tf32


def test_a_transposed_one_of_stride_1_costs_what_the_plain_one_of_padded_x_does():
    text = """program p(x: f32[16, 48, 64, 64], w: f32[{w}, 3, 3]) -> f32[16, 40, 66, 66] {{
      y = conv{t}2d(x, w) {{ compute f16 {padding} }}
      return y
    }}"""
    ways = {"w": "48, 40", "t": "_transpose", "padding": ""}, {"w": "40, 48", "t": "", "padding": "padding 2x2"}
    turned, plain = (predict(resolve(check(text.format(**w)).program), H200) for w in ways)
    assert (turned.ms, turned.stages[0].flops) == (plain.ms, 2 * 16 * 66 * 66 * 40 * 48 * 9)


def test_the_flops_are_those_of_the_implicit_product():
    p = resolve(program(b=2, c=8, k=32))
    stage = p.stages[0]
    assert predict(p, H200).stages[0].flops == 2 * 2 * 254 * 254 * 32 * 8 * 9 == product_of(p, stage).flops


def test_a_guard_costs_its_looks_at_boxes_which_blocks_of_different_filters_share(monkeypatch):
    monkeypatch.setattr(problem, "READ_SHARE", 0.0)  # no kernel before it checks the images

    def priced(k, guard):
        text = TEXT.format(b=32, c=64, k=k, r=3, o=254, compute="f16", more="tile 64x256x144 stages 2")
        p = check(text.replace("  y =", f"  {guard}\n  y =", 1)).program
        return collective_time(p, p.stages[0], H200)

    watched, plain = ([priced(k, guard) for k in (64, 256)] for guard in ("guard f32", ""))
    alone, shared = (w.tensor_ms - p.tensor_ms for w, p in zip(watched, plain, strict=True))
    assert alone == shared == 0  # looks are waiting, no product
    alone, shared = (w.main_ms / p.main_ms for w, p in zip(watched, plain, strict=True))
    assert 1.0 < shared < alone < 1.3
    assert (shared - 1) == pytest.approx((alone - 1) / 4, rel=0.25)  # beside loads and memory, which both hide some
