"""The kernels of a program of many stages can be built in parts, each of which has a few stages."""

import re

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.lower.cpp.emit import PART_WORK, parts
from engine.build import nvcc
from engine.build.cubin import kernels


def products(many):
    body = [f"  h{i} = gemm({f'h{i - 1}' if i > 1 else 'x'}, w{i}.T) {{}}\n" for i in range(1, many + 1)]
    weights = ", ".join(f"w{i}: f16[512, 512]" for i in range(1, many + 1))
    return f"program chain(x: f16[512, 512], {weights}) -> f16[512, 512] {{\n{''.join(body)}  return h{many}\n}}\n"


def casts(many):
    """Kernels of our own: each takes nvcc a second or two."""
    numbers = range(1, many + 1)
    body = "".join(f"  h{i} = transform(x{i}) {{ to f16 }}\n" for i in numbers)
    params, results = (", ".join(f(i) for i in numbers) for f in ("x{}: f32[64, 512]".format, "h{}".format))
    types = ", ".join(["f16[64, 512]"] * many)
    return f"program casts({params}) -> ({types}) {{\n{body}  return {results}\n}}\n"


def source(program):
    return generate(check(program).program, 132).sources["cpp"]


def text(program):
    return source(program).text


@pytest.mark.parametrize(("many", "wanted"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_a_part_has_two_products_at_most(many, wanted):
    assert PART_WORK == 2.0 and parts(text(products(many))) == wanted


def test_one_part_is_written_without_conditions():
    assert "UCUTLASS_PART" not in text(products(2))


def test_each_stage_belongs_to_one_part_and_says_so_to_its_launcher():
    unit = text(products(5))
    written = re.findall(r"UCUTLASS_PART == (\d+)\nnamespace stage_(\w+) \{ constexpr int kPart = (\d+); \}", unit)
    assert written == [(str(i // 2), f"h{i + 1}", str(i // 2)) for i in range(5)]


@pytest.mark.toolchain
def test_parts_are_linked_into_one_library(tmp_path):
    unit = source(casts(12))
    assert parts(unit.text) == 2
    built = nvcc.build(unit, tmp_path, halves=True, seconds=400)
    names = {kernel.name for kernel in kernels(built.path.read_bytes())}
    assert len(names) == 12 and {k["stage"] for k in built.kernels} == {f"h{i}" for i in range(1, 13)}
