"""The processes of a sweep that import torch: builders that see no GPU, and the one that times (JSON lines over pipes).

python -m engine.bench.studies.sweep_child --build PROGRAMS.json --part I/N
python -m engine.bench.studies.sweep_child --measure
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dsl.check.program import check
from dsl.lower.cute import lower
from dsl.resolve import resolve
from engine import jsonprocess
from engine.build.cute_worker import import_generated
from engine.evaluate.correctness.rounding import TORCH

SMS = 132  # of the H200 and the H100 SXM: what `auto` is resolved for; a swept configuration leaves nothing auto
ROUNDS, SAMPLES = 3, 3
MOST_ERROR = 0.02  # of the largest value: a wrong kernel's time is no time
COMPARED = 1 << 26  # elements; a larger result is compared in part


def module_of(program: str, folder: Path) -> Any:
    """The generated module of a program, imported from a file that must stay (CuTe DSL reads its text again)."""
    text = lower(resolve(check(program).program, SMS)).text
    path = folder / f"sweep_{hashlib.sha256(program.encode()).hexdigest()[:16]}.py"
    path.write_text(text, encoding="utf-8")
    return import_generated(path)


def build(path: Path, part: int, parts: int, folder: Path) -> int:
    """Compiles every `parts`-th program into quack's cache. The number that failed."""
    failed = 0
    for program in json.loads(path.read_text())[part::parts]:
        try:
            module_of(program, folder).build()
        except Exception as e:  # its configuration says so again when it is to be timed
            failed += 1
            print(f"build failed: {type(e).__name__}: {str(e)[:300]}", file=sys.stderr)
    return failed


class Measurer:
    """Every public method is a request by its name."""

    def __init__(self, folder: Path):
        from engine.evaluate.timing.samples import Timer

        self.folder, self.timer = folder, Timer()

    def measure(self, request: dict) -> dict:
        """{gpu, torch_ms, configs: [{config, ms, low, high, error} or {config, why}]} of one product. A CUDA error
        ends the process: nothing that follows one means anything."""
        program = check(request["program"]).program
        inputs = self._inputs(program)
        kind = program.result_types[0]
        out = torch.empty(kind.shape, dtype=TORCH[kind.dtype], device="cuda")
        plain = self._plain(request["program"], inputs)
        reference = plain().float()
        runs = [self._loaded(clauses, text, inputs, out, reference) for clauses, text in request["configs"]]
        del reference
        own: list[float] = []
        for _ in range(ROUNDS):
            self.timer.sample(plain)
            own += [self.timer.sample(plain) for _ in range(SAMPLES - 1)]
            for row, run in runs:
                if run is not None:
                    self.timer.sample(run)
                    row["samples"] += [self.timer.sample(run) for _ in range(SAMPLES)]
        rows = []
        for row, _ in runs:
            taken = sorted(row.pop("samples"))
            if taken:
                row |= {"ms": round(taken[len(taken) // 2], 5), "low": round(taken[0], 5), "high": round(taken[-1], 5)}
            rows.append(row)
        name = torch.cuda.get_device_name()
        torch.cuda.empty_cache()
        return {"gpu": name, "torch_ms": round(sorted(own)[len(own) // 2], 5), "configs": rows}

    @staticmethod
    def _inputs(program: Any) -> list[torch.Tensor]:
        generator = torch.Generator(device="cuda").manual_seed(7)
        return [
            torch.randn(p.type.shape, device="cuda", generator=generator).to(TORCH[p.type.dtype])
            for p in program.params
        ]

    @staticmethod
    def _plain(text: str, inputs: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
        x, w = inputs[:2]
        if "gelu" in text:
            return lambda: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, inputs[2]))
        turned = w.transpose(-1, -2) if "w.T" in text else w
        return lambda: torch.matmul(x, turned)

    def _loaded(
        self, clauses: str, text: str, inputs: list[torch.Tensor], out: torch.Tensor, reference: torch.Tensor
    ) -> tuple[dict, Callable[[], object] | None]:
        """A configuration that gave the right result once, or its row with the reason why it did not."""
        row: dict[str, Any] = {"config": clauses, "samples": []}
        try:
            run = module_of(text, self.folder).load()
            out.fill_(float("nan"))
            run(inputs, [out])
            torch.cuda.synchronize()
        except torch.AcceleratorError:
            raise SystemExit(3) from None
        except Exception as e:
            return row | {"why": f"{type(e).__name__}: {str(e)[:200]}"}, None
        got, right = (t.flatten()[:COMPARED].split(1 << 24) for t in (out, reference))
        worst = max((a.float() - b).abs().max().item() for a, b in zip(got, right, strict=True))
        scale = reference.abs().max().item()
        if not worst <= MOST_ERROR * scale:
            return row | {"why": f"wrong result: error {worst / scale:.3g}"}, None
        return row | {"error": float(f"{worst / scale:.2g}")}, lambda: run(inputs, [out])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.studies.sweep_child")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--measure", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        if args.measure:
            measurer = Measurer(Path(folder))
            jsonprocess.serve({"measure": measurer.measure})
            return 0
        part, parts = map(int, args.part.split("/"))
        return int(build(args.build, part, parts, Path(folder)) > 0)


if __name__ == "__main__":
    sys.exit(main())
