"""What a child printed is bounded, and the innermost pasted line is found in the stack that it wrote."""

import os

import pytest

from engine.sandbox import channel
from engine.sandbox.traces import MAX_PRINTED, STORED, Printed, Stacks


def test_of_much_text_the_beginning_and_the_end_are_kept():
    printed = Printed()
    for i in range(2000):
        printed.add(f"line {i:5} of many\n".encode())
    assert printed.text.startswith("line     0 of many\n") and printed.text.endswith("line  1999 of many\n")
    assert len(printed.text) == 2 * STORED and not printed.too_much
    printed.add(b"x" * MAX_PRINTED)
    assert printed.too_much
    printed.clear()
    assert printed.text == "" and not printed.too_much


def test_the_innermost_pasted_line_of_the_last_stack_is_told():
    stacks = Stacks()
    try:
        assert stacks.line() is None
        head = 'Current thread 0x1 (most recent call first):\n  File "/usr/lib/torch.py", line 9 in mm\n'
        for inner in (4, 7):
            frames = (
                f'  File "{channel.PASTED}", line {inner} in forward\n  File "{channel.PASTED}", line 2 in <module>\n'
            )
            os.write(stacks.fd, (head + frames).encode())
            assert stacks.line() == inner
        assert stacks.line_now([], inner=1) == 7  # a child that does not answer is not waited for
    finally:
        stacks.close()


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 3000, "12345678", "0", "-1", "\u0663", ""])
def test_a_line_that_no_text_has_is_none(number):
    """A text may write into its stacks itself: 5,000 digits ended the engine's request, and its watch of memory."""
    stacks = Stacks()
    try:
        os.write(stacks.fd, f'(most recent call first):\n  File "{channel.PASTED}", line {number} in f\n'.encode())
        assert stacks.line() is None
    finally:
        stacks.close()
