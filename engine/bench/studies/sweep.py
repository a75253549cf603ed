"""Products under many configurations, timed on the GPU: what the attainable model is judged by (`python -m sol sweep`).

    python -m engine.bench.studies.sweep --json sweep.json [--only ID,..] [--configs 48] [--jobs 12] [--seconds 390]
    python -m engine.bench.studies.sweep --plan            # what would run: no GPU, no torch

Of each product, up to `--configs` configurations that the `cute` back end takes are drawn without a look at any model:
half from all of them, half from those with larger tiles, by a hash of the configuration, so that every run draws the
same ones. Kernels are built ahead in processes that see no GPU, then one process verifies and times them in turns with
PyTorch's own product. The file grows product by product; a later call goes on from it. Products marked held out are
those that nobody looked at when the model's constants were set.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

from dsl import ir
from dsl.check.program import check
from dsl.printer import to_text
from dsl.rules import legal
from engine import atomic_write
from engine.build import cute
from engine.build.cache import Cache
from engine.evaluate.timing.gpu_condition import about
from engine.evaluate.timing.gpu_condition import read as condition_of
from engine.jsonprocess import JsonProcess, WorkerLost

SPLITS = (2, 3, 4, 6, 8, 16)
CLUSTERS = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1))
SWIZZLES = (1, 2, 4, 8)
LARGE_COLUMNS = (64, 128, 192, 256)
RECORDED = (
    "products, up to {most} configurations each that the cute back end takes, drawn without a look at the model: half "
    "from all, half from the larger tiles; built ahead, then timed in turns beside PyTorch's own product"
)
METHOD = (
    "CUDA events, L2 flushed, held stream, median of samples spread over rounds; ms, each the median of 9 samples; "
    "error: largest difference from PyTorch over its largest value"
)
CHILD = [sys.executable, "-m", "engine.bench.studies.sweep_child"]


@dataclass(frozen=True)
class Swept:
    """One product. `program` has `backend cute ` where a configuration is written in (sol.model.sweep.program_text)."""

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
    """(clauses, the program with them), at most `most`, in an order that no model knows."""
    checked = check(swept.program)
    if not checked.ok:
        raise ValueError(f"{swept.id}: {checked.diagnostics[0].message}")
    p = checked.program
    (stage,) = p.stages
    problem = legal.program_problem(p, stage)
    shape, depth = problem.shape, 1024 // problem.compute.bits
    found = []
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
                found.append(config)
    found.sort(key=lambda c: _rank(c.tile, c.cluster, c.schedule, c.scheduler.kind) + _rank(c.scheduler.splits))
    area = 128 * 128 if min(shape.m, shape.n) >= 128 else 64 * 64
    large = [c for c in found if c.tile[0] * c.tile[1] >= area and c.tile[1] in LARGE_COLUMNS]
    chosen = list(dict.fromkeys([*large[: most // 2], *found]))[:most]
    return tuple((clauses_of(c), to_text(replace(p, stages=(replace(stage, config=c),)))) for c in chosen)


def kernels(wanted: Sequence[Swept], most: int = 48) -> list[str]:
    """One program a kernel to build: quack's kernels know neither sizes, nor swizzle, nor how often K is split."""
    seen: dict[tuple, str] = {}
    for swept in wanted:
        signature = swept.program.split("(", 1)[1].split("{", 1)
        types = "".join(c for c in signature[0] if not c.isdigit())
        for clauses, program in configurations(swept, most):
            kernel = clauses.split(" swizzle")[0].split("(")[0]
            seen.setdefault((types, signature[1], kernel), program)
    return list(seen.values())


