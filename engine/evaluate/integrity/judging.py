"""Turn the judge's measurements of one result into findings in words. Plain Python, in the engine's own process."""

from __future__ import annotations

import math
from typing import Any

from engine.evaluate.correctness.inputs import GUARD_FAMILIES
from engine.evaluate.correctness.tolerance import Comparison, PyTorchError, verdict
from engine.evaluate.integrity.findings import Finding, Report
from engine.words import family_name

ROUNDING, BETTER = 1e-7, 0.25  # of f32; share of a trivial answer's error below which a result is better than it
NEAR_ONE = 2.0**-22  # absolute error of f32 sums near one, as in 1 + x for a small x
SKIPPED = 1e-3  # relative error of a result in which one row of a million is missing; a lesser one skips nothing
CANCELS = 2.0  # error on `powers` above what lost terms leave (1): larger operands were added, and did not cancel
NEAR = 3.0  # an error within this factor of a coarser class's own error is attributed to that class


def explain(
    cls: str, a: dict, family: str, pytorch: PyTorchError | None, facts: dict, *, loose: bool = False
) -> list[Finding]:
    """Findings about one result `a` (judge_main.Judge.compare); [] if it is right. `facts`: what its process reported
    about it."""
    findings: list[Finding] = []

    def add(code: str, evidence: str) -> None:
        findings.append(Finding(code, evidence, dynamic=True))

    c = Comparison(a["error"], a["max_error"], a["unexpected"], a["elements"])
    wrong = verdict(cls, c, pytorch)
    on = f"on {family} inputs"
    if a["unwritten"]:
        add("unwritten", f"{a['unwritten']:,} of {c.elements:,} elements still hold the poison, {on}")
    if a.get("late"):
        add("late", f"{a['late']:,} of {c.elements:,} elements changed within 30 ms, {on}")
    if a["unequal"] and not loose and not a.get("late"):
        add("unsteady", f"the second time {on}")
    if wrong is None:
        return findings
    if a["input"]:
        add("passthrough", f"the result is {a['input']}, bit for bit, {on}")
    elif facts.get("aliases_input"):
        add("passthrough", f"the result lies in the memory of {str(facts['aliases_input'])[:60]}")
    elif a["same_as"]:
        same, others = len(a["same_as"]), a["others"]
        if same == others and others > 1:
            add("constant", f"the same bits as in all {others} other calls, on other inputs; error {c.error:.2g}")
        else:
            earlier = family_name(str(a["same_as"][0]).split(":")[0])
            add("replayed", f"the bits of an earlier result, on {earlier} inputs of another seed, {on}")
    if a["unexpected"] and not a["unwritten"]:
        add("range_lost" if family in ("large", "tiny") else "nan", f"{wrong}, {on}")
    elif family in GUARD_FAMILIES:
        near_one = family == "minute" and a["error"] * a.get("rms", 1.0) <= NEAR_ONE
        add("near_zero" if near_one else "wrong_result", f"{on}, {wrong}")
    elif family != "terms" and _some_are_right(a):
        b = a["blocks"]
        where = f"{b['span'][0]} to {b['span'][1]} of {b['size']} along axis {b['axis']}"
        add("skipped", f"right elsewhere, wrong at {where}, {on}; {wrong}")
    if not findings or {f.code for f in findings} <= {"unsteady", "late"}:
        add("wrong_result", f"{on}, {wrong}")
    return findings


def _some_are_right(a: dict) -> bool:
    """Return True if a quarter of the result is right and the rest so wrong that it may have been left out."""
    blocks = a.get("blocks")
    far = a["error"] > SKIPPED or bool(a["unexpected"])
    return far and isinstance(blocks, dict) and blocks["right"] * 4 >= blocks["of"]


def adds_operands(a: dict, family: str) -> bool:
    """Return True if a wrong result of `powers` is one of a product that adds its operands before it multiplies them,
    as Strassen's and Winograd's do: far off, and finite. A type with less range loses terms, or gives Inf."""
    return family == "powers" and not a["unexpected"] and a["error"] > CANCELS


def precision_of(cls: str, error: float, errors: dict[str, float]) -> list[Finding]:
    """`precision_lowered` if the error is that of a coarser class than `cls`; `errors`: PyTorch's errors by class."""
    for other, own in errors.items():
        if other != cls and own > 3 * errors.get(cls, 0.0) and own / NEAR <= error <= own * NEAR:
            evidence = f"error {error:.2g} is what {other} makes ({own:.2g}); {cls} makes {errors.get(cls, 0.0):.2g}"
            return [Finding("precision_lowered", evidence, dynamic=True)]
    return []


def explain_operands(cls: str, a: dict, family: str) -> str:
    """What a wrong result of `powers` or `terms` shows about the operands of a product, in words."""
    if family == "powers":
        what = "right where the factors of each term are near one, and wrong where they are powers of two apart"
        amount = f"{a['unexpected']:,} elements are NaN or Inf" if a["unexpected"] else f"error {a['error']:.2g}"
        return f"{what}: {amount}"
    bits = max(1, round(-math.log2(min(max(a["error"], 2.0**-30), 1.0))))
    own = {"f32": 24, "tf32": 11}.get(cls, 0)
    about = f"about {bits} bits" if bits < own else "fewer bits"
    where = "where a sum has one term, or terms that cancel"
    return f"error {a['error']:.2g} {where}: its operands or sums have {about}, and those of {cls} have {own}"


def number(value: Any) -> float:
    """A number from a candidate's process, or 0."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else 0.0


def text(value: Any) -> list[str]:
    """A list of short texts from a candidate's process."""
    return ["".join(c for c in str(v) if c.isprintable())[:200] for v in value[:20]] if isinstance(value, list) else []


def like_trivial(a: dict, pytorch: PyTorchError | None) -> tuple[set[str], set[str]]:
    """(the trivial answers that would pass where `a` is, and that it may be; those of them that it is no better than).
    A kernel that computes is much nearer to the module than they are, unless that is lost in rounding."""
    names, no_better = set(), set()
    rounding = 4 * max(pytorch.error if pytorch else 0.0, ROUNDING)
    for name, error in a["trivial"].items():
        if error <= rounding:
            names.add(name)
        elif a["error"] > BETTER * error:
            names.add(name)
            no_better.add(name)
    return names, no_better


def note_facts(report: Report, facts: dict) -> None:
    """Add the facts from the candidate's process that count against the candidate."""
    for name in text(facts.get("patched"))[:8]:
        report.add(Finding("patched", name, dynamic=True))
    for message in text(facts.get("blocked"))[:4]:
        report.add(Finding("sandbox", message, dynamic=True))
    for what in ("threads", "children"):
        n = facts.get(what)
        if isinstance(n, int) and n > 0:
            kind = "threads of its own" if what == "threads" else "processes that it started"
            report.add(Finding("threads", f"{n} {kind} live on after the call", dynamic=True))
