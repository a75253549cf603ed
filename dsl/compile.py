"""Compile a program to source code with every back end that can express it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

from dsl import guard
from dsl.ir import Collective, Program
from dsl.lower import Refusal, Source
from dsl.printer import digest, to_text
from dsl.resolve import resolve
from dsl.rules import legal


@dataclass(frozen=True)
class Compiled:
    """The result of `compile`.

    `text` is the canonical text of the resolved program; the line maps of the sources refer to its lines. `digest` is
    its hash. Each back end is either in `sources` or, with the reason, in `refused`.
    """

    program: Program
    resolved: Program
    text: str
    digest: str
    sources: dict[str, Source]
    refused: dict[str, Refusal]


def compile(program: Program, sm_count: int = 132, *, first: bool = False) -> Compiled:
    """Generate code for a checked program. The clauses left to `auto` are chosen for a device of `sm_count` SMs.

    `first`: stop at the first back end (in the order of dsl.rules.legal.best_first) that takes the program.
    """
    resolved = resolve(program, sm_count)
    text = to_text(resolved)
    sources: dict[str, Source] = {}
    refused: dict[str, Refusal] = {}
    writers = guard.writers(program) if program.guard else ()
    forced = {s.config.backend for s in resolved.stages if isinstance(s, Collective)} - {None}
    for name in legal.best_first(program):
        if first and sources:
            break
        if forced - {name}:
            other = next(iter(forced - {name}))
            refused[name] = Refusal("E212", f"the program asks for backend {other}", "leave the backend clause out")
            continue
        if writers and name not in writers:
            message = f"only the {writers[0]} back end writes this guard"
            refused[name] = Refusal(f"{name}-guard", message, "leave guard out")
            continue
        try:
            sources[name] = _lowered(name, text, resolved)
        except Refusal as refusal:
            refused[name] = refusal
    return Compiled(program, resolved, text, digest(resolved), sources, refused)


@lru_cache(maxsize=64)  # a session generates a program for its structure, again for its trial, and where it goes on
def _lowered(backend: str, text: str, resolved: Program) -> Source:
    """`text`: as printed; equal programs may differ in it, by 1 and 1.0 or by the sign of a zero. Raises Refusal."""
    # Imported here because a caller that only checks programs needs no back end.
    return import_module(f"dsl.lower.{backend}").lower(resolved)
