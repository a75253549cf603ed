"""The end of a child is data: a refusal is composed from its fields, whatever the words are."""

import pytest

from engine.sandbox import SandboxEnded
from engine.trace.parent import refuse


@pytest.mark.parametrize(
    ("ended", "reason", "refusal"),
    [
        (
            SandboxEnded("garbled", "could not be read (x)", part="answer"),
            "its answer could not be read (x)",
            "The module's answer could not be read (x).",
        ),
        (
            SandboxEnded("crashed", "crashed (SIGSEGV)", 7, part="process"),
            "its process crashed (SIGSEGV)",
            "Line 7: the module's process crashed (SIGSEGV).",
        ),
        (
            SandboxEnded("memory_limit", "used more memory than the limit of 1 GiB", part=""),
            "it used more memory than the limit of 1 GiB",
            "The module used more memory than the limit of 1 GiB; make its tensors smaller.",
        ),
        (
            SandboxEnded("time_limit", "did not end within 5 s", 3),
            "did not end within 5 s",
            "Line 3: the module did not end within 5 s. It is built, and called three times: shorten what it does in "
            "Python, or end its loop.",
        ),
        (
            SandboxEnded("crashed", "the sandbox could not be started: no bwrap"),
            "the sandbox could not be started: no bwrap",
            "Tracing did not begin: the sandbox could not be started: no bwrap.",
        ),
        (SandboxEnded("cancelled", "stopped"), "stopped", "Tracing was stopped."),
    ],
)
def test_a_refusal_names_the_part_of_the_module_that_ended(ended, reason, refusal):
    assert ended.reason == str(ended) == reason
    assert refuse(ended).reason == refusal
