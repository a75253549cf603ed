"""Beyond 2^31 elements offsets are counted in 64 bits, and the text is still C++."""

import shutil
import subprocess

import pytest

from dsl.lower.cpp import lower

from .emulated import HEADERS, program

LARGE = """program p(x: f16[65, 64, 524288], s: f32[64], odd: f32[7, 400000003]) ->
    (f32[65, 64, 524288], f16[65, 524288], f16[65, 64], f32[7, 400000003], f16[65, 64, 524288], f16[65, 64, 262144]) {
  t = transform(x) { layout nhwc }
  y = map(t) { epilogue acc * s[c] store f32 nchw }
  r = reduce(x) { op sum over c }
  q = reduce(x) { op max over w }
  o = map(odd) { epilogue relu(acc) }
  n = normalize(x) { op softmax over w }
  k = pool(x) { op max window 2 stride 2 }
  return y, r, q, o, n, k
}"""


def test_large_tensors_are_counted_in_64_bits(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    source = lower(program(LARGE))
    (tmp_path / "unit.cpp").write_text(source.text)
    flags = ["-std=c++17", "-fsyntax-only", "-w", f"-I{HEADERS}"]
    subprocess.run(["g++", *flags, str(tmp_path / "unit.cpp")], check=True)
    stage = {n: source.text.split(f"namespace stage_{n} {{")[1].split(f"// namespace stage_{n}")[0] for n in "tyo"}
    assert "long long const at_x" in stage["t"] and "long long const at_y" in stage["y"]
    assert "using Index = unsigned long long" in stage["o"]


def test_a_program_without_a_collective_stage_includes_nothing_of_cutlass():
    text = lower(program(LARGE)).text
    assert "cutlass/" not in text and "cute/" not in text
