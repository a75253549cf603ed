"""Random logs of sessions for hypothesis: well-formed ones, and odd ones as a crash or another version leaves them.

`logs()` draws a list of rows {seq, kind, t, data}: trials in regions, screened, by the owner between, on several lanes
at once, failed at each step; cut at any event; with repeated events, unknown kinds and fields, fields of another type
or missing, data that is no object, events after the end.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

CLASSES = ("tf32", "f16", "bf16", "f32", "fp8")
CODES = (
    "wrong_result", "timeout", "stopped", "cancelled", "oracle_died", "reference_crashed", "worker_lost", "E204", "",
    "engine_error", "garbled_reply", "oracle", "kernel_of_next_year",
)  # fmt: skip
VERDICTS = ("clean", "clean", "clean", "minor", "gaming", "library only", "of another version")
STATES = ("done", "stopped", "refused", "failed", "", "exploded")

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
ms = st.floats(0.001, 100, allow_subnormal=False)
ratio = st.one_of(st.floats(0.25, 4), st.sampled_from([0.0, 1.0, 2.0]))
fraction = st.floats(0, 1)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e6, 1e6) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
cls = st.sampled_from(CLASSES)
kind = st.sampled_from(["measured", "predicted"])
blob = st.sampled_from(["a" * 64, "b" * 64, "c" * 64])


def some(**fields: st.SearchStrategy) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


time = some(ms=ms, kind=kind, low=ms, high=ms, method=words)
share = some(flops=fraction, bytes=fraction, time=fraction)
limits = st.dictionaries(cls, ms, max_size=2)
region = some(
    number=st.integers(1, 3), words=words, ops=st.lists(words, max_size=2), inputs=st.lists(words, max_size=1),
    limits=limits, share=share, lines=st.lists(st.integers(1, 90), max_size=2),
)  # fmt: skip
uncovered = some(name=words, op=words, line=st.none() | st.integers(1, 90), reason=words, why=words)
part = st.just({}) | some(region=st.integers(1, 3), region_ms=ms, programs=st.integers(1, 3), covered_ms=ms)
closed = some(cls=cls, code=st.sampled_from(["near_limit", "stalled"]), best_ms=ms, limit_ms=ms,
              eps=fraction, trials=st.integers(0, 9))  # fmt: skip

HEAD = {
    "session.started": some(
        title=words, source=blob, source_kind=st.sampled_from(["module", "program"]), strategy=words,
        device=some(name=words, kind=kind, hardware=st.just("h200")), classes=st.lists(cls, max_size=3, unique=True),
        budget=some(trials=st.integers(1, 20), eps=fraction, window=st.integers(1, 9)), seed=st.integers(0, 2**63 - 1),
        algebraic=st.booleans(),
    ),
    "traced": some(graph=blob, ops=st.integers(0, 99), seconds=ms, title=words, note=words),
    "reported": some(report=blob, bounds=limits, summary=words),
    "covered": some(regions=st.lists(region, max_size=3), uncovered=st.lists(uncovered, max_size=2), share=share,
                    text=words),
    "noted": some(code=words, text=words, cls=cls),
    "baseline": some(name=st.sampled_from(["eager", "eager_tf32", "compile_f16"]), cls=cls, time=time, note=words),
}  # fmt: skip
BETWEEN = {
    "progress": some(text=words, step=words, trial=st.none() | st.integers(1, 9)),
    "controlled": some(action=st.sampled_from(["pause", "resume", "stop", "budget", "try", "dance"]),
                       data=st.dictionaries(st.sampled_from(["trials", "eps", "window", "program"]), anything))
    | some(action=st.just("profile"), data=some(trial=st.integers(1, 5)) | anything),
    "trial.profiled": some(trial=st.integers(1, 5), request=st.integers(1, 3), text=st.just("") | blob,
                           source=st.sampled_from(["", "model", "profiler"]), refusal=words, reason=words, seconds=ms),
    "resumed": some(text=words),
    "key.wanted": some(public_key=blob, claim=st.integers(1, 3), endpoint=words, model=words, until=ms,
                       again=st.booleans(), text=words),
    "key.received": some(claim=st.integers(1, 3)),
    "baseline": HEAD["baseline"],
    "screened": some(trial=st.integers(1, 9), quick=st.dictionaries(words, st.none() | ms, max_size=3), seconds=ms),
    "turn.asked": some(path=words, digest=words, verb=words, role=words, prompt=blob, attempt=st.integers(1, 2)),
    "turn.said": some(path=words, number=st.integers(1, 9), text=words, attempt=st.integers(1, 2)),
    "turn.answered": some(path=words, digest=words, verb=words, text=blob, refusal=words, seconds=ms),
    "of.another.version": st.dictionaries(words, anything, max_size=3),
}  # fmt: skip
STEPS = {
    "trial.proposed": some(cls=cls, program=blob, backend=st.sampled_from(["cute", "cpp"]), change=words, why=words,
                           parent=st.none() | st.integers(1, 9), predicted_ms=st.none() | ms,
                           by=st.sampled_from(["strategy", "strategy", "owner"]), roof=st.just("") | cls,
                           structure=words, settings=words, form=st.sampled_from(["program", "program", "kernel"]),
                           language=st.sampled_from(["", "cuda", "python"]), entry=words),
    "trial.checked": some(resolved=blob, seconds=ms, stages=st.lists(some(name=words, ms=ms), max_size=2),
                          tried=st.lists(words, max_size=2)),
    "trial.generated": some(sources=st.dictionaries(words, some(text=blob), max_size=2), seconds=ms,
                            refused=st.dictionaries(words, some(code=words, message=words), max_size=1),
                            inputs=st.lists(some(name=words, tensor=words), max_size=1), region=st.integers(0, 3)),
    "trial.compiled": some(backend=words, how=words, seconds=ms, cached=st.booleans(), resources=st.none()),
    "trial.validated": some(error=ms, max_error=ms, tolerance=ms, checks=st.lists(some(family=words), max_size=1)),
    "trial.measured": some(time=time, baseline=words, baseline_ms=ms, ratio=ratio, ratio_low=st.none() | ratio,
                           checks=st.just([]), part=part),
    "trial.judged": some(verdict=st.sampled_from(VERDICTS), cls=cls, kind=kind, ms=ms, speedup=ratio, gap=ratio,
                         baseline=words, sol_score=fraction, best=st.sampled_from([True, True, False]), text=words,
                         evidence=st.lists(some(name=words, verdict=words, said=words), max_size=1),
                         algebraic=st.sampled_from(["", "", "leaves out a sum"]), standing=words),
}  # fmt: skip
UNTIMED = some(verdict=st.sampled_from([*VERDICTS, "unverified"]), cls=cls, code=words, text=words,
               step=st.sampled_from(["compile", "validate", "measure"]),
               evidence=st.lists(some(name=words, verdict=words, said=words), max_size=1))  # fmt: skip
FAILED = some(step=st.sampled_from(["check", "generate", "compile", "validate", "measure"]), reason=words,
              code=st.sampled_from(CODES), detail=st.none() | blob,
              diagnostics=st.lists(some(line=st.integers(1, 90), message=words), max_size=1),
              evidence=st.lists(some(name=words, verdict=words, said=words), max_size=1))  # fmt: skip
ENDED = some(state=st.sampled_from(STATES), reason=words, best=st.dictionaries(cls, st.integers(1, 9), max_size=1),
             trials=st.integers(0, 9), seconds=ms, code=words, line=st.none() | st.integers(1, 90),
             closed=st.lists(closed, max_size=2), covered=st.lists(some(kind=words, names=words), max_size=1),
             )  # fmt: skip
Row = tuple[str, Any]


@st.composite
def trial(draw: st.DrawFn, number: int) -> list[Row]:
    """The events of one trial: to its verdict, to a failure or a verdict without a time at any step, or to where its
    log was cut."""
    reached = draw(st.integers(1, len(STEPS)))
    end = draw(st.sampled_from(["", "failed", "untimed"])) if reached < len(STEPS) else ""
    rows = [(name, draw(STEPS[name]) | {"trial": number}) for name in list(STEPS)[:reached]]
    ends = {"failed": FAILED, "untimed": UNTIMED}
    return rows + ([(f"trial.{end}", draw(ends[end]) | {"trial": number})] if end else [])


def lanes(draw: st.DrawFn, runs: list[list[Row]], most: int) -> list[Row]:
    """The runs, each in its own order, at most `most` of them under way at a time."""
    rows, waiting, open_ = [], list(runs), []
    while waiting or open_:
        while waiting and len(open_) < most:
            open_.append(waiting.pop(0))
        chosen = open_[draw(st.integers(0, len(open_) - 1))] if len(open_) > 1 else open_[0]
        rows.append(chosen.pop(0))
        open_ = [run for run in open_ if run]
    return rows


def odd(draw: st.DrawFn, row: Row) -> list[Row]:
    """A row as another version or a mistake writes it."""
    name, data = row
    how = draw(st.sampled_from(["field", "missing", "type", "twice", "no object", "no trial", "between"]))
    fields = sorted(data)
    if how == "field":
        return [(name, data | {draw(words): draw(anything)})]
    if how == "missing" and fields:
        gone = draw(st.sampled_from(fields))
        return [(name, {k: v for k, v in data.items() if k != gone})]
    if how == "type" and fields:
        return [(name, data | {draw(st.sampled_from(fields)): draw(anything)})]
    if how == "no object":
        return [(name, draw(anything))]
    if how == "no trial":
        return [(name, data | {"trial": draw(anything)})]
    if how == "between":
        between = draw(st.sampled_from(sorted(BETWEEN)))
        return [(between, draw(BETWEEN[between])), row]
    return [row, row]


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    head = [(name, draw(HEAD[name])) for name in draw(st.lists(st.sampled_from(sorted(HEAD)), max_size=4))]
    started = [("session.started", draw(HEAD["session.started"]))] if draw(st.integers(0, 9)) else []
    runs = [draw(trial(n + 1)) for n in range(draw(st.integers(0, 5)))]
    rows = [*started, *head, *lanes(draw, runs, draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        rows.append(("session.ended", draw(ENDED)))
    for _ in range(draw(st.integers(0, 4))):  # oddities, at any place
        if rows:
            at = draw(st.integers(0, len(rows) - 1))
            rows[at : at + 1] = odd(draw, rows[at]) if isinstance(rows[at][1], dict) else [rows[at]]
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(BETWEEN)))
        rows.insert(draw(st.integers(0, len(rows))), (name, draw(BETWEEN[name])))
    cut = draw(st.integers(0, len(rows))) if draw(st.booleans()) else len(rows)
    return [{"seq": i, "kind": k, "t": 1.8e9 + i, "data": d} for i, (k, d) in enumerate(rows[:cut], 1)]
