"""Under `help` stands a text that, put in place of the wrong one, makes the program pass."""

import pytest

from dsl.check.program import check

CONV = """program p(x: f16[8, 64, 32, 32], w: f16[128, 64, 3, 3]) -> f16[8, 128, 30, 30] {
  xt = transform(x) { layout nhwc }
  wt = transform(w) { layout nhwc  prepack }
  y = conv2d(xt, wt) { store f16 nchw }
  return y
}"""
GEMM = (
    "program p(x: f16[256, 512], w: f16[1024, 512]) -> f16[256, 1024] {\n  y = gemm(x, w.T) { CLAUSES }\n  return y\n}"
)


def gemm(clauses: str, **swap: str) -> str:
    text = GEMM.replace("CLAUSES", clauses)
    for old, new in swap.items():
        text = text.replace({"t": "f16", "arch": "  y ="}[old], new)
    return text


def own(stage: str, result: str, params: str = "x: f32[64, 128]") -> str:
    return f"program p({params}) -> {result} {{\n  y = {stage}\n  return y\n}}"


# (a program that passes, what of it is replaced by what makes it fail, the code)
CASES = [
    (CONV, "store f16 nchw", "", "E111"),
    (CONV.replace("{ store", "{ stride 2x2  store").replace("30, 30", "15, 15"), "stride 2x2", "stride 2", "E112"),
    (gemm("schedule pingpong"), "pingpong", "pingpng", "E207"),
    (gemm("store f16", t="e4m3").replace("-> e4m3", "-> f16").replace("re e4m3", "re f16"), "store f16", "", "E123"),
    (gemm("pairs  epilogue acc * acc2").replace("-> f16[256, 1024]", "-> f16[256, 512]"), "pairs  ", "", "E313"),
    (gemm("", arch="  launch graph\n  y ="), "graph", "grph", "E120"),
    (gemm("cluster 1x1x1", arch="  arch sm_80\n  y ="), "cluster 1x1x1", "cluster 2x1x1", "E206"),
    (gemm("stages 6", arch="  arch sm_80\n  y ="), "stages 6", "stages 7", "E210"),
    (gemm("tile 128x128x64", arch="  arch sm_100a\n  y ="), "tile 128x128x64", "tile 64x128x64", "E203"),
    (gemm("compute f32  tile 128x128x8", t="f32"), "tile 128x128x8", "tile 128x128x32", "E203"),
    (own("transform(x) { view 8x1024 }", "f32[8, 1024]"), "view 8x1024", "view 8x1000", "E117"),
    (own("reduce(x) { op logsumexp  over n }", "f32[64]"), "logsumexp", "logsumexpp", "E120"),
    (own("reduce(x) { op argmax  over n }", "i32[64]"), "over n", "over m, n", "E119"),
    (own("normalize(x) { op rmsnorm  over n }", "f32[64, 128]"), "over n", "over m", "E119"),
    (own("pool(x) { op max  window global }", "f32[8, 4, 1]", "x: f32[8, 4, 9]"), "  window global", "", "E120"),
    (own("reduce(x) { op mean  over n  epilogue acc + b[m] }", "f32[64]", "x: f32[64, 128], b: f32[64]"),
     "b[m]", "b", "E302"),
    (own("map(x) { epilogue acc + b[c] }", "f32[8, 4, 9, 9]", "x: f32[8, 4, 9, 9], b: f32[4]"), "b[c]", "b[w]", "E302"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "right", "wrong", "code"), CASES, ids=[f"{c[3]}-{i}" for i, c in enumerate(CASES)])
def test_what_help_says_passes(good, right, wrong, code):
    assert check(good).ok, [d.render(good) for d in check(good).diagnostics]
    bad = good.replace(right, wrong, 1)
    diagnostics = check(bad).diagnostics
    assert diagnostics[0].code == code, [d.render(bad) for d in diagnostics]
    assert right.strip().split("(")[0] in diagnostics[0].help


@pytest.mark.parametrize(
    "clauses", ["tile 128x128x128", "tile 100x128x64", "tile 256x256x64", "cluster 2x1x1  tile 512x8x8"]
)
def test_a_convolution_s_configuration_has_a_nearest_that_passes(clauses):
    text = CONV.replace("{ store", f"{{ {clauses}  store")
    for _ in range(4):
        diagnostics = check(text).diagnostics
        if not diagnostics:
            break
        word, value = diagnostics[0].help.split(", or ")[0].split()[:2]
        old = next(c for c in clauses.split("  ") if c.startswith(word))
        text, clauses = text.replace(old, f"{word} {value}"), clauses.replace(old, f"{word} {value}")
    assert check(text).ok, [d.render(text) for d in check(text).diagnostics]


def test_a_rule_of_one_back_end_names_what_keeps_the_other_one_from_the_stage():
    """`cute` refuses the cluster, and `cpp` the schedule: either change alone passes."""
    text = CONV.replace("{ store", "{ tile 256x64x64  schedule pingpong  cluster 2x1x1  store")
    (d,) = check(text).diagnostics
    assert d.code == "E206" and d.help == "cluster 1x1x1, or schedule cooperative"
    assert d.notes[0].startswith("`cpp`: pingpong gives each warp group")
    assert check(text.replace("2x1x1", "1x1x1")).ok and check(text.replace("pingpong", "cooperative")).ok


def test_a_rule_of_both_back_ends_is_reported_once():
    (d,) = check(gemm("tile 256x64x64  schedule pingpong")).diagnostics
    assert d.code == "E207" and d.notes == ()
