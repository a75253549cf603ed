"""The suite: its modules, and the programs that compute them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dsl.check.program import check
from dsl.ir import Program
from engine.strategies.planner.lowering.program_graph import class_of

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "engine/problems"
PROGRAMS = ROOT / "dsl/examples/suite59"
BESIDE = {"outside": "(outside)", "heldout": "(held out)"}  # separate sets: the mark in a problem's first line
_ID = re.compile(r"\(suite59 (L[12]/\d+)\)")
_MODULE = re.compile(r"# module: (\w+)\s")


class BadProgram(ValueError):
    """A program of the suite fails `check`; the message is its diagnostics."""


@dataclass(frozen=True)
class Case:
    """One program and the module that it must equal."""

    pid: str  # L1/55
    module: str  # conv2d_wide: a file of engine/problems
    name: str  # conv2d_wide_f16: a file of dsl/examples/suite59
    text: str

    @property
    def module_path(self) -> Path:
        return PROBLEMS / f"{self.module}.py"

    def program(self) -> Program:
        """Raises BadProgram."""
        checked = check(self.text)
        if checked.program is None:
            raise BadProgram("\n".join(d.render(self.text) for d in checked.diagnostics))
        return checked.program


def order(pid: str) -> tuple[int, int]:
    level, number = pid[1:].split("/")
    return int(level), int(number)


def module_ids() -> dict[str, str]:
    """{module: suite id} of every problem that names one."""
    ids = {}
    for path in PROBLEMS.glob("*.py"):
        if mark := _ID.search(path.read_text(encoding="utf-8").partition("\n")[0]):
            ids[path.stem] = mark[1]
    return ids


def module_set(name: str, only: tuple[str, ...] = ()) -> dict[str, str]:
    """{module: id} of a set of problems, `suite59` or one of BESIDE, or those whose id or name is in `only`.

    Raises ValueError for a name that is not in the set.
    """
    ids = module_ids() if name == "suite59" else beside(name)
    if unknown := [n for n in only if n not in ids and n not in ids.values()]:
        first, *_ = ids
        raise ValueError(
            f"the set {name} has no {', '.join(unknown)}; write ids or names of its problems, such as {ids[first]} or "
            f"{first} (the files in engine/problems have their id in the first line)"
        )
    chosen = {m: pid for m, pid in ids.items() if not only or {m, pid}.intersection(only)}
    return dict(sorted(chosen.items(), key=lambda item: (order(item[1]) if "/" in item[1] else (0, 0), item[0])))


def beside(name: str) -> dict[str, str]:
    """{module: name} of a set of problems outside the suite, by the mark in their first line."""
    paths, mark = sorted(PROBLEMS.glob("*.py")), BESIDE[name]
    return {p.stem: name for p in paths if mark in p.read_text(encoding="utf-8").partition("\n")[0]}


def set_of(ids: Iterable[str]) -> str:
    """The set of the ids in a bench's rows."""
    distinct = set(ids)
    return distinct.pop() if len(distinct) == 1 and distinct <= BESIDE.keys() else "suite59"


def cases(only: tuple[str, ...] = ()) -> list[Case]:
    """Every program in the order of the suite, or those whose id, module or own name is in `only`.

    Raises ValueError for a program without its module, and for a name that is not in the suite.
    """
    ids, programs = module_ids(), []
    for path in sorted(PROGRAMS.glob("*.ucutlass")):
        text = path.read_text(encoding="utf-8")
        mark = _MODULE.match(text)
        if mark is None or mark[1] not in ids:
            raise ValueError(f"{path.name} does not begin with `# module: NAME` of a problem of the suite")
        programs.append(Case(ids[mark[1]], mark[1], path.stem, text))
    programs.sort(key=lambda c: (order(c.pid), c.name))
    known = {n for c in programs for n in (c.pid, c.module, c.name)}
    if unknown := [n for n in only if n not in known]:
        raise ValueError(f"the suite has no {', '.join(unknown)}")
    return [c for c in programs if not only or {c.pid, c.module, c.name}.intersection(only)]


def precision(program: Program) -> str:
    """The class whose tolerance applies to the program."""
    return class_of(program)
