"""The outcome of a session: the best trial of each class, and its end in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from engine.session import events
from engine.session.fold import slower
from engine.session.journal import Journal
from engine.session.spec import CLASSES
from engine.strategies.state import State
from engine.words import baseline_name, count

REASON = 200  # characters of a trial's own words in the end of a session


def best(journal: Journal) -> dict[str, events.TrialJudged]:
    """class -> its fastest trial. Several concurrent trials may each be marked best, because each is compared with the
    best at its proposal."""
    fastest: dict[str, events.TrialJudged] = {}
    for e in journal.of(events.TrialJudged):
        if e.best and (e.cls not in fastest or e.ms < fastest[e.cls].ms):
            fastest[e.cls] = e
    return fastest


def summary(why: str, journal: Journal, classes: Sequence[str], state: State) -> str:
    """Why the search ended, the coverage of the module, and the best of each class, or that PyTorch stays."""
    why = why if why.endswith((".", "!", "?", "…")) or not why else f"{why}."  # a mistake of a program has no full stop
    by_class = best(journal)
    slower = [t.number for cls in classes if cls not in by_class and (t := state.best(cls))]
    nothing = not journal.of(events.TrialProposed)
    if not by_class and not slower and not nothing:
        return f"{why} {_no_time(journal)}"
    remarks = [n for n in journal.of(events.Noted) if not n.program and not n.baseline]  # about the search alone
    notes = [*remarks, *(e for e in journal.of(events.Covered) if e.regions)]
    words = [why, *(f"{note.text.rstrip('.')}." for note in notes)]
    words += [_pytorch_alone(journal, classes)] * nothing
    words += [_pytorch_stays(number, journal) for number in slower]
    if by_class:
        each = (
            f"{cls}: {e.ms:.3g} ms {e.kind}, {e.speedup:.2f}x {baseline_name(e.baseline)}"
            for cls, e in by_class.items()
        )
        words.append(f"Best in {', '.join(each)}.")
        words += [sentence for e in by_class.values() if (sentence := _compiled_is_faster(e, journal))]
    return " ".join(words)


def _no_time(journal: Journal) -> str:
    """The sentence for a session none of whose trials has a time that counts. A kernel may be right without one."""
    untimed = journal.of(events.TrialUntimed)
    right = sum(e.verdict in ("clean", "minor") for e in untimed)
    unknown = sum(e.verdict == "unverified" for e in untimed)
    parts = [f"{count(right, 'kernel')} gave a correct result"] * bool(right)
    parts += [f"{count(unknown, 'kernel')} could not be verified here"] * bool(unknown)
    if parts:
        return f"No trial has a time: {', and '.join(parts)}."
    return " ".join(filter(None, ["No trial gave a correct result.", _failures(journal)]))


def _failures(journal: Journal) -> str:
    """How many trials failed at each step, and the words of the first one."""
    failed = journal.of(events.TrialFailed)
    if not failed:
        return ""
    steps = Counter(e.step for e in failed)
    each = ", ".join(f"{many} at {step}" for step, many in steps.most_common())
    reason = " ".join(failed[0].reason.split())[:REASON].rstrip(".")
    return f"Failed trials: {each}; the first one, trial {failed[0].trial}: {reason}."


def _pytorch_alone(journal: Journal, classes: Sequence[str]) -> str:
    """The sentence for a session without a trial."""
    times = {e.cls: e for e in reversed(journal.of(events.Baseline)) if e.cls in classes}
    each = ", ".join(
        f"{baseline_name(e.name)} takes {e.time.ms:.3g} ms {e.time.kind}"
        for e in sorted(times.values(), key=lambda e: classes.index(e.cls))
    )
    return f"PyTorch stays: {each}." if each else "PyTorch stays."


def _pytorch_stays(number: int, journal: Journal) -> str:
    """The sentence for a class whose fastest program is trial `number`."""
    fastest, measured = journal.past(events.TrialJudged, number), journal.past(events.TrialMeasured, number)
    both = (
        f"No program was faster than PyTorch in {fastest.cls}; PyTorch stays: {baseline_name(fastest.baseline)} takes "
        f"{measured.baseline_ms:.3g} ms, the fastest program (trial {number}) {fastest.ms:.3g} ms, both {fastest.kind}."
    )
    return " ".join(filter(None, [both, _why_slower(fastest, measured, journal)]))


def _why_slower(fastest: events.TrialJudged, measured: events.TrialMeasured, journal: Journal) -> str:
    """The sentence on what the figures say of a program that is slower than PyTorch; "" where they say nothing."""
    proposed = journal.past(events.TrialProposed, fastest.trial)
    checked, reported = journal.past(events.TrialChecked, fastest.trial), journal.past(events.Reported)
    report = json.loads(journal.blob(reported.report)) if reported is not None and reported.report else None
    whole = (measured.part or {}).get("region") is None  # a region's stages are not the module
    stages = [s for s in checked.stages if s.get("ms")] if checked is not None and whole else []
    return slower.of(fastest.cls, fastest.trial, fastest, proposed.roof or fastest.cls, stages, report).sentence()


def _compiled_is_faster(ours: events.TrialJudged, journal: Journal) -> str:
    """The sentence for a class whose best program is slower than torch.compile in that class or a finer one, where it
    was timed; else "". Ratios to the same baseline decide, else times of the same kind."""
    compiled = [b for b in journal.of(events.Baseline) if b.name.startswith("compile") and b.time.kind == ours.kind]
    allowed = [b for b in compiled if b.cls in CLASSES and CLASSES.index(b.cls) <= CLASSES.index(ours.cls)]
    fastest = min(allowed, key=lambda b: b.time.ms, default=None)
    if fastest is None:
        return ""
    ratio = fastest.ratio if fastest.beside == ours.baseline else None
    if not (fastest.time.ms < ours.ms if ratio is None else ratio * ours.speedup < 1.0):
        return ""
    # Both figures: times of different runs may disagree with the ratios, above all at a few microseconds.
    over = f", {1 / ratio:.2f}x {baseline_name(ours.baseline)}" if ratio else ""
    return f"{baseline_name(fastest.name)} is faster in {ours.cls}: {fastest.time.ms:.3g} ms {ours.kind}{over}."


def stopped(journal: Journal) -> tuple[str, str]:
    """(code, reason) of a session that was told to stop: by its owner, because no candidate came, or because it was
    started for its report alone."""
    stops = [e for e in journal.of(events.Controlled) if e.action == "stop"]
    why = stops[-1].data if stops else {}
    if why.get("reported"):
        return "reported", "Started for its report alone. It tries no candidates."
    minutes = why.get("idle_minutes")
    if minutes is None:
        return "stopped", "Stopped by the owner."
    return "idle", f"No candidate came for {count(minutes, 'minute')}."


def with_untried(reason: str, untried: int) -> str:
    """The reason of an end, with the number of the owner's candidates that were not tried."""
    if not untried:
        return reason
    were = "was" if untried == 1 else "were"
    return f"{reason.rstrip('.')}. {count(untried, 'candidate')} of the owner {were} not tried."
