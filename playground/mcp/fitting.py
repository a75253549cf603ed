"""Whether a program can be a trial of a session: by its precision class, its parameters and its results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import dsl.check
from dsl.ir import Program
from engine import signatures
from engine.classes import class_among
from playground.access.answers import Refused
from playground.mcp.following import Following
from playground.models import Session

NO_TRIAL = "It became no trial and cost nothing."


@dataclass(frozen=True)
class Fit:
    """`part`: the part of the session's module that a program replaces, "" if it fits none or that is not known yet;
    `error`, `fix`: why it can be no trial, "" if it can; `cls`: the class in which it counts; `more`: facts for a
    program."""

    part: str = ""
    error: str = ""
    fix: str = ""
    cls: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For check_program."""
        if self.error:
            return {"can_be_tried": False, "why_not": self.error, "way_out": self.fix, **self.more}
        later = "not known until the module is traced: call report(session), then check again"
        return {"can_be_tried": True if self.part else later, "replaces": self.part, "counts_in_class": self.cls}


def fit_of(following: Following, session: Session, text: str) -> Fit:
    """How a valid program fits a session. `following`: read just now."""
    program = dsl.check.check(text).program
    allowed = classes(following, session)
    cls = class_among(program, session.spec.get("classes", []))
    if cls not in allowed:
        listed = ", ".join(allowed)
        error = f"The program is of class {cls}. Classes of this session: {listed}."
        fix = f"Compute its products in a type of {listed}, or start a session whose classes include {cls}."
        return Fit("", error, fix)
    remark = next((n.text for n in following.view.notes if n.code == "no_program"), "")
    if remark:
        return Fit("", remark, "Propose a raw kernel: reference(section='kernels').")
    return replace(_by_signature(following, program), cls=cls)


def must_fit(following: Following, session: Session, text: str) -> None:
    """Raise Refused(422) for a valid program that the session's module has no place for."""
    fit = fit_of(following, session, text)
    if fit.error:
        raise Refused(422, f"{fit.error} {NO_TRIAL}", fit.fix, field="candidate", **fit.more)


def classes(following: Following, session: Session) -> list[str]:
    """The precision classes in which a program of this session is compared with PyTorch."""
    return list(dict.fromkeys([*session.spec.get("classes", []), *(b.cls for b in following.view.baselines)]))


def _by_signature(following: Following, program: Program) -> Fit:
    """The part of the module with the program's parameters and results."""
    parts: dict[str, Program] = {}
    for start in following.starts:
        signature = dsl.check.check(following.blob(start.program)).program
        if signature is None:
            continue
        parts.setdefault(start.part, signature)
        if signatures.takes(program, signature) and signatures.returns(program, signature):
            return Fit(start.part)
    if not parts:
        return Fit()
    rows = [
        {"part": part, "takes": signatures.parameters(p), "returns": signatures.results(p)} for part, p in parts.items()
    ]
    takes = next((part for part, p in parts.items() if signatures.takes(program, p)), "")
    if takes:
        error = f"The program must return {signatures.results(parts[takes])}, as {takes} does."
    else:
        part, signature = next(iter(parts.items()))
        error = f"The program must take what {part} takes: ({signatures.parameters(signature)})"
        error += "." if len(parts) == 1 else f", or what another region takes ({len(parts)} in all)."
    fix = "Give it the parameters and results of one of `parts`."
    coverage = following.view.coverage
    left = [f"`{u.op}`" + (f" (line {u.line})" if u.line else "") for u in (coverage.uncovered if coverage else ())]
    if len(parts) > 1 and left:
        fix += f" One program cannot span regions, because PyTorch does what lies between: {', '.join(left[:4])}."
    return Fit("", error, fix, more={"parts": rows[:8]})