def build(programs: Sequence[str], jobs: int, seconds: float, say: Callable[[str], None]) -> None:
    """Builds in `jobs` processes that see no GPU; what is not done after `seconds` is built when it is timed."""
    began, env = time.monotonic(), {**os.environ, **cute.environment(Cache()), "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "programs.json"
        path.write_text(json.dumps(list(programs)))
        running = [
            subprocess.Popen([*CHILD, "--build", str(path), "--part", f"{i}/{jobs}"],
                             env=env | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
            for i in range(jobs)
        ]  # fmt: skip
        for process in running:
            try:
                process.wait(max(1.0, seconds - (time.monotonic() - began)))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    say(f"{len(programs)} kernels built in {time.monotonic() - began:.0f} s")


def measure(wanted: Sequence[Swept], most: int, out: Path, deadline: float, say: Callable[[str], None]) -> None:
    """Times product after product and writes the file after each. One that ends the process is left out and named."""
    done = json.loads(out.read_text()) if out.exists() else {"problems": []}
    had = {row["id"] for row in done["problems"]}
    worker: JsonProcess | None = None
    env = {**os.environ, **cute.environment(Cache())}
    try:
        for swept in wanted:
            left = deadline - time.monotonic()
            if swept.id in had or left < 8:
                continue
            worker = worker or JsonProcess([*CHILD, "--measure"], env=env, name="sweep")
            asked = {"op": "measure", "program": swept.program, "configs": configurations(swept, most)}
            before = condition_of()
            try:
                row = worker.request(asked, timeout=left)
            except WorkerLost as e:
                worker, row = None, {"error": "lost", "message": str(e)}
            if "error" in row:
                say(f"{swept.id}: {row['error']}: {row['message'][:300]}")
                continue
            done["problems"].append(
                {"id": swept.id, "program": swept.program, "held_out": swept.held_out, "torch_ms": row["torch_ms"],
                 "before": _state(before), "after": _state(condition_of()), "configs": row["configs"]}
            )  # fmt: skip
            done = _about(row["gpu"], len(done["problems"]), most) | {"problems": done["problems"]}
            atomic_write.write_results(out, done)
            best = min((c for c in row["configs"] if "ms" in c), key=lambda c: c["ms"], default={})
            ran = sum("ms" in c for c in row["configs"])
            say(f"{swept.id:16} {ran}/{len(row['configs'])} ran, PyTorch {row['torch_ms']:.4f} ms, "
                f"best {best.get('ms')} ms: {best.get('config')}")  # fmt: skip
    finally:
        if worker is not None:
            worker.close()


def _state(condition: dict | None) -> dict:
    if not condition:
        return {}
    names = {"mhz": "sm_mhz", "celsius": "temperature_c", "watts": "power_w"}
    return {ours: condition[theirs] and round(condition[theirs]) for ours, theirs in names.items()}


def _about(gpu: str, products: int, most: int) -> dict:
    found = about("python -m engine.bench.studies.sweep --json sweep.json", {**(condition_of() or {}), "name": gpu})
    return found | {"recorded": f"{products} {RECORDED.format(most=most)}", "method": METHOD}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.studies.sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="ID,..", help="these products alone (see --plan)")
    parser.add_argument("--configs", type=int, default=48, help="configurations of a product at most (default 48)")
    parser.add_argument("--jobs", type=int, default=12, help="builds at once, 0.7 GB each (default 12)")
    parser.add_argument("--seconds", type=float, default=390.0, help="in all; half of it at most for builds")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--json", metavar="OUT", type=Path, help="results; an earlier file is gone on from")
    form.add_argument("--plan", action="store_true", help="say what would run and stop")
    args = parser.parse_args(argv)
    names = [n for n in args.only.split(",") if n]
    unknown = [n for n in names if n not in {p.id for p in PRODUCTS}]
    if unknown or args.configs < 1 or args.jobs < 1:
        what = f"no product is called {unknown[0]!r}" if unknown else "--configs and --jobs start at 1"
        print(f"error: {what}; `--plan` lists the products", file=sys.stderr)
        return 2
    wanted = [p for p in PRODUCTS if not names or p.id in names]
    if args.plan:
        for p in wanted:
            print(f"{p.id:16} {len(configurations(p, args.configs)):3}{'  held out' if p.held_out else ''}")
        print(f"{len(wanted)} products, {len(kernels(wanted, args.configs))} kernels to build")
        return 0
    if condition_of() is None:
        print("error: there is no NVIDIA GPU here; `--plan` shows what would run on one", file=sys.stderr)
        return 2
    deadline = time.monotonic() + args.seconds
    build(kernels(wanted, args.configs), args.jobs, args.seconds / 2, print)
    measure(wanted, args.configs, args.json, deadline, print)
    return 0


if __name__ == "__main__":
    sys.exit(main())
