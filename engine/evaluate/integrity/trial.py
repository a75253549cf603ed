"""The evidence of a session's trial from its run, as checks, and the verdict that follows.

A μCUTLASS program cannot express most tricks (`static_python`, `static_cuda` read raw code for them), and the language
checks what it does express. Every measured trial checks the rest: that its kernels computed the result, whose kernels
ran and on which streams, that clocks were not replaced, the results of timed calls, the precision of its products, and
that it is not faster than the hardware. Plain Python; engine.session.trial adds the last two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.evaluate.integrity.texts.symbols import plain_name
from engine.evaluate.timing.cupti import beside_libraries
from engine.words import count
from sol.budget import launch_binds, times_limit

PASSED, UNSEEN, MINOR, LIBRARY, GAMING = "passed", "not looked at", "minor", "library only", "gaming"
WRONG = "wrong"  # in the evidence of a raw kernel's trial that failed
_ORDER = (PASSED, UNSEEN, MINOR, LIBRARY, WRONG, GAMING)
GUARD = "guard"  # the name of a guarded program's check
HIDDEN = 1.5  # ratio of all streams' time to the events' time above which work is hidden
SLACK_US = 20.0  # for a kernel's start and CUPTI's clock
SEVERAL = 4  # kernels; of more, the longest are named
_FINE_TO_COARSE = ("f32", "tf32", "f16", "bf16", "fp8", "i8")


def check(name: str, verdict: str, sentence: str, line: int | None = None) -> dict[str, Any]:
    """One line of evidence: {name, verdict, said}; `verdict` is one of those above, `said` one clause. With `line` if
    it has a position in the candidate's text."""
    return {"name": name, "verdict": verdict, "said": sentence, **({"line": line} if line else {})}


def worst(checks: Iterable[dict[str, Any]]) -> str:
    """clean | minor | library only | wrong | gaming: the worst of the checks."""
    rank = max((_ORDER.index(c["verdict"]) for c in checks), default=0)
    return "clean" if rank <= _ORDER.index(UNSEEN) else _ORDER[rank]


def of_run(facts: dict[str, Any], ms: float, looked_at: int, timed: int) -> list[dict[str, str]]:
    """The checks of the worker's answer to `integrity` (engine.evaluate.candidate.worker_main) and of the timed calls.
    `ms`: their median; `looked_at` of `timed` results were compared."""
    return [
        *_guarded(facts.get("guard") or [], facts.get("ranges") or {}),
        _without_kernels(facts.get("silent") or {}),
        _ran(facts),
        _streams(facts, ms),
        _clocks(facts.get("patched") or []),
        check("timed results", PASSED, f"{looked_at} of {timed} timed results were compared, and right"),
    ]


def steadiness(about: Mapping[str, Any]) -> list[dict[str, str]]:
    """A line about disturbed measurements, if there were any. `about`: what engine.evaluate.timing.steadiness.steady
    says."""
    unsteady = about.get("unsteady")
    if not unsteady:
        return []
    if about["disturbed"]:
        how = "once, and disturbed" if len(unsteady) == 1 else f"{len(unsteady)} times, and disturbed each time"
        return [check("steady", UNSEEN, f"taken {how}: {unsteady[-1]}")]
    before = (
        f"{count(len(unsteady), 'measurement')} before this one {'was' if len(unsteady) == 1 else 'were'} disturbed"
    )
    return [check("steady", PASSED, f"{before}: {unsteady[0]}")]


def _guarded(raised: list[bool | None], ranges: dict[str, list[float]]) -> list[dict[str, Any]]:
    """For a guarded program: whether the time is that of f16 products or of its f32 fallback. `raised`: for each set of
    timed inputs; `ranges`: engine.evaluate.correctness.oracle.ranges of one that tripped it."""
    up, sets = sum(map(bool, raised)), len(raised)
    if all(one is None for one in raised):
        return []
    if not up:
        return [check(GUARD, PASSED, "the guard's flag stayed down on all timed inputs")]
    which = "all timed inputs" if up == sets else f"{up} of {sets} sets of timed inputs"
    words = f"the guard tripped on {which}: timed is all of it again in f32 on the CUDA cores"
    return [check(GUARD, MINOR, words) | ({"ranges": ranges} if ranges else {})]


