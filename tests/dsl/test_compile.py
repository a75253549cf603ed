"""A program that passes has a back end, and which ones take it is what dsl.rules.legal says."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from dsl.check.program import check
from dsl.compile import _lowered, compile
from dsl.ir import Gemm
from dsl.printer import digest, to_text
from dsl.rules import legal

from .pipelines import pipelines
from .programs import programs

EXAMPLES = sorted((Path(__file__).parents[2] / "dsl" / "examples").glob("*.ucutlass"))


@settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_a_program_that_passes_is_generated_by_exactly_the_back_ends_that_legal_names(program):
    out = compile(program)
    assert out.sources, {n: f"{r.code} {r.message}" for n, r in out.refused.items()}
    gemms = [s for s in out.resolved.stages if isinstance(s, Gemm)]
    able = [legal.backends(legal.program_problem(out.resolved, s), s.config) for s in gemms]
    expected = {b for b in legal.BACKENDS if all(b in takes for takes in able)}
    assert set(out.sources) == expected, {n: f"{r.code} {r.message}" for n, r in out.refused.items()}


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines())
def test_a_stage_of_any_kind_is_generated_or_refused_by_name(program):
    out = compile(program)
    assert set(out.sources) | set(out.refused) == {"cute", "cpp"}
    for refusal in out.refused.values():
        assert refusal.code and refusal.message


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_compiles_to_the_same_bytes_each_time(path):
    program = check(path.read_text()).program
    one = compile(program)
    _lowered.cache_clear()
    two = compile(program)
    assert one.sources == two.sources and one.sources
    assert one.text == to_text(one.resolved) and one.digest == digest(one.resolved)
    for source in one.sources.values():
        lines = len(source.text.splitlines())
        for line, first, last in source.line_map:
            assert 1 <= line <= len(one.text.splitlines()) and 1 <= first <= last <= lines


def test_a_forced_back_end_is_the_only_one():
    text = "program p(x: f16[256, 256]) -> f16[256, 256] { y = gemm(x, x.T) { backend cpp } return y }"
    out = compile(check(text).program)
    assert set(out.sources) == {"cpp"} and "backend cpp" in out.refused["cute"].message


def test_a_program_is_data_and_the_checker_loads_no_back_end():
    code = (
        "import sys; from dsl.check.program import check; from dsl.resolve import resolve; import dsl.compile;"
        "assert check(open(sys.argv[1]).read()).ok;"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'cutlass', 'quack', 'django', 'jinja2')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLES[0])],
        cwd=EXAMPLES[0].parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == "[]"
