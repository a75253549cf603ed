"""Stages that differ in nothing but names have one key in quack's cache; any other difference is another key."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dsl.lower.cute import lower
from dsl.lower.cute.same_kernels import key, numbered

from . import programs

LAYERS = """program p(x: f16[2, 64, 16, 16], {weights}) -> f16[2, 64, 16, 16] {{
  x_nhwc = transform(x) {{ layout nhwc }}
  {layers}
  y = transform({last}) {{ layout nchw }}
  return y
}}"""


def layer(name, x, w, b, epilogue="relu(acc + {b}[c])"):
    return (
        f"{w}_nhwc = transform({w}) {{ layout nhwc }}\n"
        f"  {name} = conv2d({x}, {w}_nhwc) {{ padding 1x1 store f16 nhwc epilogue {epilogue.format(b=b)} }}"
    )


def keys(*layers, names):
    weights = ", ".join(f"{w}: f16[64, 64, 3, 3], {b}: f32[64]" for w, b in names)
    text = LAYERS.format(weights=weights, layers="\n  ".join(layers), last=layers[-1].split(" = conv2d")[0].split()[-1])
    module = lower(programs.program(text)).text
    return dict(re.findall(r"^(\w+) = (?:Conv|Own)Stage\([^\"]*\"(\w{16})\"", module, re.M))


def test_equal_layers_share_their_kernels_whatever_their_tensors_are_called():
    versions = keys(
        layer("stem", "x_nhwc", "w", "bias"),
        layer("h1", "stem", "stem_0_w", "b_2"),
        names=[("w", "bias"), ("stem_0_w", "b_2")],
    )
    assert versions["STEM"] == versions["H1"] and versions["W_NHWC"] == versions["STEM_0_W_NHWC"]
    assert versions["X_NHWC"] != versions["W_NHWC"] != versions["STEM"]


PRODUCTS = """program p(x: f16[256, 512], layers_0_w: f16[512, 512], layers_0_bias: f32[512], layers_2_w: f16[512, 512],
          layers_2_bias: f32[512]) -> f16[256, 512] {
  h1 = gemm(x, layers_0_w.T) { epilogue relu(acc + layers_0_bias[n]) + x[m, n] }
  h2 = gemm(h1, layers_2_w.T) { epilogue relu(acc + layers_2_bias[n]) + h1[m, n] }
  y = gemm(h2, layers_0_w.T) { epilogue relu(acc - layers_0_bias[n]) + h2[m, n] }
  return y
}"""


def test_equal_epilogues_of_products_have_one_text():
    module = lower(programs.program(PRODUCTS)).text
    first, second, third = re.findall(r"^@gemm_epilogue.*?\n\n", module, re.M | re.S)
    assert "(acc, bias, x)" in first and "(acc, bias, h)" in second and "(acc, bias, h)" in third
    same = [re.sub(r"epilogue_\w+", "", text.replace("x", "h")) for text in (first, second, third)]
    assert same[0] == same[1] != same[2]
    again = lower(programs.program(PRODUCTS.replace("h1", "h7").replace("layers_2", "layers_12"))).text
    assert re.findall(r"^@gemm_epilogue.*?\n\n", again, re.M | re.S) == [first, second, third]


def test_another_epilogue_is_another_kernel():
    versions = keys(
        layer("h1", "x_nhwc", "w1", "b1"),
        layer("h2", "h1", "w2", "b2", "relu(acc - {b}[c])"),
        layer("h3", "h2", "w3", "b3", "relu(acc + {b}[c] * 2.0)"),
        names=[("w1", "b1"), ("w2", "b2"), ("w3", "b3")],
    )
    assert len({versions["H1"], versions["H2"], versions["H3"]}) == 3


def test_the_same_tensor_twice_is_not_two_tensors():
    text = "program p(u: f32[64, 256], v: f32[64, 256]) -> (f32[64, 256], f32[64, 256]) {{\n  {}\n  return y, z\n}}"
    stages = "y = map(u) {{ epilogue acc + {}[m, n] }}\n  z = map(v) {{ epilogue acc + {}[m, n] }}"
    module = lower(programs.program(text.format(stages.format("v", "u")))).text
    both = re.findall(r"OwnStage\([^\"]*\"(\w{16})\"", module)
    assert len(both) == 2 and len(set(both)) == 1  # each adds the other's operand
    module = lower(programs.program(text.format(stages.format("v", "v")))).text
    assert len(set(re.findall(r"OwnStage\([^\"]*\"(\w{16})\"", module))) == 2


def test_a_name_that_begins_as_another_one_stays_itself():
    text = "h1_kernel h1_f16_kernel h17_kernel H1_0 xh1 h1"
    assert numbered(text, ("h1", "h1_f16")) == "§0_kernel §1_kernel h17_kernel §0!_0 xh1 §0"


def test_words_about_the_code_make_no_difference():
    text = '''def f(a):\n    """A thread of a warp: a, b."""\n    return a + b  # of a row'''
    assert numbered(text, ("a", "b")) == "def f(§0):\n    \n    return §0 + §1 "


NAMES = st.lists(st.sampled_from(["h1", "h1_f16", "h", "x", "x_0", "w_nhwc", "W"]), unique=True, min_size=1)
WORDS = st.lists(st.sampled_from(["h1", "h1_f16_at", "h_1", "x", "X_0", "w_nhwc_tile", "acc", "0", "W_W"]), max_size=8)


@given(NAMES, WORDS, WORDS)
def test_different_texts_stay_different(names, some, others):
    a, b = " + ".join(some), " + ".join(others)
    assert (key("", a, names) == key("", b, names)) == (a == b)
