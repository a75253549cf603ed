"""What a person writes who knows PyTorch, Python or C is answered with this language's way."""

import pytest

from dsl import foreign_idioms
from dsl.check.families import FAMILIES
from dsl.check.program import check
from dsl.editor.repair import repairs
from dsl.functions import EVERY

HEAD = "program f(x: f16[64, 64], w: f16[64, 64], b: f16[64], r: f16[64, 64]) -> f16[64, 64] {\n"
GEMM = HEAD + "  y = gemm(x, w.T) { epilogue HERE }\n  return y\n}"
CASES = [
    (HEAD + "  y = x @ w.T\n  return y\n}", "gemm(x, w.T) is the product"),
    (HEAD + "  y = gemm(x, w.T)\n  z = y + r\n  return z\n}", "map(x) { epilogue acc + r[m, n] } adds tensors"),
    (HEAD + "  y = silu(gemm(x, w.T))\n  return y\n}", "a line of its own: t = gemm(...)"),
    (HEAD + "  y = gemm(x, w.T) { bias b }\n  return y\n}", "epilogue relu(acc + b[n])"),
    (HEAD + "  y = normalize(x) { softmax }\n  return y\n}", "op names it"),
    (HEAD + "  y = normalize(x) { op softmax  over -1 }\n  return y\n}", "over n is the last"),
    (HEAD + "  y = gemm(x, w.T);\n  return y\n}", "leave out the `;`"),
    (HEAD + "  y = gemm(x, w.T) { stages 3, swizzle 4 }\n  return y\n}", "leave out the `,`"),
    (HEAD + "  y = gemm(x, w.T) { tile = 64x64x64 }\n  return y\n}", "leave out the `=`"),
    (HEAD + "  y = gemm(x, w.T) { tile 128, 64, 64 }\n  return y\n}", "for example 128x256x64"),
    (
        HEAD + "  y = gemm(x, w.T) { tile 128 x 64 x 64 }\n  return y\n}",
        "sizes have no spaces between them: 128x256x64",
    ),
    (HEAD + "  y = reduce(x) { op sum  over m n }\n  return y\n}", "axes are separated by commas: over m, n"),
    (HEAD + "  y = gemm(x, w.t())\n  return y\n}", "the transpose is w.T"),
    (GEMM.replace("HERE", "acc ** 2"), "there is no power operator: acc * acc"),
    (GEMM.replace("HERE", "acc ^ 2"), "there is no power operator: acc * acc"),
    (GEMM.replace("HERE", "acc > 0 ? acc : 0"), "where(c, x, y) is x where c is not 0"),
    (GEMM.replace("HERE", "acc * (0 < acc < 1)"), "one comparison in each bracket"),
    (GEMM.replace("HERE", "acc * (acc > 0 & acc < 1)"), "max(x > 1, x < 0) is or"),
    (GEMM.replace("HERE", "acc * (acc = 1)"), "the comparison is =="),
    (GEMM.replace("HERE", "masked_fill(acc, 0)"), "write where(c, y, x)"),
    (GEMM.replace("HERE", "acc + b[:, n]"), "without an offset: b[n], r[m, n]"),
    (GEMM.replace("HERE", "acc + b[0]"), "without an offset: b[n], r[m, n]"),
    (GEMM.replace("x: f16[64, 64]", "x: f16[M, 64]"), "sizes are numbers"),
    (GEMM.replace("HERE", "F.silu(acc)"), "without `F.`"),
    (GEMM.replace("HERE", "swish(acc)"), "did you mean `silu`?"),
    (GEMM.replace("HERE", "softmax(acc)"), "a stage of its own: y = normalize(x) { op softmax  over n }"),
    (GEMM.replace("HERE", "relu6(acc)"), "clamp(x, 0.0, 6.0)"),
    (GEMM.replace("f16[64, 64], w", "f16(64, 64), w"), "a shape is written in [ ]"),
    (GEMM.replace(" -> f16[64, 64]", ""), "-> f16[64, 64]"),
    ("def f(x, w):\n    return x @ w", "a program begins: program"),
]


@pytest.mark.parametrize(("text", "help"), CASES, ids=[c[1][:24] for c in CASES])
def test_the_help_names_the_way(text, help):
    assert any(help in (d.help or "") for d in check(text).diagnostics)


@pytest.mark.parametrize(
    "block", ["tile  schedule pingpong", "tile # 64x64x64\n schedule pingpong", "stages 3  tile", "tile"]
)
def test_a_clause_without_a_value_is_named_and_not_the_one_after_it(block):
    """While `tile` is typed above `schedule pingpong`, that is what stands there."""
    text = HEAD + f"  y = gemm(x, w.T) {{ {block}}}\n  return y\n}}"
    (wrong,) = check(text).diagnostics
    assert wrong.message.startswith("`tile` has no value") and wrong.span.col == text.split("\n")[1].index("tile") + 1
    fixed = repairs(text, [wrong])[0].apply(text)
    assert {d.code for d in check(fixed).diagnostics} <= {"E402"}


def test_signs_of_c_are_left_out_one_after_the_other():
    text = HEAD + "  y = gemm(x, w.T) { stages 3, swizzle 4, epilogue: relu(acc + b[n]) + r[m, n]; };\n  return y;\n}"
    for _ in range(8):
        diagnostics = check(text).diagnostics
        if not diagnostics:
            break
        text = repairs(text, diagnostics)[0].apply(text)
    assert check(text).ok, text


def test_what_is_named_exists():
    assert all(name in EVERY for name in foreign_idioms.FUNCTIONS.values())
    assert not set(foreign_idioms.FUNCTIONS) & set(EVERY) and not set(foreign_idioms.STAGES) & set(FAMILIES)
    for stage in foreign_idioms.STAGES.values():
        assert stage.split("(")[0] in FAMILIES
    assert not set(foreign_idioms.CLAUSES) & {c for f in FAMILIES.values() for c in f.clauses}
