"""The checker: every rule that rejects a program before a compiler sees it. The entry point is `check(text)`."""

from dsl.check.program import Checked, check

__all__ = ["Checked", "check"]