def ranges(checks: Iterable[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Of a program whose guard tripped: result -> the least and the greatest magnitude of its chunks, where f16 holds
    them narrowly or not (engine.evaluate.correctness.oracle.ranges)."""
    met = next((c["ranges"] for c in checks if c["name"] == GUARD and "ranges" in c), {})
    return {name: (least, greatest) for name, (least, greatest) in met.items()}


def tripped(checks: Iterable[dict[str, str]]) -> str:
    """The clause about a tripped guard, else ""."""
    return next((c["said"] for c in checks if c["name"] == GUARD and c["verdict"] != PASSED), "")


def _without_kernels(silent: dict[str, Any]) -> dict[str, str]:
    name, launched = "without kernels", silent.get("launches") or []
    if silent.get("left_out"):
        return check(name, UNSEEN, str(silent["left_out"])[:200])
    if not launched:
        return check(name, LIBRARY, "the program launched no kernel of its own")
    of = f"{len(launched)} launch{'es' if len(launched) > 1 else ''} left out"
    if silent["same"]:
        return check(name, GAMING, f"{of}, the result is the same: the kernels have no part in it")
    return check(name, PASSED, f"{of}, {silent['unwritten']:,} of {silent['elements']:,} elements stay unwritten")


def _ran(facts: dict[str, Any]) -> dict[str, str]:
    kernels, name = facts.get("kernels"), "kernels"
    if not isinstance(kernels, list):
        return check(name, UNSEEN, str(facts.get("no_kernels") or "CUPTI was not asked")[:200])
    if not kernels:
        return check(name, GAMING, "CUPTI saw nothing run on the GPU")
    own = [k for k in kernels if not k["library"]]
    theirs = list(dict.fromkeys(plain_name(k["name"]) for k in kernels if k["library"]))
    if not own:
        return check(name, LIBRARY, f"only library kernels ran: {', '.join(theirs[:3])}")
    sentence = f"CUPTI saw {len(own)} of {len(kernels)} kernels that are the program's own"
    sentence += f"; besides {', '.join(theirs[:3])}" if theirs else ""
    return check(name, PASSED, sentence + (f"; {_longest(kernels)}" if len(kernels) > SEVERAL else ""))


def _longest(kernels: list[dict[str, Any]]) -> str:
    """Where the time of many kernels goes. Several have one name, so each has its place among the launches."""
    total = sum(k["us"] for k in kernels) or 1.0
    longest = sorted(enumerate(kernels, 1), key=lambda row: -row[1]["us"])[:SEVERAL]
    rows = [f"number {i} ({plain_name(k['name'])[:40]}) {k['us']:.4g} us, {k['us'] / total:.0%}" for i, k in longest]
    return f"the longest of {total:.4g} us: {'; '.join(rows)}"


def _streams(facts: dict[str, Any], ms: float) -> dict[str, str]:
    kernels, name = facts.get("kernels"), "streams"
    if not isinstance(kernels, list) or not kernels:
        return check(name, UNSEEN, "no kernel was seen")
    streams, busy = len({k["stream"] for k in beside_libraries(kernels)}), facts["busy_us"] / 1e3
    times = f"{busy:.4g} ms on {streams} stream{'s' if streams > 1 else ''}, {ms:.4g} ms by events"
    if busy > HIDDEN * ms + SLACK_US / 1e3:
        return check(name, GAMING, f"work is hidden from the clock: {times}")
    return check(name, PASSED if streams == 1 else MINOR, times)


def _clocks(patched: list[str]) -> dict[str, str]:
    if patched:
        return check("clocks", GAMING, f"functions of the harness were replaced: {', '.join(map(str, patched))[:200]}")
    return check("clocks", PASSED, "timing and PyTorch functions are those that the process began with")


def of_precision(derived: str, declared: str, roof: str | None = None) -> dict[str, str]:
    """`derived`: the class of the program's products (engine.classes.class_of); `declared`: the class that it is
    compared in; `roof`: the class that its instructions multiply in (roof_of), which differs from `derived` under a
    guard."""
    if _FINE_TO_COARSE.index(derived) > _FINE_TO_COARSE.index(declared):
        return check("precision", GAMING, f"its products are in {derived}, it is compared in {declared}")
    if roof not in (None, derived):
        sentence = f"its products are in {roof} under a guard that computes all again outside of {roof}'s range"
        return check("precision", PASSED, f"{sentence}, which stands in {derived}; its class is {declared}")
    return check("precision", PASSED, f"its products are in {derived}, its class is {declared}")


def of_limit(gap: float, limit: float, too_fast: float) -> dict[str, str]:
    """`gap`: the time over `limit`, t_sol of the class in ms; no honest kernel is below `too_fast`."""
    if gap < too_fast:
        return check(
            "limit", GAMING, f"below {too_fast:.0%} of the limit of {limit:.3g} ms: no honest kernel does that"
        )
    far = ", far above the limit" if launch_binds(limit) else ""
    return check("limit", PASSED, f"{times_limit(gap, limit)}{far} of {limit:.3g} ms")
