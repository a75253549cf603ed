"""What quack cannot do is refused with a code, a sentence and what to write instead."""

from dataclasses import replace

import pytest

from dsl.ir import Scheduler
from dsl.lower import Refusal
from dsl.lower.cute import lower

from . import programs


def refusal(program) -> Refusal:
    with pytest.raises(Refusal) as caught:
        lower(program)
    return caught.value


def changed(program, **clauses):
    (stage,) = program.stages
    return replace(program, stages=(replace(stage, config=replace(stage.config, **clauses)),))


def test_tf32_along_another_axis_than_k_is_left_to_cpp():
    r = refusal(programs.example("matmul"))
    assert r.code == "cute-k-major" and "tf32 along K only" in r.message and "[n, k]" in r.help


def test_stream_k_is_left_to_cpp():
    r = refusal(changed(programs.gemm(clauses="schedule cooperative"), scheduler=Scheduler("stream_k")))
    assert r.code == "cute-stream-k" and "split_k(n)" in r.help


def test_a_configuration_that_quack_would_not_take():
    r = refusal(changed(programs.gemm(), tile=(128, 208, 64), schedule="cooperative", cluster=(4, 2, 1)))
    assert r.code == "cute-config"


def test_fewer_stages_than_fit():
    r = refusal(changed(programs.gemm(), stages=2))
    assert r.code == "cute-config" and "fills shared memory" in r.message


def test_one_value_a_batch():
    program = programs.batched("8, 64, 32", "8, 32, 48", "8, 64, 48", "x, w", "acc * s[l]", "s: f32[8]")
    assert refusal(program).code in ("cute-load", "cute-config")


def test_unresolved_programs_are_not_guessed_at():
    assert refusal(changed(programs.gemm(), tile=None)).code == "cute-unresolved"


def test_another_architecture():
    assert refusal(replace(programs.gemm(), arch="sm_100a")).code == "cute-arch"


def test_results_that_no_stage_writes():
    program = programs.gemm()
    assert refusal(replace(program, results=("x",))).code == "cute-result"
    assert refusal(replace(program, results=("y", "y"))).code == "cute-result"


def test_a_transposed_convolution_of_many_phases_is_left_to_cpp():
    text = """program p(x: f32[2, 16, 5, 6], w: f32[16, 8, 3, 3]) -> f16[2, 8, {size}] {{
  xh = transform(x) {{ layout nhwc  to f16 }}
  wh = transform(w) {{ layout nhwc  to f16 }}
  y = conv_transpose2d(xh, wh) {{ stride {n}x{n}  store f16 nchw }}
  return y
}}"""
    r = refusal(programs.program(text.format(size="23, 28", n=5)))
    assert r.code == "cute-conv-phases" and "25 phases" in r.message
    assert lower(programs.program(text.format(size="15, 18", n=3))).text
