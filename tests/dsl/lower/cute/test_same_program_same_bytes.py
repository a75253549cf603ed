"""Generation is a function of the program: same bytes each time, on any hash seed, for any program."""

import os
import subprocess
import sys

from hypothesis import HealthCheck, given, settings

from dsl.lower import Refusal
from dsl.lower.cute import lower
from dsl.printer import digest
from dsl.resolve import resolve
from tests.dsl.programs import programs as random_programs

from . import programs


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(random_programs())
def test_every_program_is_generated_alike_twice_or_refused_in_words(program):
    resolved = resolve(program, 132)
    try:
        first = lower(resolved)
    except Refusal as refusal:
        assert refusal.code.startswith("cute-") and refusal.message
        return
    assert lower(resolved) == first
    compile(first.text, "generated", "exec")
    assert max(map(len, first.text.splitlines())) < 1000


def test_bytes_do_not_depend_on_the_hash_seed():
    code = (
        "from tests.dsl.lower.cute import programs; from dsl.lower.cute import lower; from hashlib import sha256;"
        "print([sha256(lower(programs.example(n)).text.encode()).hexdigest() for n in ('mlp', 'row_scale')])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


def test_the_namespace_is_the_program_s_digest():
    program = programs.example("mlp")
    assert lower(program).namespace == f"uc_{digest(program)}"


def test_the_epilogue_s_text_does_not_depend_on_shapes():
    """quack keys its cache by that text: one compiled kernel serves every size."""

    def epilogue(rows: int) -> str:
        text = lower(
            programs.program(
                f"program p(x: f16[{rows}, 512], w: f16[256, 512], b: f32[256]) -> f16[{rows}, 256] {{\n"
                "  y = gemm(x, w.T) { epilogue relu(acc + b[n]) }\n  return y\n}"
            )
        ).text
        start = text.index("@gemm_epilogue")
        return text[start : text.index("\n\n\n", start)]

    assert epilogue(128) == epilogue(1024)
