"""Measure how fast trials come: sessions on `cute` beside a loop over nvcc for the same time, and the first trial.

    python -m engine.bench.studies.pace --seconds 300 --json pace.json            # two windows of five minutes
    python -m engine.bench.studies.pace --side loop --seconds 300 --json pace.json  # one; the file keeps the other
    python -m engine.bench.studies.pace --side kernels --seconds 120 --json pace.json  # raw kernels

The side `kernels` plays sessions of `flat` whose candidates are raw kernels, from the rehearsal: the CuTe DSL code of
the planner's programs, built, verified and examined as a stranger's text. `--compile-again` takes nothing of what their
compilers built from the checked process to the timed one (engine.evaluate.integrity.process.own_builds).

Both sides are real sessions (engine.session.runner) with real workers, builds and verification, on the same modules in
class f16 and in the same order, from an empty build cache. The loop does one thing after the other and builds every
program whole with nvcc, as a script around a compiler does; its process is as warm as ours, unlike such a script's. No
session teaches the next one (engine.strategies.planner.memory); otherwise the second window would start with the best
of the first. A trial counts if its verdict came inside the window; its seconds run from proposal to verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from engine import atomic_write
from engine.bench.studies import rehearsed
from engine.devices import Candidate, Problem, SessionRefused, TrialError
from engine.llm import handler
from engine.session import events
from engine.session.runner import SessionSpec, run
from engine.session.spec import MAX_TRIALS

# The suite's products and linear layers whose f16 programs `cute` takes; --starts uses the first ones.
MODULES = (
    "linear_div_gelu", "matmul_square", "linear_scale_leaky", "linear_mish_mish", "bmm", "linear_relu_div",
    "matmul_transposed_b", "linear_hardtanh_gelu", "matmul_rectangular", "linear_scaled_residual", "matmul_irregular",
    "linear_shift_scale_relu", "matmul_transposed_a", "linear_scale_batchnorm", "matmul_batched_shared",
    "linear_logsumexp_mish", "matmul_transposed_both", "linear_scale_batchnorm_tall", "matmul_symmetric",
    "linear_swish_groupnorm", "matmul_triu", "linear_groupnorm_hardtanh", "matmul_tril", "mlp_sigmoid_logsumexp",
    "linear_instancenorm_residual",
)  # fmt: skip
CLS = "f16"
TRIALS = 24  # per session; then the next module
KERNELS = {"strategy": "flat", "options": {"form": "kernel", "attempts": 6}, "trials": 6}  # of a raw kernels' session
AIMS = {"median_s": 2.5, "first_trial_s": 5.0, "times_as_many": 10.0, "kernel_median_s": 8.0}  # goals of this study
STAGES = ("traced", "reported", "baseline", "proposed", "compiled", "validated", "measured")  # the first of a session
STEPS = ("checked", "generated", "compiled", "validated", "measured")  # of a trial; the last has its verdict, too


@dataclass
class Ended:
    """One trial that ended inside the window, `at` seconds after its start. `built_s`: its own wait for the compiler,
    near 0 if built ahead or cached; `steps`: seconds of each of STEPS; `failed`: step and code, or empty."""

    module: str
    trial: int
    at: float
    seconds: float
    built_s: float = 0.0
    cached: bool = False
    failed: str = ""
    steps: dict[str, float] = field(default_factory=dict)


@dataclass
class Window:
    """The work of one side in `seconds`. `sessions`: {module, first_trial_s: from Run to the first measured trial,
    stages, end}."""

    seconds: float
    ended: list[Ended] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def judged(self) -> list[Ended]:
        return [e for e in self.ended if not e.failed]

    def steps(self) -> dict[str, float]:
        """Median seconds of each step, over the trials with a verdict; over all if none has one."""
        rows = [e.steps for e in self.judged or self.ended]
        each = {name: [steps[name] for steps in rows if name in steps] for name in STEPS}
        return {name: round(median(seconds), 3) for name, seconds in each.items() if seconds}

    def to_json(self) -> dict[str, Any]:
        """Counts and quantiles, then their rows."""
        return {
            "seconds": round(self.seconds, 1),
            "trials": len(self.judged),
            "failed": len(self.ended) - len(self.judged),
            "trial_s": _spread([e.seconds for e in self.judged]),
            "trial_s_fresh_build": _spread([e.seconds for e in self.judged if not e.cached]),
            "steps_s": self.steps(),
            "a_trial_every_s": round(max(e.at for e in self.judged) / len(self.judged), 3) if self.judged else None,
            "sessions": self.sessions,
            "rows": [{k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(e).items()} for e in self.ended],
        }


def _spread(values: list[float]) -> dict[str, float | int] | None:
    """{n, median, p90, max} in seconds; None for no values."""
    if not values:
        return None
    ninth = quantiles(values, n=10)[8] if len(values) > 1 else values[0]
    figures = {"median": median(values), "p90": ninth, "max": max(values)}
    return {"n": len(values), **{name: round(v, 3) for name, v in figures.items()}}


class Loop:
    """An evaluator that builds every program with nvcc on request, and nothing ahead.

    `build(source, cancelled)`: the compiler (engine.build.pool.build_cpp into the machine's cache)."""

    def __init__(self, device: Any, build: Callable[[Any, Callable[[], bool]], Any] | None = None):
        self._device, self._build = device, build or _by_nvcc
        self._cancelled: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._device.open(problem, cancelled)

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        from engine.build.limited import BuildError

        candidate = self._by_cpp(candidate, "compile")
        try:
            built = self._build(candidate.sources["cpp"], self._cancelled)
        except BuildError as e:
            raise TrialError("compile", e.code, e.reason, e.log or None) from None
        resources = [dict(r) for r in built.resources]
        return events.TrialCompiled(
            candidate.trial, "cpp", "machine code", built.seconds, built.cached, resources, "by nvcc, in turn"
        )

    def validate(self, candidate: Candidate) -> events.TrialValidated:
        return self._device.validate(self._by_cpp(candidate, "validate"))

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        return self._device.measure(self._by_cpp(candidate, "measure"), baseline)

    def prefetch(self, candidates: list[Candidate]) -> None:
        """Nothing: a loop does not know the next program before this one is done."""

    def build_ahead(self, source: Any) -> None:
        """Nothing: a loop builds its first program when it tries it."""

    def _by_cpp(self, candidate: Candidate, step: str) -> Candidate:
        if "cpp" not in candidate.sources:
            raise TrialError(step, "no_cpp", "the `cpp` back end does not take this program")
        return replace(candidate, backend="cpp")


def _by_nvcc(source: Any, cancelled: Callable[[], bool]) -> Any:
    from engine.build.cache import Cache
    from engine.build.pool import build_cpp

    return build_cpp(source, Cache(), cancelled)


def play(
    modules: Iterable[tuple[str, str, str]],
    device: Any,
    seconds: float,
    *,
    trials: int = TRIALS,
    say: Callable[[str], None] = lambda text: None,
    warm: Callable[[], None] = lambda: None,
    keep: Callable[[Window], None] = lambda window: None,
    strategy: dict[str, Any] | None = None,
    handlers: Any = None,
) -> Window:
    """Sessions on `modules` (name, text, kind), one after the other, until `seconds` have passed or no module is left.

    Between sessions `keep` gets what there is so far, and `warm` is called, as the app's engine does. A trial that the
    clock interrupts does not count.
    `strategy`: fields of the sessions' spec for another strategy than the planner, with the `handlers` of its models.
    """
    began = time.monotonic()
    window = Window(seconds)
    for name, text, kind in modules:
        if time.monotonic() - began >= seconds:
            break
        _session(window, (name, text, kind), device, began, {"trials": trials, **(strategy or {})}, say, handlers)
        if not window.ended and not window.sessions[-1]["end"].startswith(("done", "stopped")):
            raise SessionRefused("nothing_ran", f"{name}: {window.sessions[-1]['end']}")
        keep(window)
        warm()
    else:
        window.seconds = min(seconds, time.monotonic() - began)  # there was nothing left to try
    keep(window)
    return window


def _session(
    window: Window,
    module: tuple[str, str, str],
    device: Any,
    began: float,
    fields: dict[str, Any],
    say: Callable[[str], None],
    handlers: Any = None,
) -> None:
    pressed, until = time.monotonic(), began + window.seconds
    name, text, kind = module
    stops: list[bool] = []

    def control() -> list[tuple[str, dict]]:
        if time.monotonic() < until or stops:
            return []
        stops.append(True)
        return [("stop", {})]

    spec = SessionSpec(
        title=name, source=text, source_kind=kind, device="cuda", classes=(CLS,), eps=0.0, window=MAX_TRIALS, **fields
    )
    stages: dict[str, float] = {}
    proposed: dict[int, float] = {}
    built: dict[int, events.TrialCompiled] = {}
    steps: dict[int, tuple[float, dict[str, float]]] = {}  # when a trial's last step ended, and the seconds of each
    reason = ""
    for emitted in run(spec, device=device, control=control, local_user=True, teaches=False, handlers=handlers):
        e, now = emitted.event, time.monotonic()
        step = e.KIND.removeprefix("trial.")
        if step in STAGES:
            stages.setdefault(step, round(now - pressed, 3))
        if isinstance(e, events.TrialProposed):
            proposed[e.trial], steps[e.trial] = now, (now, {})
        elif step in STEPS:
            last, seconds = steps[e.trial]
            steps[e.trial] = now, {**seconds, step: round(now - last, 3)}
        if isinstance(e, events.TrialCompiled):
            built[e.trial] = e
        elif isinstance(e, events.ENDS) and now < until:
            one = Ended(name, e.trial, now - began, now - proposed[e.trial], steps=steps[e.trial][1])
            if e.trial in built:
                one.built_s, one.cached = built[e.trial].seconds, built[e.trial].cached
            if not isinstance(e, events.TrialJudged):
                one.failed = f"{e.step}: {e.code}"
            window.ended.append(one)
            why = e.text if isinstance(e, events.TrialUntimed) else getattr(e, "reason", "")
            what = f"ended at {one.failed}: {why[:160]}" if one.failed else f"{e.ms:.4g} ms {e.verdict}"
            say(f"{name:28} trial {e.trial:2}  {one.seconds:6.2f} s (build {one.built_s:5.2f} s)  {what}")
        elif isinstance(e, events.SessionEnded):
            reason = f"{e.state}: {e.reason}"[:200]
    window.sessions.append({"module": name, "first_trial_s": stages.get("measured"), "stages": stages, "end": reason})


# ---- the command ----


def _sources(only: tuple[str, ...]) -> list[tuple[str, str, str]]:
    from engine.suite.cases import PROBLEMS

    return [(name, (PROBLEMS / f"{name}.py").read_text(encoding="utf-8"), "module") for name in only or MODULES]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.studies.pace", description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda; modelled:h200 tries the command itself without a GPU")
    parser.add_argument(
        "--side",
        choices=("both", "cute", "loop", "kernels"),
        default="both",
        help="which window (default both: cute, then loop)",
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="of each window (default 300)")
    parser.add_argument("--loop-seconds", type=float, help="of the loop's window, if different")
    parser.add_argument("--starts", type=int, default=3, help="sessions for only the first trial (default 3)")
    parser.add_argument("--rest", type=float, default=15.0, help="seconds given to workers to get warm (default 15)")
    parser.add_argument("--only", default="", metavar="NAME,..", help="modules of engine/problems")
    parser.add_argument("--cache", metavar="DIR", help="folder of builds (default: a fresh one, removed at the end)")
    parser.add_argument("--compile-again", action="store_true", help="let kernels compile where they are timed, too")
    parser.add_argument("--json", metavar="OUT", help="the numbers; a side that does not run stays unchanged")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ucutlass-pace-", ignore_cleanup_errors=True) as folder:
        os.environ["UCUTLASS_CACHE"] = args.cache or folder
        try:
            return _play(args)
        except SessionRefused as e:
            print(f"error: {e.reason}", file=sys.stderr)
            return 2


