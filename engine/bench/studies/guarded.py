"""Check that `guard f32` is right on inputs that trip it and on those that do not, and measure both costs, on a GPU.

    python -m engine.bench.studies.guarded --json guard.json [--only NAME,..] [--seconds 300]
    python -m engine.bench.studies.guarded --plan          # what would run: no GPU, no torch

Programs of the suite in f16, each under a guard, under a guard as a CUDA graph, and in the same configuration without
one; `_rows`: the program of that name without its casts and layouts, whose convolution reads images in PyTorch's layout
and rounds them itself (`cpp`). The guarded ones are validated by the evaluator of every session, in all its rounds. For
four sets of inputs the file stores the errors and the flag, which is compared with the set's purpose. If the flag stays
unset, the three and eager PyTorch with TF32 are timed in turns, in one run. Where a guard's rescue is a tf32 program
behind gates, that program is built, too, and a call that trips the guard is held to so many times its time: BEFORE if
nothing is multiplied in f16 once the flag is set, else AFTER. It is timed on inputs that trip at their first element,
and on those of which the last row or image alone trips, when all before it has been cast in vain. The file grows
program by program; programs that it holds are not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.guard import rescue
from dsl.ir import Collective, Conv, DType, Program
from dsl.lower.plan.rescue import chosen, leaves_out, on_tensor_cores
from dsl.printer import to_text
from dsl.resolve import resolve
from engine import atomic_write
from engine.classes import class_of
from engine.devices import Candidate, Problem, SessionRefused, TrialError, registry
from engine.evaluate.evaluator import Evaluator
from engine.evaluate.timing.gpu_condition import about
from engine.evaluate.timing.gpu_condition import read as condition_of
from engine.strategies.problem import Prepared
from engine.suite.cases import Case, cases
from engine.trace import trace

ROWS = ("conv3d_activations_f16_rows", "conv_transpose2d_square_f16_rows")
NAMES = (
    "matmul_square_f16", "linear_scale_leaky_f16", "conv2d_relu_bias_f16", "conv_transpose3d_add_hardswish_f16",
    "bmm_f16", "matmul_irregular_f16", "linear_groupnorm_hardtanh_f16", "linear_logsumexp_mish_f16", "conv2d_wide_f16",
    "conv2d_instancenorm_div_f16", "conv_transpose2d_square_f16", "matmul_triu_f16", "matmul_transposed_both_f16",
    "linear_div_gelu_f16", "conv3d_mish_tanh_f16", "conv2d_rgb_stride4_f16", "conv1d_strided_dilated_f16",
    *ROWS,
)  # fmt: skip
SETS = {"own": 0, "large": 1, "tiny": 1, "row": 1}  # whether the set trips the guard
FAMILIES = {"own": "own", "large": "huge", "tiny": "minute", "row": "uneven"}  # of the evaluator's inputs
KINDS = ("guarded", "graph", "plain")
TF32 = "tf32"  # the kind of the program that a rescue on the tensor cores is, without gates
BEFORE, AFTER = 1.15, 1.6  # times the tf32 program that a call which trips the guard may take
AS_TF32, AS_F32 = 1.1, 2e-6  # bound of a guarded error: this many times that of eager TF32, or as small as f32's own
METHOD = (
    "medians of calls in turns with eager TF32 in one run, L2 flushed; plain: the same without its guard; error: "
    "||ours - float64|| / ||float64||; sets: the module's own inputs, normal ones times 10^6, times 10^-6, and with "
    "the last row or image times 10^6; rescue and tf32: a few calls each on the normal ones times 10^6; rescue_row and "
    "tf32_row: the same with the last row or image times 10^6; ratios: rescue / tf32 on either set"
)
TRIPPED = {"large": ("rescue_ms", "tf32_ms"), "row": ("rescue_row_ms", "tf32_row_ms")}  # the times on a set
SMS = 132  # of the H200 and the H100 SXM, for which `auto` is resolved


def _case(name: str) -> Case:
    return next(c for c in cases() if c.name == name.removesuffix("_rows"))


def _guarded(name: str) -> str:
    """The text of a program of the suite under a guard."""
    case = _case(name)
    if name not in ROWS:
        return case.text.replace("  arch sm_90a\n", "  arch sm_90a\n  guard f32\n")
    plain = rescue(case.program())
    stages = tuple(
        replace(s, config=replace(s.config, compute=DType.F16)) if isinstance(s, Conv) else s for s in plain.stages
    )
    return to_text(replace(plain, stages=stages, guard=True))


def texts(name: str) -> dict[str, str]:
    """One program of the suite under a guard, the same as a CUDA graph, and without a guard, with nothing left auto;
    and the tf32 program that its rescue is, if it is one.

    Raises ValueError if the program cannot be guarded.
    """
    checked = check(_guarded(name))
    if not checked.ok:
        raise ValueError(f"{name}: {checked.diagnostics[0].message}")
    program = resolve(checked.program, SMS)
    kinds = {"guarded": program, "graph": replace(program, graph=True), "plain": replace(program, guard=False)}
    again = chosen(program)
    if any(map(on_tensor_cores, again.stages)):
        kinds[TF32] = again
    return {kind: to_text(one) for kind, one in kinds.items()}


def limit(program: Program) -> float:
    """What a call of a resolved guarded program may take that trips its guard, in times of the tf32 program."""
    products = [s for s in program.stages if isinstance(s, Collective)]
    return BEFORE if all(leaves_out(program, s) for s in products) else AFTER


def faults(row: dict[str, Any]) -> list[str]:
    """The faults of a program's row, in words; its sets are {error, graph_error, eager_tf32, flag, unexpected}."""
    if "error" in row:
        return [row["error"]]
    words = []
    for which, trips in SETS.items():
        if (s := row["sets"].get(which)) is None:  # float32 itself overflows there
            continue
        limit = max(AS_TF32 * s["eager_tf32"], AS_F32)
        words += [
            f"{which}: {k} {s[k]:.1e}, more than {limit:.1e}" for k in ("error", "graph_error") if not s[k] <= limit
        ]
        words += [f"{which}: {s['unexpected']} elements NaN or Inf on one side alone"] if s["unexpected"] else []
        words += [f"{which}: the flag is {s['flag']}"] if trips not in (None, s["flag"]) else []
    words += [
        f"{which}: a rescue takes {times:.2f} times the tf32 program, more than {row['limit']}"
        for which, times in ratios(row).items()
        if times > row["limit"]
    ]
    return words


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """What a call takes that trips the guard, in times of the tf32 program on the same inputs, by their set; {} where
    the rescue is on the CUDA cores."""
    return {which: row[ours] / row[tf32] for which, (ours, tf32) in TRIPPED.items() if tf32 in row}


