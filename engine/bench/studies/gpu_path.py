"""Check the path from a module to a published figure on this GPU: sessions, a bench, the suite, torch.compile.

    python -m engine.bench.studies.gpu_path --out DIR [--only STEP,..] [--seconds 900]

Steps, each with its own file in DIR and its faults in words in DIR/gpu_path.json:

    sessions   `planner` and `sweep` on a linear layer, and `planner` on a module in regions
    compile    torch.compile's default mode in alternation with eager TF32, on the same linear layer
    bench      six problems with 6 trials each, interrupted once by the clock and continued (DIR/bench.json)
    compare    each problem's best of that bench and the committed one, in turns with PyTorch in one run
    suite      a few of the suite's programs by both back ends (DIR/suite.json)

Without a GPU, `--device modelled:h200` runs the steps that need no measured time, to try the script itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from engine import atomic_write
from engine.bench.report import speedups
from engine.bench.report.publish import committed
from engine.bench.run import runner
from engine.bench.run.request import Request
from engine.devices import Candidate, Problem, SessionRefused, TrialError, registry
from engine.evaluate.evaluator import Evaluator
from engine.evaluate.timing.samples import paired_ratio
from engine.session import events
from engine.session import runner as sessions
from engine.session.fold.view import COUNTING
from engine.session.spec import SessionSpec
from engine.strategies.problem import Prepared
from engine.suite import runner as suite
from engine.suite.cases import PROBLEMS, cases, module_ids
from engine.trace import trace

SIX = ("matmul_square", "bmm", "linear_scale_leaky", "linear_logsumexp_mish", "conv2d_relu_bias", "conv2d_wide")
LINEAR, IN_REGIONS = "linear_scale_leaky", "moe_layer"
PROGRAMS = (
    "matrix_vector", "matmul_square_f16", "linear_scale_leaky", "linear_scale_leaky_f16", "conv2d_relu_bias_f16",
)  # fmt: skip
TRIALS = 6
SAME = 0.03  # allowed difference between the best of a bench and the committed best
FIRST_CALL_S = 45.0  # the bench's first call is interrupted after this time
EXPECTED = ("without kernels", "kernels", "clocks", "precision")  # checks that every measured trial must pass


class Check:
    """`out`: the folder of all files; `report`: step -> {faults: [words], ..}."""

    def __init__(self, evaluator: Evaluator, out: Path, seconds: float, say: Callable[[str], None]):
        self.evaluator, self.out, self.say = evaluator, out, say
        self.until = time.monotonic() + seconds
        self.report: dict[str, Any] = {"about": runner.about(evaluator)}
        self.measures = evaluator.kind == "measured"

    def step(self, name: str) -> None:
        began = time.monotonic()
        try:
            result = getattr(self, name)()
        except Exception as e:
            result = {"faults": [f"the step broke: {type(e).__name__}: {e}"[:600]]}
        result["seconds"] = round(time.monotonic() - began, 1)
        self.report[name] = result
        self.say(f"{name}: {'; '.join(result['faults']) or 'as it should be'} ({result['seconds']:.0f} s)")
        atomic_write.write_results(self.out / "gpu_path.json", self.report)

    # ---- steps ----

    def sessions(self) -> dict[str, Any]:
        rows, faults = [], []
        for module, strategy in ((LINEAR, "planner"), (LINEAR, "sweep"), (IN_REGIONS, "planner")):
            row = self._session(module, strategy)
            rows.append(row)
            faults += [f"{module} by {strategy}: {words}" for words in row.pop("faults")]
        return {"faults": faults, "sessions": rows}

    def _session(self, module: str, strategy: str) -> dict[str, Any]:
        spec = SessionSpec(title=module, source=_text(module), strategy=strategy, trials=TRIALS)
        began, log, first = time.monotonic(), [], None
        for emitted in sessions.run(spec, device=self.evaluator, local_user=True, teaches=False, memory=""):
            log.append(emitted.event)
            if first is None and isinstance(emitted.event, events.TrialMeasured):
                first = round(time.monotonic() - began, 2)
        of = {kind: [e for e in log if isinstance(e, kind)] for kind in (
            events.Baseline, events.TrialFailed, events.TrialJudged, events.TrialMeasured, events.Screened
        )}  # fmt: skip
        end, judged = log[-1], of[events.TrialJudged]
        faults = [] if end.state == "done" else [f"{end.state}: {end.reason}"[:300]]
        faults += [f"trial {e.trial} failed at {e.step}: {e.reason}"[:300] for e in of[events.TrialFailed]]
        faults += [f"trial {e.trial} is {e.verdict}: {e.text}"[:300] for e in judged if e.verdict not in COUNTING]
        faults += [] if judged else ["no trial was judged"]
        if self.measures:
            faults += self._evidence(judged) + [
                f"baseline {b.name} has no ratio" for b in of[events.Baseline] if b.beside and not b.ratio
            ]
        return {
            "module": module, "strategy": strategy, "state": end.state, "seconds": end.seconds,
            "first_trial_s": first, "trials": len(judged), "screened": sum(len(e.quick) for e in of[events.Screened]),
            "baselines": {b.name: [b.time.ms, b.ratio] for b in of[events.Baseline]},
            "best": {e.cls: [e.ms, e.speedup] for e in judged if e.best}, "faults": faults,
        }  # fmt: skip

    @staticmethod
    def _evidence(judged: list[events.TrialJudged]) -> list[str]:
        """Checks that a measured trial lacks or failed."""
        faults = []
        for e in judged:
            seen = {c["name"]: c["verdict"] for c in e.evidence}
            faults += [f"trial {e.trial}: {n} {seen.get(n, 'is missing')}" for n in EXPECTED if seen.get(n) != "passed"]
        return faults

    def compile(self) -> dict[str, Any]:
        if not self.measures:
            return {"faults": []}
        self._open(LINEAR)
        try:
            timed = self.evaluator.workbench.programs.timing.baseline("compile_tf32", "eager_tf32")
        finally:
            self.evaluator.close()
        faults = [] if timed.ratio and timed.ratio_low <= timed.ratio <= timed.ratio_high else ["it has no ratio"]
        interval = [timed.ratio_low, timed.ratio_high]
        return {"faults": faults, "cls": timed.cls, "ms": timed.time.ms, "ratio": timed.ratio, "interval": interval}

    def bench(self) -> dict[str, Any]:
        """One call that the clock interrupts, and one that continues."""
        ids, out = module_ids(), self.out / "bench.json"
        out.unlink(missing_ok=True)
        fields = {"device": self.evaluator.name, "trials": TRIALS}
        for seconds in (FIRST_CALL_S, max(60.0, self.until - time.monotonic())):
            request = Request({module: ids[module] for module in SIX}, fields, seconds)
            problems = runner.run(request, [self.evaluator], out, self.say).problems
        faults = [f"{module} is missing" for module in SIX if module not in problems]
        for module, row in problems.items():
            numbers = [t["trial"] for t in row["trials"]]
            faults += [] if row["session"]["state"] == "done" else [f"{module}: {row['session']['reason']}"[:200]]
            faults += [] if numbers == list(range(1, len(numbers) + 1)) else [f"{module}: trials {numbers}"]
            faults += [f"{module}: no right program"] * (not any(t["ok"] for t in row["trials"]))
        seconds = {module: row["session"]["seconds"] for module, row in problems.items()}
        resumed = {module: row["session"]["resumed"] for module, row in problems.items()}
        return {"faults": faults, "seconds_of": seconds, "resumed": resumed}

    def compare(self) -> dict[str, Any]:
        """The ratio of old to new, of the medians of pairs: 1.03 is 3% faster than the committed program."""
        new = json.loads((self.out / "bench.json").read_text(encoding="utf-8"))["problems"]
        old = json.loads(committed().read_text(encoding="utf-8"))["problems"]
        rows, faults = [], []
        for module in SIX:
            for cls in ("tf32", "f16"):
                pair = [self._best(problems.get(module), cls) for problems in (old, new)]
                if None in pair or time.monotonic() > self.until:
                    faults.append(f"{module} {cls}: {'one side has no program' if None in pair else 'no time left'}")
                    continue
                row = {"module": module, "class": cls, **self._side_by_side(module, cls, *pair)}
                rows.append(row)
                if row.get("error") or row["ratio"] < 1 - SAME:
                    why = row.get("error") or f"the new one runs at {row['ratio']:.3f} of the committed one's speed"
                    faults.append(f"{module} {cls}: {why}")
        return {"faults": faults, "pairs": rows}

    @staticmethod
    def _best(row: dict[str, Any] | None, cls: str) -> dict[str, Any] | None:
        if row is None:
            return None
        speedups.judge(row)
        best = speedups.best(row, cls)
        return best if best and best.get("text") else None

    def _side_by_side(self, module: str, cls: str, old: dict, new: dict) -> dict[str, Any]:
        prepared = self._open(module)
        try:
            both = [self._candidate(i, t, prepared) for i, t in enumerate((old, new), 1)]
            for candidate in both:
                self.evaluator.build(candidate)
                self.evaluator.validate(candidate)
            baseline = self.evaluator.baseline("eager_tf32" if cls == "tf32" else f"eager_{cls}")
            first, second = self.evaluator.compare(both, baseline)
            if not self.measures:
                return {"old_ms": first.time.ms, "new_ms": second.time.ms, "ratio": first.time.ms / second.time.ms}
            ratio, low, high = paired_ratio(list(zip(first.time.sample, second.time.sample, strict=True)))
            return {
                "old_ms": first.time.ms, "new_ms": second.time.ms, "baseline_ms": first.baseline_ms, "ratio": ratio,
                "interval": [low, high], "then_ms": old["ms"],
            }  # fmt: skip
        except (TrialError, SessionRefused) as e:
            return {"error": e.reason[:300], "ratio": 0.0}
        finally:
            self.evaluator.close()

    def suite(self) -> dict[str, Any]:
        chosen = [c for c in cases() if c.name in PROGRAMS]
        results: list[dict[str, Any]] = []
        suite.run(chosen, self.evaluator, self.out / "suite.json", results.append)
        faults = [
            f"{r['program']} by {r['backend']}: {r['failed']}: {r['message']}"[:300] for r in results if not r["ok"]
        ]
        rows = [{n: r.get(n) for n in ("program", "backend", "class", "error", "ms", "ratio")} for r in results]
        return {"faults": faults, "rows": rows}

    # ---- what steps share ----

    def _open(self, module: str) -> Prepared:
        text = _text(module)
        problem = Problem(text, "module", trace(text, local_user=True).graph)
        prepared = Prepared(problem, ("tf32", "f16"), self.evaluator.hw, self.evaluator.kind)
        self.evaluator.open(problem, lambda: False)
        return prepared

    def _candidate(self, number: int, trial: dict[str, Any], prepared: Prepared) -> Candidate:
        compiled = generate(check(trial["text"]).program, self.evaluator.hw.sms)
        return Candidate(
            number, compiled.resolved, compiled.text, trial["class"], trial["backend"], compiled.sources,
            *prepared.bind(trial["text"]), compiled.refused,
        )  # fmt: skip


STEPS = ("sessions", "compile", "bench", "compare", "suite")


def _text(module: str) -> str:
    return (PROBLEMS / f"{module}.py").read_text(encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    name, about = "python -m engine.bench.studies.gpu_path", __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder of the results")
    parser.add_argument("--only", default="", metavar="STEP,..", help=f"of {', '.join(STEPS)}")
    parser.add_argument("--seconds", type=float, default=900.0, help="start no comparison after that (default 900)")
    parser.add_argument("--device", default="cuda", help="cuda, or modelled:h200 to try the script (default cuda)")
    args = parser.parse_args(argv)
    chosen = [s for s in args.only.split(",") if s] or list(STEPS)
    if unknown := [s for s in chosen if s not in STEPS]:
        print(f"error: there is no step {unknown[0]!r}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        evaluator = registry.get(args.device, local_user=True)
    except SessionRefused as e:
        print(f"error: {e.reason}", file=sys.stderr)
        return 2
    run = Check(evaluator, args.out, args.seconds, lambda text: print(text, flush=True))
    for name in chosen:
        run.step(name)
    return 1 if any(run.report[name]["faults"] for name in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