def _play(args: argparse.Namespace) -> int:
    from engine import trace
    from engine.devices import registry
    from engine.evaluate.timing import gpu_condition

    out = Path(args.json) if args.json else None
    results = json.loads(out.read_text()) if out and out.exists() and out.read_text().strip() else {}
    device = registry.get(args.device, local_user=True)
    typed = ["--device", args.device, "--side", args.side, "--seconds", f"{args.seconds:g}"]
    typed += ["--loop-seconds", f"{args.loop_seconds:g}"] if args.loop_seconds else []
    typed += ["--starts", str(args.starts), "--rest", f"{args.rest:g}"]
    typed += ["--only", args.only] if args.only else []
    if args.compile_again:
        from engine.evaluate.integrity.process import own_builds

        own_builds.MOST = 0
        typed.append("--compile-again")
    command = " ".join(["python -m engine.bench.studies.pace", *typed, "--json pace.json"])
    results |= gpu_condition.about(command, gpu_condition.read() if device.kind == "measured" else None)
    results |= {"kind": device.kind, "cores": len(os.sched_getaffinity(0)), "class": CLS, "aims": AIMS}
    modules = _sources(tuple(filter(None, args.only.split(","))))

    def warm() -> None:
        trace.warm(local_user=True)
        device.warm()

    def save(**more: Any) -> None:
        results.update(more)
        if {"cute", "loop"} <= results.keys():
            results["times_as_many"] = times_as_many(results["cute"], results["loop"])
        if out:
            atomic_write.write_results(out, results)

    def keep(side: str, **about: Any) -> Callable[[Window], None]:
        return lambda window: save(**{side: about | window.to_json()})

    def ready() -> None:
        warm()
        if device.kind == "measured":
            device.machine.workers.ready()
        time.sleep(args.rest)

    ready()
    if args.side == "kernels":
        with tempfile.TemporaryDirectory() as folder, rehearsed.rehearsal(folder) as models:
            led = {"strategy": KERNELS, "handlers": handler.handlers(models)}
            keeps = keep("kernels", model="rehearsed: rules wrote each reply", **KERNELS)
            play(modules, device, args.seconds, say=_say, warm=warm, keep=keeps, **led)
        _say(summary("kernels", results["kernels"]))
    if args.side in ("both", "cute"):
        results["starts"] = []
        for one in modules[1 : 1 + args.starts]:
            results["starts"] += play([one], device, 120.0, trials=1, say=_say).sessions
            _say(f"first trial of {one[0]}: {results['starts'][-1]['stages']}")
            save()
            ready()
        play(modules, device, args.seconds, say=_say, warm=warm, keep=keep("cute"))
        _say(summary("cute", results["cute"]))
    if args.side in ("both", "loop"):
        play(modules, Loop(device), args.loop_seconds or args.seconds, say=_say, warm=warm, keep=keep("loop"))
        _say(summary("loop", results["loop"]))
    device.close()
    _say(verdict(results))
    return 0


