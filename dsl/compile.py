"""A program to source code, by every back end that can express it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from dsl import guard
from dsl.ir import Collective, Program
from dsl.lower import Refusal, Source
from dsl.printer import digest, to_text
from dsl.resolve import resolve

BACKENDS = ("cute", "cpp")


@dataclass(frozen=True)
class Compiled:
    """`text` is the resolved program's canonical text, whose lines the sources' line maps number; `digest` its hash.

    Each back end is in `sources` or, with its reason, in `refused`.
    """

    program: Program
    resolved: Program
    text: str
    digest: str
    sources: dict[str, Source]
    refused: dict[str, Refusal]


def compile(program: Program, sm_count: int = 132) -> Compiled:
    """Generate code for a checked program; `sm_count` is the device's, for what is left to `auto`."""
    resolved = resolve(program, sm_count)
    sources: dict[str, Source] = {}
    refused: dict[str, Refusal] = {}
    writers = guard.writers(program) if program.guard else ()
    forced = {s.config.backend for s in resolved.stages if isinstance(s, Collective)} - {None}
    for name in BACKENDS:
        if forced - {name}:
            other = next(iter(forced - {name}))
            refused[name] = Refusal("E212", f"the program asks for backend {other}", "leave the backend clause out")
            continue
        if writers and name not in writers:
            what = f"this guard is written by the {writers[0]} back end alone"
            refused[name] = Refusal(f"{name}-guard", what, "leave guard out")
            continue
        try:
            # Imported here: a back end's templates are of no use to whoever only checks programs.
            sources[name] = import_module(f"dsl.lower.{name}").lower(resolved)
        except Refusal as refusal:
            refused[name] = refusal
    return Compiled(program, resolved, to_text(resolved), digest(resolved), sources, refused)
