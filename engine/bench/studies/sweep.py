"""Time products under many configurations on the GPU, to judge the attainable model (`python -m sol sweep`).

    python -m engine.bench.studies.sweep --json sweep.json [--only ID,..] [--configs 48] [--seconds 390]
    python -m engine.bench.studies.sweep --plan            # what would run: no GPU, no torch

For each product, up to `--configs` configurations that the `cute` back end takes are drawn without regard to any model:
half from all of them, half from those with larger tiles, by a hash of the configuration, so that every run draws the
same ones. The evaluator of every session builds them, compares each with its own ideal in float64 in one round, and
times them in turns with PyTorch's own product, a few at a time. The file grows product by product; a later call
continues it. Products marked held out were not looked at when the model's constants were set.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from dsl import ir
from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from dsl.rules import legal
from engine import atomic_write
from engine.classes import class_of
from engine.devices import Candidate, Problem, SessionRefused, TrialError, registry
from engine.evaluate.evaluator import Evaluator
from engine.evaluate.timing.gpu_condition import about
from engine.evaluate.timing.gpu_condition import read as condition_of
from engine.strategies.planner.lowering import program_graph

SPLITS = (2, 3, 4, 6, 8, 16)
CLUSTERS = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1))
SWIZZLES = (1, 2, 4, 8)
LARGE_COLUMNS = (64, 128, 192, 256)
RECORDED = (
    "products, up to {most} configurations each that the cute back end takes, drawn without a look at the model: half "
    "from all, half from the larger tiles; built ahead, then timed in turns beside PyTorch's own product"
)
METHOD = (
    "CUDA events less their own time, L2 flushed, held stream; ms, each the median of 15 calls in turns with PyTorch's "
    "product and a few other configurations; error: relative to the program's own ideal in float64"
)
AT_ONCE = 6  # configurations timed in one run of turns
ROOM = 24e9  # bytes for their results on the GPU


@dataclass(frozen=True)
class Swept:
    """One product. `program` has `backend cute ` where a configuration is inserted (sol.model.sweep.program_text)."""

    id: str
    program: str
    held_out: bool = False


def _swept(name: str, m: int, n: int, k: int, l: int = 0, *, b: str = "w.T", kind: str = "f16",  # noqa: E741
           out: str = "", gelu: bool = False, held_out: bool = False) -> Swept:  # fmt: skip
    lead = f"{l}, " if l else ""
    w = f"{lead}{n}, {k}" if b == "w.T" else f"{lead}{k}, {n}"
    bias = f", b: {kind}[{n}]" if gelu else ""
    clauses = (f"store {out} " if out else "") + ("epilogue gelu(acc + b[n])" if gelu else "")
    return Swept(
        name,
        f"program p(x: {kind}[{lead}{m}, {k}], w: {kind}[{w}]{bias}) -> {out or kind}[{lead}{m}, {n}] {{\n"
        f"  y = gemm(x, {b}) {{ backend cute {clauses} }}\n  return y\n}}",
        held_out,
    )


PRODUCTS = (
    _swept("square_1024", 1024, 1024, 1024),
    _swept("square_2048", 2048, 2048, 2048),
    _swept("square_2304", 2304, 2304, 2304),
    _swept("square_3000", 3000, 3000, 3000, held_out=True),
    _swept("square_4096", 4096, 4096, 4096),
    _swept("square_8192", 8192, 8192, 8192),
    _swept("wide_1024_8192", 1024, 8192, 8192),
    _swept("suite_2048", 2048, 4096, 8192, held_out=True),
    _swept("small_k_64", 32768, 32768, 64),
    _swept("small_k_1024", 8192, 8192, 1024),
    _swept("large_k_512", 512, 512, 16384, held_out=True),
    _swept("large_k_256", 256, 256, 524288),
    _swept("rows_128", 128, 16384, 16384, held_out=True),
    _swept("rows_64", 64, 8192, 8192),
    _swept("rows_16", 16, 16384, 4096),
    _swept("irregular", 8200, 5920, 2952),
    _swept("tall_32768", 32768, 768, 768, held_out=True),
    _swept("tall_thin", 65536, 64, 1024),
    _swept("k_6144", 1536, 1536, 6144, held_out=True),
    _swept("mid_640", 640, 5120, 5120),
    _swept("batch_128", 512, 2048, 1024, 128),
    _swept("batch_64", 512, 512, 64, 64, held_out=True),
    _swept("gelu_1024", 1024, 8192, 8192, gelu=True),
    _swept("gelu_16384", 16384, 4096, 4096, gelu=True),
    _swept("gelu_mlp_up", 4096, 11008, 4096, gelu=True, held_out=True),
    _swept("gelu_mlp_down", 4096, 4096, 11008, gelu=True),
    _swept("gelu_tall", 16384, 1024, 1024, gelu=True),
    _swept("gelu_rows_256", 256, 4096, 4096, gelu=True, held_out=True),
    _swept("turned_4096", 2048, 4096, 4096, b="w"),
    _swept("turned_long", 1024, 2048, 8192, b="w", held_out=True),
    _swept("bf16_f32", 4096, 8192, 2048, kind="bf16", out="f32"),
)


def _rank(*what: object) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()


def clauses_of(c: ir.Config) -> str:
    way = f"split_k({c.scheduler.splits})" if c.scheduler.kind == "split_k" else c.scheduler.kind
    tile, cluster = ("x".join(map(str, v)) for v in (c.tile, c.cluster))
    return f"tile {tile} cluster {cluster} schedule {c.schedule} scheduler {way} swizzle {c.swizzle}"


@lru_cache(maxsize=64)
def configurations(swept: Swept, most: int = 48) -> tuple[tuple[str, str], ...]:
    """(clauses, the program with them), at most `most`, in an order that is independent of any model."""
    checked = check(swept.program)
    if not checked.ok:
        raise ValueError(f"{swept.id}: {checked.diagnostics[0].message}")
    p = checked.program
    (stage,) = p.stages
    problem = legal.program_problem(p, stage)
    shape, depth = problem.shape, 1024 // problem.compute.bits
    configs = []
    for tile, cluster, schedule in product(legal.tiles(problem.compute), CLUSTERS, ("cooperative", "pingpong")):
        if tile[2] != depth:
            continue
        rows, columns = -(-shape.m // tile[0]), -(-shape.n // tile[1])
        ways = [ir.Scheduler("persistent")]
        if shape.l * rows * columns < 200 and schedule == "cooperative":
            ways += [ir.Scheduler("split_k", n) for n in SPLITS]
        fits = [z for z in SWIZZLES if z <= max(1, min(rows, columns))]
        for way in ways:
            drawn = _rank(swept.program, tile, cluster, schedule, way.kind, way.splits)
            config = replace(stage.config, tile=tile, cluster=cluster, schedule=schedule, scheduler=way,
                             swizzle=fits[int(drawn[:6], 16) % len(fits)])  # fmt: skip
            if not legal.objections(problem, config, "cute"):
                configs.append(config)
    configs.sort(key=lambda c: _rank(c.tile, c.cluster, c.schedule, c.scheduler.kind) + _rank(c.scheduler.splits))
    area = 128 * 128 if min(shape.m, shape.n) >= 128 else 64 * 64
    large = [c for c in configs if c.tile[0] * c.tile[1] >= area and c.tile[1] in LARGE_COLUMNS]
    chosen = list(dict.fromkeys([*large[: most // 2], *configs]))[:most]
    return tuple((clauses_of(c), to_text(replace(p, stages=(replace(stage, config=c),)))) for c in chosen)


def measure(
    wanted: Sequence[Swept], most: int, out: Path, evaluator: Evaluator, deadline: float, say: Callable[[str], None]
) -> None:
    """Time product after product and write the file after each; none starts after the deadline."""
    done = json.loads(out.read_text()) if out.exists() else {"problems": []}
    had = {row["id"] for row in done["problems"]}
    todo = [swept for swept in wanted if swept.id not in had]
    for text in (text for swept in todo for _, text in configurations(swept, most)):
        evaluator.build_ahead(generate(check(text).program, evaluator.hw.sms).sources["cute"])
    for swept in todo:
        if time.monotonic() > deadline:
            return
        before = condition_of()
        try:
            torch_ms, rows = of_product(swept, configurations(swept, most), evaluator)
        except (TrialError, SessionRefused) as e:
            say(f"{swept.id}: {e.reason[:300]}")
            continue
        finally:
            evaluator.close()
        done["problems"].append(
            {"id": swept.id, "program": swept.program, "held_out": swept.held_out, "torch_ms": torch_ms,
             "before": _state(before), "after": _state(condition_of()), "configs": rows}
        )  # fmt: skip
        done = _about(evaluator.describe()["gpu"], len(done["problems"]), most) | {"problems": done["problems"]}
        atomic_write.write_results(out, done)
        best = min((c for c in rows if "ms" in c), key=lambda c: c["ms"], default={})
        ran = sum("ms" in c for c in rows)
        words = f"PyTorch {torch_ms} ms, best {best.get('ms')} ms: {best.get('config')}"
        say(f"{swept.id:16} {ran}/{len(rows)} ran, {words}")


def of_product(
    swept: Swept, configs: Sequence[tuple[str, str]], evaluator: Evaluator
) -> tuple[float | None, list[dict[str, Any]]]:
    """(PyTorch's time in ms, [{config, ms, low, high, error} or {config, why}]) of one product. Raises TrialError,
    SessionRefused."""
    graph = program_graph.graph_of(check(swept.program).program)
    evaluator.open(Problem(swept.program, "program", graph), lambda: False)
    baseline = evaluator.baseline("eager")
    rows: list[dict[str, Any]] = [{"config": clauses} for clauses, _ in configs]
    right: list[tuple[dict[str, Any], Candidate]] = []
    for i, (row, (_, text)) in enumerate(zip(rows, configs, strict=True), 1):
        try:
            candidate = _candidate(i, text, evaluator)
            evaluator.build(candidate)
            row["error"] = float(f"{evaluator.first_round(candidate).error:.2g}")
            right.append((row, candidate))
        except TrialError as e:
            row["why"] = f"{e.code}: {e.reason[:200]}"
    theirs: list[float] = []
    size = sum(graph.tensors[n].bytes for n in graph.outputs)
    many = max(1, min(AT_ONCE, int(ROOM / max(5 * size, 1))))  # a result of each of four sets of inputs, and its own
    for at in range(0, len(right), many):
        some = right[at : at + many]
        try:
            timed = evaluator.compare([c for _, c in some], baseline)
        except TrialError as e:
            for row, _ in some:
                row["why"] = f"{e.code}: {e.reason[:200]}"
            continue
        for (row, _), m in zip(some, timed, strict=True):
            low, high = min(m.time.sample), max(m.time.sample)
            row |= {"ms": round(m.time.ms, 5), "low": round(low, 5), "high": round(high, 5)}
        theirs.append(timed[0].baseline_ms)
    return round(median(theirs), 5) if theirs else None, rows


def _candidate(number: int, text: str, evaluator: Evaluator) -> Candidate:
    compiled = generate(check(text).program, evaluator.hw.sms)
    if "cute" not in compiled.sources:
        raise TrialError("generate", compiled.refused["cute"].code, compiled.refused["cute"].message)
    return Candidate(
        number, compiled.resolved, compiled.text, class_of(compiled.resolved), "cute", compiled.sources,
        *program_graph.bindings(compiled.resolved), compiled.refused,
    )  # fmt: skip


def _state(condition: dict | None) -> dict:
    if not condition:
        return {}
    names = {"mhz": "sm_mhz", "celsius": "temperature_c", "watts": "power_w"}
    return {ours: condition[theirs] and round(condition[theirs]) for ours, theirs in names.items()}


def _about(gpu: str, products: int, most: int) -> dict:
    header = about("python -m engine.bench.studies.sweep --json sweep.json", {**(condition_of() or {}), "name": gpu})
    return header | {"recorded": f"{products} {RECORDED.format(most=most)}", "method": METHOD}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.studies.sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="ID,..", help="only these products (see --plan)")
    parser.add_argument("--configs", type=int, default=48, help="configurations of a product at most (default 48)")
    parser.add_argument("--seconds", type=float, default=390.0, help="start no product after this time (default 390)")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--json", metavar="OUT", type=Path, help="results; continues an earlier file")
    form.add_argument("--plan", action="store_true", help="say what would run and stop")
    args = parser.parse_args(argv)
    names = [n for n in args.only.split(",") if n]
    unknown = [n for n in names if n not in {p.id for p in PRODUCTS}]
    if unknown or args.configs < 1:
        what = f"no product is called {unknown[0]!r}" if unknown else "--configs starts at 1"
        print(f"error: {what}; `--plan` lists the products", file=sys.stderr)
        return 2
    wanted = [p for p in PRODUCTS if not names or p.id in names]
    if args.plan:
        for p in wanted:
            print(f"{p.id:16} {len(configurations(p, args.configs)):3}{'  held out' if p.held_out else ''}")
        print(f"{len(wanted)} products, {sum(len(configurations(p, args.configs)) for p in wanted)} configurations")
        return 0
    if condition_of() is None:
        print("error: there is no NVIDIA GPU here; `--plan` shows what would run on one", file=sys.stderr)
        return 2
    deadline = time.monotonic() + args.seconds
    measure(wanted, args.configs, args.json, registry.get("cuda", local_user=True), deadline, print)
    return 0


if __name__ == "__main__":
    sys.exit(main())
