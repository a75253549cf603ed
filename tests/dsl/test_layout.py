"""A program laid out anew: the same meaning, every comment kept, and a second time changes nothing."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsl.check.program import check
from dsl.editor.formatter import WIDTH, formatted
from dsl.printer import to_text

from .pipelines import pipelines
from .test_no_text_breaks_it import EVERYTHING
from .test_reference import EXAMPLES

TOKEN = re.compile(r"#[^\n]*|[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z_.+-]*|->|\.T|[^\sA-Za-z0-9_]")
COMMENTED = """\
# what it is
program p(
  x: f16[64, 64],   # activations
  w: f16[64, 64]
) -> f16[64, 64] {  # one result
    arch   sm_90a   # Hopper
  # the product
  y = gemm(x, w.T) {   # linear
    tile auto          # left to the compiler
    epilogue relu(acc) # no bias
    schedule pingpong
    # nothing else
  }
  return y  # done
}
# the end
"""
LAID_OUT = """\
# what it is
program p(
    x: f16[64, 64],  # activations
    w: f16[64, 64]
) -> f16[64, 64] {  # one result
  arch sm_90a  # Hopper
  # the product
  y = gemm(x, w.T) {  # linear
    schedule pingpong
    # left to the compiler
    epilogue relu(acc)  # no bias
    # nothing else
  }
  return y  # done
}
# the end
"""


def laid_out(text: str) -> str:
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    layout = formatted(text, checked.program)
    again = check(layout)
    assert again.program == checked.program
    assert formatted(layout, again.program) == layout
    comments = [sorted(c.rstrip() for c in re.findall("#.*", t)) for t in (text, layout)]
    assert comments[0] == comments[1]
    return layout


def test_a_comment_stays_with_what_it_speaks_of():
    assert laid_out(COMMENTED) == LAID_OUT


def test_short_blocks_stay_on_their_line_and_long_headers_are_broken():
    layout = laid_out(EVERYTHING)
    assert "xt = transform(x) { layout nhwc }" in layout
    assert all(len(line) <= WIDTH for line in layout.splitlines())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples(path):
    laid_out(path.read_text())


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines())
def test_any_program(program):
    assert check(laid_out(to_text(program))).program == program


@settings(max_examples=75)
@given(st.data())
def test_comments_anywhere_are_kept(data):
    tokens = TOKEN.findall(EVERYTHING)
    for _ in range(data.draw(st.integers(1, 8))):
        comment = data.draw(st.sampled_from(["\n# own line\n", " # beside { y = gemm( \n", "#\n", "\n\n#é }\n\n"]))
        tokens.insert(data.draw(st.integers(0, len(tokens))), comment)
    laid_out(" ".join(tokens))
