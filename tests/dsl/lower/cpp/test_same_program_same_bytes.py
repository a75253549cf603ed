"""Generation is a function of the program: same bytes each time, and one unit for all run-time choices."""

import dataclasses
import os
import subprocess
import sys

from hypothesis import HealthCheck, given, settings

from dsl.ir import Gemm
from dsl.lower import Refusal
from dsl.lower.cpp import lower
from dsl.printer import digest
from dsl.resolve import resolve
from tests.dsl.programs import programs as random_programs

from . import programs


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(random_programs())
def test_every_program_is_generated_alike_twice_or_refused_in_words(program):
    resolved = resolve(program, 132)
    try:
        first = lower(resolved)
    except Refusal as refusal:
        assert refusal.code.startswith("cpp-") and refusal.message
        return
    assert lower(resolved) == first
    assert "//@" not in first.text and "{{" not in first.text
    compile(first.binding, "binding", "exec")


def test_bytes_do_not_depend_on_the_hash_seed():
    code = (
        "from tests.dsl.lower.cpp import programs; from dsl.lower.cpp import lower; from hashlib import sha256;"
        "s = lower(programs.program(programs.SPLIT_K)); print(sha256((s.text + s.binding).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_swizzle_and_split_factor_are_run_time_arguments():
    base = programs.program(programs.SPLIT_K)

    def with_(**changes):
        stage = base.stages[0]
        return dataclasses.replace(
            base, stages=(dataclasses.replace(stage, config=dataclasses.replace(stage.config, **changes)),)
        )

    scheduler = base.stages[0].config.scheduler
    one, other = lower(base), lower(with_(swizzle=8, scheduler=dataclasses.replace(scheduler, splits=2)))
    assert one.text == other.text and one.namespace == other.namespace  # so one build serves both
    assert "LAUNCH = [0, 1, 4]" in one.binding and "LAUNCH = [0, 1, 2]" in other.binding  # one tile: no group to make
    assert lower(with_(stages=2)).namespace != one.namespace


def test_the_namespace_is_the_digest_when_no_run_time_choice_departs_from_its_default():
    program = programs.program(programs.LINEAR_LEAKY)
    assert isinstance(program.stages[0], Gemm)
    assert lower(program).namespace == f"uc_{digest(program)}"
