"""What `mucutlass` carries from one problem to the next: predicted and observed speedups by kind of change.

The kind is one of `ACTIONS`, and no text goes along: words of a model may hold words of the visitor who pasted the
module, and those never leave their session.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.build.cache import default_root
from engine.strategies import memory_lines
from sol.triage import Memory, Outcome

# The actions of sol.levers, then the clauses of the language and kinds of change of a kernel.
ACTIONS = (
    "fuse_attention", "fuse_tail", "fuse_pointwise", "lower_class", "split_k", "stream_k", "drop_copy", "align",
    "channels_last", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle", "backend", "layout", "memory",
    "other",
)  # fmt: skip


def action_of(word: str) -> str:
    """The kind of change that a model named, `other` for one that is none of ACTIONS."""
    return word if word in ACTIONS else "other"


def _file(hardware: str) -> Path:
    return default_root() / "memory" / f"mucutlass-{hardware}.jsonl"


def known(hardware: str) -> str:
    """The memory of this machine as JSON lines."""
    return parsed(memory_lines.read(_file(hardware))).to_lines()


def parsed(text: str) -> Memory:
    """The outcomes of these lines, without torn lines and those of other versions."""
    memory = Memory()
    for line in text.splitlines():
        try:
            outcomes = Memory.from_lines(line).outcomes
        except ValueError:
            continue
        memory.outcomes += [o for o in outcomes if o.action in ACTIONS]
    return memory


def lines_of(outcomes: Iterable[Outcome]) -> str:
    return Memory(list(outcomes)).to_lines()


def keep(hardware: str, lesson: str) -> None:
    if lesson:
        memory_lines.add(_file(hardware), lesson)
