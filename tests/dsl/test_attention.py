"""attention: its forms, what the checker says of a wrong one, and the code of its one kernel."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from dsl.rules.attention import tile
from engine.classes import class_of

FORMS = {
    "three operands": (
        "qs: f16[2, 8, 128, 64], ks: f16[2, 2, 96, 64], vs: f16[2, 2, 96, 128]", "qs, ks, vs", "",
        "f16[2, 8, 128, 128]",
        ["qs, 0, (2, 128, 8, 64), (65536, 64, 8192, 1)", "ks, 0, (2, 96, 2, 64)", "vs, 0, (2, 96, 2, 128)"],
    ),
    "two": (
        "qs: bf16[2, 128, 8, 64], kv: bf16[2, 96, 16, 64]", "qs, kv", "order bmhd", "bf16[2, 128, 8, 64]",
        ["qs, 0, (2, 128, 8, 64), (65536, 512, 64, 1)", "kv, 0, (2, 96, 8, 64)", "kv, 512, (2, 96, 8, 64)"],
    ),
    "one": (
        "x: f16[128, 2, 12, 64]", "x", "order mbhd  heads 8x2  scale 0.5  causal", "f16[128, 2, 8, 64]",
        ["x, 0, (2, 128, 8, 64), (768, 1536, 64, 1)", "x, 512, (2, 128, 2, 64)", "x, 640, (2, 128, 2, 64)"],
    ),
}  # fmt: skip


def text(params, operands, clauses, result):
    return f"program p({params}) -> {result} {{\n  y = attention({operands}) {{ {clauses} }}\n  return y\n}}"


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_one_kernel_that_reads_heads_where_they_lie(name):
    *parts, places = FORMS[name]
    program = check(text(*parts)).program
    assert check(to_text(program)).program == program
    compiled = generate(program)
    code = compiled.sources["cute"].text
    assert list(compiled.sources) == ["cute"] and code.count("OwnStage(\n") == 1
    for letter, place in zip("qkv", places, strict=True):
        assert f"{letter}_heads = heads({place}" in code


WRONG = {
    "E105 8 heads of q and twice 3 of k and v are 14; x has 12": ("x: f16[2, 12, 64, 64]", "x", "heads 8x3"),
    "E120 attention of one tensor needs its heads": ("x: f16[2, 12, 64, 64]", "x", ""),
    "E124 heads divides one operand": ("q: f16[2, 8, 64, 64], k: f16[2, 16, 64, 64]", "q, k", "heads 8x8"),
    "E105 k holds as many heads of k as of v; it has 7": ("q: f16[2, 8, 64, 64], k: f16[2, 7, 64, 64]", "q, k", ""),
    "E103 q has 64 sizes of a head, and k 32": (
        "q: f16[2, 8, 64, 64], k: f16[2, 8, 64, 32], v: f16[2, 8, 64, 32]", "q, k, v", "",
    ),
    "E105 k has 64 positions, and v 32": (
        "q: f16[2, 8, 64, 64], k: f16[2, 8, 64, 64], v: f16[2, 8, 32, 64]", "q, k, v", "",
    ),
    "E105 8 heads of queries do not divide among 3": (
        "q: f16[2, 8, 64, 64], k: f16[2, 3, 64, 64], v: f16[2, 3, 64, 64]", "q, k, v", "",
    ),
    "E105 causal is for as many queries as keys": (
        "q: f16[2, 8, 64, 64], k: f16[2, 8, 32, 64], v: f16[2, 8, 32, 64]", "q, k, v", "causal",
    ),
    "E113 a head of 20 elements": ("x: f16[2, 24, 64, 20]", "x", "heads 8x8"),
    "E123 attention multiplies f16 and bf16; x is f32": ("x: f32[2, 24, 64, 64]", "x", "heads 8x8"),
    "E104 q, k and v have four axes": ("x: f16[24, 64, 64]", "x", "heads 8x8"),
    "E107 q is f16 and k is bf16": ("q: f16[2, 8, 64, 64], k: bf16[2, 16, 64, 64]", "q, k", ""),
    "E120 `hbmd` is not a value of order": ("x: f16[2, 24, 64, 64]", "x", "heads 8x8  order hbmd"),
    "E006 epilogue is not a clause of attention": ("x: f16[2, 24, 64, 64]", "x", "heads 8x8  epilogue relu(acc)"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_each_mistake_is_one_message(message):
    params, operands, clauses = WRONG[message]
    (diagnostic,) = check(text(params, operands, clauses, "f16[2, 8, 64, 64]")).diagnostics
    assert f"{diagnostic.code} {diagnostic.message}".startswith(message)


def test_it_is_for_hopper_and_for_one_back_end():
    head = (
        "program p(x: f16[2, 24, 64, 64], a: f32[512, 512], b: f32[512, 512]) -> (f16[2, 8, 64, 64], f32[512, 512]) {"
    )
    body = "  y = attention(x) { heads 8x8 }\n  z = gemm(a, b) { compute tf32 }\n  return y, z\n}"
    (both,) = check(f"{head}\n{body}").diagnostics
    assert both.code == "E212" and "y" in both.message and "z" in both.message
    old = text("x: f16[2, 24, 64, 64]", "x", "heads 8x8", "f16[2, 8, 64, 64]").replace("{\n", "{\n  arch sm_80\n", 1)
    (arch,) = check(old).diagnostics
    assert arch.code == "E201" and arch.help == "arch sm_90a"


GUARDED = """program p(x: f32[2, 24, 64, 40]) -> f32[2, 8, 64, 40] {
  guard f32
  h = transform(x) { to f16 }
  y = attention(h) { heads 8x8  causal }
  z = map(y) { epilogue relu(acc)  store f32 }
  return z
}"""


def test_under_a_guard_any_stage_may_read_it_and_the_rescue_computes_it_in_f32():
    code = generate(check(GUARDED).program).sources["cute"].text
    rescue = code[code.index("where the guard's flag is up: y_f32 = attention(x)") :]
    assert "for key in cutlass.range(near + 1, unroll=1)" in rescue and "if at < 40:" in rescue


def test_a_guarded_program_does_not_return_it_in_f16():
    returned = GUARDED.replace("return z", "return y").replace("-> f32", "-> f16").replace("  z = map", "  # z = map")
    (diagnostic,) = check(returned).diagnostics
    assert diagnostic.code == "E409" and "the caller may need the range of f32" in diagnostic.message


def test_threads_are_a_warp_group_for_64_queries_and_one_that_loads():
    assert (tile(64, 64, False).threads, tile(128, 128, True).threads) == (512, 384)
    assert tile(96, 96, True).keys == 128 and tile(96, 96, False).keys == 144 and not tile(96, 96, False).registers


def test_a_program_of_attention_alone_is_of_its_elements_class():
    for element in ("f16", "bf16"):
        alone = text(f"x: {element}[2, 24, 64, 64]", "x", "heads 8x8", f"{element}[2, 8, 64, 64]")
        assert class_of(check(alone).program) == element
    assert class_of(check(GUARDED).program) == "tf32"
