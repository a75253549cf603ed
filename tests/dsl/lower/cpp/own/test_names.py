"""The names that a kernel gives its own variables never meet those of tensors, whatever these are called."""

import pytest

from .emulated import agree

STAGES = {
    "a softmax of what x scales": "y = normalize(x) { op softmax  over n  of acc * x[m, n]  epilogue acc * x[m, n] }",
    "a norm in two kernels": "y = normalize(x) { op softmax  over m  of acc * x[m, n] }",
    "a sum of squares": "y = reduce(x) { op sum  over n  of acc * x[m, n]  keepdim }",
    "a sum over rows": "y = reduce(x) { op sum  over m  of acc * x[m, n]  keepdim }",
    "a running sum": "y = scan(x) { op sum  over n  of acc * x[m, n]  epilogue acc - acc2 + x[m, n] }",
    "an element": "y = map(x) { epilogue acc * x[m, n] }",
    "names of variables": "step = scan(x) { op sum  over m  of acc * row[m, n]  epilogue acc - with[n] }\n"
    "  y = scan(step) { op sum  over n  reverse  epilogue acc / row[m, n] }",
    "a tensor called as a result is": "z = map(x) { epilogue acc + 1 }\n"
    "  y = reduce(x) { op sum  over n  of acc * z[m, n]  keepdim }",
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_reads_tensors_by_any_name(name, tmp_path):
    body = STAGES[name]
    result = (
        "f32[1, 64]" if "keepdim" in body and "over m" in body else "f32[8, 1]" if "keepdim" in body else "f32[8, 64]"
    )
    more = "".join(f", {n}: {t}" for n, t in (("row", "f32[8, 64]"), ("with", "f32[64]")) if f"{n}[" in body)
    agree(f"program p(x: f32[8, 64]{more}) -> {result} {{\n  {body}\n  return y\n}}", tmp_path)
