"""The evidence of a raw kernel's trial: findings and passed checks, in the form of engine.session.events.

A finding becomes a line with its code as its name; a check without findings becomes a line that names what was checked.
The verdict is the worst line (trial.worst), as for a program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.evaluate.integrity import trial
from engine.evaluate.integrity.findings import CHEAT, NOTE, UNDECIDED, WEIGHED, Finding, Report
from engine.evaluate.integrity.trial import GAMING, LIBRARY, MINOR, PASSED, UNSEEN, WRONG, check
from engine.words import count, family_name

MEMORY = {"unwritten", "out_of_bounds", "input_written", "reused_output", "late", "passthrough", "lazy"}
PROCESS = {"patched", "threads", "sandbox", "garbled", "clock"}


def of_finding(f: Finding) -> dict[str, Any]:
    """One finding as a line. A note without weight counts as passed; a note that nothing could run counts as not looked
    at."""
    if f.severity == NOTE:
        verdict = UNSEEN if f.code in {*UNDECIDED, "call_times"} else MINOR if f.code in WEIGHED else PASSED
    else:
        verdict = GAMING if f.severity == CHEAT else WRONG
    return check(f.code, verdict, f.clause, f.line)


def of_text(report: Report) -> list[dict[str, Any]]:
    """The evidence of the rules about texts."""
    lines = [of_finding(f) for f in report.findings if not f.dynamic]
    if not any(line["verdict"] in (GAMING, WRONG) for line in lines):
        kernels = f"its kernels: {', '.join(report.named[:6])}" if report.named else "it has no kernel of its own"
        lines.insert(0, check("text", PASSED, f"the rules about texts found no trick; {kernels}"))
    return lines


def of_rounds(report: Report, device: str) -> list[dict[str, Any]]:
    """The evidence of loading it and of the rounds on inputs that it could not know. `device`: cpu | cuda."""
    dynamic = [f for f in report.findings if f.dynamic]
    codes = {f.code for f in dynamic}
    lines = [*map(of_finding, dynamic)]
    if not report.rounds:
        return lines
    lines.insert(0, results(report))
    if not codes & MEMORY:
        lines.append(check("memory", PASSED, "outputs were poisoned and guarded, inputs came back unchanged"))
    if not codes & PROCESS:
        lines.append(check("process", PASSED, "it replaced no function of the harness and left nothing running"))
    if not _broken(codes) and lines[0]["verdict"] == PASSED:
        lines.append(_who_worked(report, device))
        if report.cls is not None:
            evidence = f"its error is that of {report.cls}, and it declares {report.declared}"
            lines.append(check("precision", PASSED, evidence))
    return lines


def results(report: Report) -> dict[str, Any]:
    """The line about right and wrong results, with the family of the largest error."""
    wrong = [r for r in report.rounds if not r["right"]]
    top = worst_round(report)
    at = f"relative error {top['error']:.1e} on {family_name(top['family'])} inputs"
    own = f", PyTorch's own {top['pytorch_error']:.1e}" if top.get("pytorch_error") is not None else ""
    if wrong:
        evidence = f"{len(wrong)} of {count(len(report.rounds), 'round')} are wrong"
        if top["error"] > top["allowed"][0]:  # else it is NaN, Inf or single elements, which a finding of its own says
            evidence += f"; the largest {at}, allowed {top['allowed'][0]:.1e}{own}"
        return check("results", WRONG, evidence)
    return check("results", PASSED, f"{report.scope}; the largest {at}{own}")


def worst_round(report: Report) -> dict[str, Any]:
    """The round with the largest error, among wrong ones if there are any."""
    wrong = [r for r in report.rounds if not r["right"]]
    return max(wrong or report.rounds, key=lambda r: r["error"])


def _broken(codes: Iterable[str]) -> bool:
    """Return True if the examination ended before it showed who does the work."""
    return bool({"time_limit", "memory_limit", "crashed", "raised", "process_limit", "output_limit"} & set(codes))


def _who_worked(report: Report, device: str) -> dict[str, Any]:
    ran = list(dict.fromkeys(k["name"] for k in report.kernels if k.get("where") == "device"))
    library = ", ".join(report.library[:6])
    if report.verdict == "library only":
        return check(
            "kernels",
            LIBRARY,
            f"a library did the work: {library or ', '.join(ran[:6]) or 'no native function of its own ran'}",
        )
    seen = ", ".join((ran or report.named)[:6]) or "a native function"
    where = "on the GPU, by CUPTI" if device == "cuda" else "on the CPU"
    verdict = MINOR if report.verdict == "minor" and "library_calls" in report.codes else PASSED
    return check(
        "kernels", verdict, f"{seen} ran {where}" + ("; a library did part of the work" if verdict == MINOR else "")
    )


def of_timing(timed: Any) -> list[dict[str, Any]]:
    """The evidence of the timed calls (engine.evaluate.integrity.measuring.Timed)."""
    lines = [*map(of_finding, timed.findings)]
    codes = {f.code for f in timed.findings}
    streams = len({k["stream"] for k in timed.kernels})
    claim = f"; its process claims {timed.busy_ms:.4g} ms on {count(streams, 'stream')}" if timed.kernels else ""
    if not codes & {"clock", "too_fast"}:
        evidence = f"{timed.ms:.4g} ms by a clock outside of its process, over {count(timed.calls, 'call')} a batch"
        lines.append(check("clocks", PASSED, evidence + claim))
    if not codes & {"wrong_result", "nan", "replayed", "constant", "unwritten", "late", "skipped", "passthrough"}:
        evidence = f"each call on inputs of its own; of the results, chosen after the calls, {timed.looked_at} were"
        lines.append(check("timed results", PASSED, f"{evidence} compared with the module's, and right"))
    return [*lines, *trial.steadiness(timed.device)]


def verdict(evidence: Iterable[dict[str, Any]]) -> str:
    """clean | minor | library only | gaming | unverified: `unverified` if its results were not checked, or prove
    nothing."""
    evidence = list(evidence)
    worst, names = trial.worst(evidence), {line["name"] for line in evidence}
    if worst == GAMING or ("results" in names and "inconclusive" not in names):
        return worst
    return "unverified"