def times_as_many(cute: dict[str, Any], loop: dict[str, Any]) -> float | None:
    """Trials a second of `cute` over trials a second of `loop`, each up to its last; None if one side ended none."""
    if not loop["trials"] or not cute["trials"]:
        return None
    return round(loop["a_trial_every_s"] / cute["a_trial_every_s"], 1)


def summary(side: str, results: dict[str, Any]) -> str:
    spread = results["trial_s"] or {}
    return (
        f"{side}: {results['trials']} trials in {results['seconds']:.0f} s ({results['failed']} failed), median "
        f"{spread.get('median')} s from proposal to verdict, p90 {spread.get('p90')}, max {spread.get('max')}; "
        f"freshly built: {results['trial_s_fresh_build']}; one every {results['a_trial_every_s']} s; "
        f"by step, medians: {results['steps_s']}"
    )


def verdict(results: dict[str, Any]) -> str:
    """The three aims beside the measured values."""
    lines = []
    if results.get("cute", {}).get("trial_s"):
        lines.append(f"median trial {results['cute']['trial_s']['median']} s (aim {AIMS['median_s']})")
    firsts = [s["first_trial_s"] for s in results.get("starts", []) if s["first_trial_s"]]
    if firsts:
        lines.append(f"first measured trial {median(firsts):.2f} s of {firsts} (aim {AIMS['first_trial_s']})")
    if results.get("kernels", {}).get("trial_s"):
        lines.append(f"raw kernels: median {results['kernels']['trial_s']['median']} s (aim {AIMS['kernel_median_s']})")
    if "times_as_many" in results:
        lines.append(f"{results['times_as_many']} times the loop's trials (aim {AIMS['times_as_many']:g})")
    return "; ".join(lines)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
