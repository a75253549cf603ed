"""What a person should know of how a module was traced, by the tracer's parts that notice it."""

from __future__ import annotations

_remarks: dict[str, str] = {}


def remark(key: str, value: str) -> None:
    """Keep the first value of a key: both_branches (a torch.cond), autocast (the line of a block that casts), or
    selections (a branch on whether a mask selects anything)."""
    _remarks.setdefault(key, value)


def every() -> dict[str, str]:
    """The remarks since `forget`."""
    return dict(_remarks)


def forget() -> None:
    """Begin with another module."""
    _remarks.clear()


__all__ = ["every", "forget", "remark"]