def line(row: dict[str, Any]) -> str:
    """One program in one line."""
    wrong = faults(row)
    if "ms" not in row:
        return f"BAD {row['program']:36} {'; '.join(wrong)}"
    of_tf32 = ", ".join(f"{times:.2f} of tf32's on {which}" for which, times in ratios(row).items())
    rescued = f" ({of_tf32})" if of_tf32 else ""
    ms, worst = row["ms"], max(s["error"] / max(s["eager_tf32"], AS_F32) for s in row["sets"].values())
    return (
        f"{'BAD' if wrong else 'ok '} {row['program']:36} {ms['guarded']:.4f} ms (graph {ms['graph']:.4f}), eager tf32 "
        f"{ms['eager_tf32']:.4f}; the guard costs {cost_us(row):.1f} us, "
        f"a rescue {row['rescue_ms']:.3f} ms{rescued}, its build "
        f"{row['build_s']['guarded']:.1f} s for {row['build_s']['plain']:.1f}; error at most {worst:.2f} of tf32's "
        + "; ".join(wrong)
    ).rstrip()


def cost_us(row: dict[str, Any]) -> float:
    """The time that a guard adds to a call whose flag stays unset."""
    return round(1e3 * (row["ms"]["guarded"] - row["ms"]["plain"]), 1)


def run(names: Sequence[str], evaluator: Evaluator, seconds: float, done: Callable[[dict[str, Any]], None]) -> None:
    """Run program after program on the evaluator, with all builds requested at the start; each row goes to `done`, with
    its faults. Programs that did not start within `seconds` are left out."""
    deadline = time.monotonic() + seconds
    programs = {name: texts(name) for name in names}
    for text in (text for kinds in programs.values() for text in kinds.values()):
        sources = generate(check(text).program, evaluator.hw.sms).sources
        evaluator.build_ahead(sources.get("cute") or sources["cpp"])
    for name in names:
        if time.monotonic() > deadline:
            break
        row: dict[str, Any] = {"program": name}
        try:
            row |= _measured(name, programs[name], evaluator)
        except (TrialError, SessionRefused) as e:
            row["error"] = e.reason[:800]
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {e}"[:800]
        finally:
            evaluator.close()
        if "ms" in row:
            row["cost_us"] = cost_us(row)
        done(row | {"faults": faults(row)})


