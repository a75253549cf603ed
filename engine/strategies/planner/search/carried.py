"""A program at other sizes: the same stages with the same configurations, for a module that differs in sizes alone.

A program's text holds its sizes, so that it cannot run for another size as it is. The module of that size is lowered
anew, into the structures that a search would try; the one with the same stages takes the program's configurations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from dsl.check.program import check
from dsl.ir import Collective, Program
from dsl.printer import to_text
from engine.strategies.planner.search.structures import Structure, skeleton

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:x\d+)*")


def carried(text: str, structures: Iterable[Structure]) -> str | None:
    """`text`'s program for the sizes of these structures; None if none of them has its stages, or the text is no
    program. Whether a configuration is legal at these sizes is not looked at: a trial checks that."""
    checked = check(text)
    if not checked.ok:
        return None
    wanted = _sizeless(checked.program)
    same = next((s for s in structures if _sizeless(s.base) == wanted), None)
    if same is None:
        return None
    stages = tuple(
        replace(new, config=old.config) if isinstance(new, Collective) and isinstance(old, Collective) else new
        for new, old in zip(same.base.stages, checked.program.stages, strict=True)
    )
    return to_text(replace(same.base, name=checked.program.name, stages=stages))


def _sizeless(program: Program) -> str:
    """A program's text without configurations and with every number of it masked: sizes, and what follows from them."""
    return _NUMBER.sub("#", skeleton(program))
