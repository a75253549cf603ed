"""The checker: every rule that rejects a program before a compiler sees it. `check(text)` is the door."""

from dsl.check.program import Checked, check

__all__ = ["Checked", "check"]