def _measured(name: str, kinds: dict[str, str], evaluator: Evaluator) -> dict[str, Any]:
    """{sets, ms, rescue_ms, rescue_row_ms, ratios, build_s} of one program. Raises TrialError, SessionRefused."""
    module = _case(name).module_path.read_text(encoding="utf-8")
    problem = Problem(module, "module", trace(module, local_user=True).graph)
    prepared = Prepared(problem, ("tf32", "f16"), evaluator.hw, evaluator.kind)
    evaluator.open(problem, lambda: False)
    candidates = {kind: _candidate(i, text, prepared, evaluator) for i, (kind, text) in enumerate(kinds.items(), 1)}
    built = {kind: evaluator.build(c) for kind, c in candidates.items()}
    checks = {kind: evaluator.validate(candidates[kind]).checks for kind in ("guarded", "graph")}
    baseline = evaluator.baseline("eager_tf32")
    timed = dict(zip(candidates, evaluator.compare(list(candidates.values()), baseline), strict=True))
    ms = {kind: round(m.time.ms, 5) for kind, m in timed.items()}
    beside: dict[str, Any] = {}
    for which, (ours, tf32) in TRIPPED.items():  # on the same inputs: the time of a product depends on them
        beside[ours] = round(evaluator.quick_on(candidates["guarded"], baseline, FAMILIES[which]), 4)
        if TF32 in candidates:
            beside[tf32] = round(evaluator.quick_on(candidates[TF32], baseline, FAMILIES[which]), 4)
    if TF32 in candidates:
        beside["limit"] = limit(candidates["guarded"].program)
        beside["ratios"] = {which: round(times, 3) for which, times in ratios(beside).items()}
    return beside | {
        "build_s": {kind: round(b.seconds, 2) for kind, b in built.items()},
        "sets": {which: s for which, family in FAMILIES.items() if (s := _set(family, checks)) is not None},
        "ms": ms | {"eager_tf32": round(timed["guarded"].baseline_ms, 5)},
    }


def _candidate(number: int, text: str, prepared: Prepared, evaluator: Evaluator) -> Candidate:
    compiled = generate(check(text).program, evaluator.hw.sms)
    backend = "cute" if "cute" in compiled.sources else "cpp"
    return Candidate(
        number, compiled.resolved, compiled.text, class_of(compiled.resolved), backend, compiled.sources,
        *prepared.bind(text), compiled.refused,
    )  # fmt: skip


def _set(family: str, checks: dict[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
    """{error, graph_error, eager_tf32: relative to float64; flag; worst: one element's error over the result's RMS} of
    a family, None if nothing could be compared. An element that is NaN or Inf on one side only fails the validation:
    `unexpected` is 0."""
    guarded, graph = (next((c for c in checks[k] if c["family"] == family), None) for k in ("guarded", "graph"))
    return None if guarded is None or graph is None else {
        "error": guarded["error"], "graph_error": graph["error"], "eager_tf32": guarded["pytorch_error"],
        "worst": guarded["max_error"], "flag": int(bool(guarded.get("tripped"))), "unexpected": 0,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.studies.guarded", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME,..", help="only these programs (see --plan)")
    parser.add_argument("--seconds", type=float, default=300.0, help="start no program after this time (default 300)")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--json", metavar="OUT", type=Path, help="results; continues an earlier file")
    form.add_argument("--plan", action="store_true", help="say what would run and stop")
    args = parser.parse_args(argv)
    asked = [n for n in args.only.split(",") if n]
    unknown = [n for n in asked if n not in NAMES]
    if unknown:
        print(f"error: no program is called {unknown[0]!r}; `--plan` lists the programs", file=sys.stderr)
        return 2
    names = asked or list(NAMES)
    if args.plan:
        builds = sum(len(texts(name)) for name in names)
        print("\n".join([*names, f"{len(names)} programs, {builds} to build, {len(SETS)} sets each"]))
        return 0
    gpu = condition_of()
    if gpu is None:
        print("error: there is no NVIDIA GPU here; `--plan` shows what would run on one", file=sys.stderr)
        return 2
    results = json.loads(args.json.read_text(encoding="utf-8")) if args.json.exists() else {"results": []}
    results = about("python -m engine.bench.studies.guarded --json guard.json", gpu) | {
        "method": METHOD, "results": results["results"],
    }  # fmt: skip

    def done(row: dict[str, Any]) -> None:
        results["results"].append(row)
        print(line(row), flush=True)
        atomic_write.write_results(args.json, results)

    had = {row["program"] for row in results["results"]}
    run([n for n in names if n not in had], registry.get("cuda", local_user=True), args.seconds, done)
    ran = [row for row in results["results"] if row["program"] in names]
    print(f"{sum(not faults(row) for row in ran)} right of {len(ran)} run, {len(names)} asked for", flush=True)
    return 0 if len(ran) == len(names) and not any(map(faults, ran)) else 1


if __name__ == "__main__":
    sys.exit(main())
