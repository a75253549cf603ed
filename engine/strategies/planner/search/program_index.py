"""Map a program's text to its part of the work, structure and region, and its parameters to graph tensors.

Proposals come back as text, because a log holds only text, and the owner's programs were never proposals. A program is
identified by its name and by its parameter and result types, whatever their names. Its structure is the text without
the configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from dsl.check.program import check
from dsl.ir import Collective, Config, Program
from dsl.resolve import resolve
from engine import signatures
from engine.devices import Binding, TrialError
from engine.strategies.planner.search.structures import Structure, skeleton


class Indexed(Protocol):
    """A part of the work in one class (engine.strategies.problem.Part), or a line of search on one."""

    cls: str
    bindings: tuple[tuple[Binding, ...], tuple[Binding, ...]]

    @property
    def structures(self) -> Sequence[Structure]: ...

    @property
    def number(self) -> int: ...

    @property
    def base(self) -> Program: ...


L = TypeVar("L", bound=Indexed)


class ProgramIndex(Generic[L]):
    """`lines`: the parts that the texts may belong to; lines can be added."""

    def __init__(self, lines: Sequence[L], sms: int):
        self.lines, self.sms = lines, sms
        self._read: dict[tuple[str, str], tuple[L | None, Structure | None, Config | None]] = {}  # texts taken apart

    def lookup(self, cls: str, text: str) -> tuple[L | None, Structure | None, Config | None]:
        """The line and the structure of a trial's program, and the configuration of the varied stage."""
        entry = self._read.get((cls, text))
        if entry is None:
            entry = self._read[cls, text] = self._parsed(cls, text)
        return entry

    def _parsed(self, cls: str, text: str) -> tuple[L | None, Structure | None, Config | None]:
        checked = check(text)
        if not checked.ok:
            return None, None, None
        key, number = skeleton(checked.program), self.number(checked.program)
        for line in self.lines:
            if line.cls != cls or line.number != number:
                continue
            structure = next((s for s in line.structures if s.key == key), None)
            if structure is not None:
                resolved = resolve(checked.program, self.sms)
                configs = (s.config for s in resolved.stages if isinstance(s, Collective) and s.name == structure.main)
                return line, structure, next(configs, None)
        return None, None, None

    def region(self, text: str) -> int:
        """The number of a program's region; 0 for the whole module."""
        program = check(text).program
        return self.number(program) if program is not None else 0

    def number(self, program: Program) -> int:
        """The region's number by the program's name or, if a person renamed it, by its parameters and results."""
        lines = {line.number: line for line in reversed(self.lines)}
        if set(lines) == {0}:
            return 0
        named = [n for n, line in lines.items() if line.base.name == program.name]
        fitting = [n for n in (*named, *sorted(lines)) if _fits(program, lines[n].base)]
        return fitting[0] if fitting else (named or sorted(lines))[0]

    def bind(self, text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Parameters and results of `text` as graph tensors: by name if all names fit, else in order by type."""
        program = check(text).program
        if program is None:
            raise TrialError("check", "bad_program", "the program does not pass its checks")
        number = self.number(program)
        lines = [x for x in self.lines if x.number == number]
        line = next((x for x in lines if _fits(program, x.base)), lines[0])
        signature, (tensors, outputs) = line.base, line.bindings
        want = {b.name: b for b in tensors}
        what = f"region {number}" if number else "the module"
        if not signatures.takes(program, signature):
            reason = f"the program must take what {what} takes: ({signatures.parameters(signature)})"
            raise TrialError("check", "signature", reason)
        if not signatures.returns(program, signature):
            reason = f"the program must return {signatures.results(signature)}, as {what} does"
            raise TrialError("check", "signature", reason)
        if signatures.by_name(program, signature):
            inputs = tuple(want[p.name] for p in program.params)
        else:
            inputs = tuple(replace(b, name=p.name) for b, p in zip(tensors, program.params, strict=True))
        names = zip(outputs, program.results, program.result_types, strict=True)
        return inputs, tuple(replace(b, name=n, shape=t.shape) for b, n, t in names)


def _fits(program: Program, signature: Program) -> bool:
    """Return True if a program takes and returns what a region does, whatever the names."""
    same = list(map(str, program.result_types)) == list(map(str, signature.result_types))
    return same and signatures.takes(program, signature)
