"""Every kind of gated kernel on the GPU of this machine, with the guard's flag set and not set, bit for bit.

    timeout 400 python -m tests.gpu.gated_kernels [--only NAME,..]    # a kernel that waits for ever ends with the clock

Run this first on a GPU: a gate that some warps or blocks of a kernel pass and others do not makes it wait for ever. The
line `begin NAME` stands before each program, so the last one names what hung. Results of a guarded program must have
the bits of the same program in f16 without a guard where it does not trip, and those of the tf32 program that its
rescue is where it does. Calls follow each other without a wait, tripped and not in turns, so that grids that begin
early (PDL) meet the flag of the call before. Inputs trip at their first element, where the blocks of a cast leave, or
at the last one alone, when the others have done all of theirs. Each row is one line of JSON, with the times of a call.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

IDLE, FIRST, LAST = "idle", "tripped", "tripped by the last element"
TURNS = (IDLE, FIRST, IDLE, LAST, FIRST, IDLE, IDLE, LAST, LAST, IDLE, FIRST)
ROUNDS = 6  # of these turns
HUGE = 1e6  # times ordinary inputs trips the guard
IN_F32 = 1e-5  # bound of the error of a rescue on the CUDA cores


def rows(name: str, text: str, folder: Path) -> dict:
    """{name, wrong: sentences, ms: of an idle guard, tripped ones, and the tf32 program}."""
    import torch

    from dsl.check.program import check
    from dsl.guard import rescue
    from dsl.lower.plan.rescue import chosen, on_tensor_cores
    from dsl.resolve import resolve
    from engine.evaluate.correctness import oracle

    program = resolve(check(text).program)
    again = chosen(program)
    wide = any(map(on_tensor_cores, again.stages))
    generator = torch.Generator(device="cuda").manual_seed(7)
    own = [torch.randn(p.type.shape, generator=generator, device="cuda") for p in program.params]
    last = own[0].clone()
    last.view(-1)[-1] = HUGE
    sets = {IDLE: own, FIRST: [own[0] * HUGE, *own[1:]], LAST: [last, *own[1:]]}
    shapes = [t.shape for t in program.result_types]

    def results() -> list:
        return [torch.full(shape, float("nan"), device="cuda") for shape in shapes]

    run = _loaded(program, folder / "guarded.py")
    expected = {which: results() for which in sets}
    _loaded(replace(program, guard=False), folder / "half.py")(sets[IDLE], expected[IDLE])
    plain = _loaded(resolve(again), folder / "wide.py") if wide else None
    for which in (FIRST, LAST):
        if plain:
            plain(sets[which], expected[which])
        else:
            want = oracle.run(rescue(program), [x.cpu() for x in sets[which]])
            expected[which] = [x.cuda() for x in want]
    wrong = []
    inputs, outputs = [x.clone() for x in own], results()
    for which in sets:  # compiled, and one at a time
        print(f"  {name}: {which}", flush=True)
        _set(inputs, sets[which], outputs)
        run(inputs, outputs)
        torch.cuda.synchronize()
        if run.tripped() is (which == IDLE):
            wrong.append(f"tripped() is {run.tripped()} for inputs {which}")
        if not _agree(outputs, expected[which], bits=wide or which == IDLE):
            wrong.append(f"another result for inputs {which}")
    differ = torch.zeros((), dtype=torch.int64, device="cuda")
    for which in TURNS * ROUNDS:  # one after the other without a wait of the host
        _set(inputs, sets[which], outputs)
        run(inputs, outputs)
        if wide or which == IDLE:
            differ += sum((_bits(o) != _bits(e)).any() for o, e in zip(outputs, expected[which], strict=True))
    if differ.item():
        wrong.append(f"another result in {differ.item()} of {len(TURNS) * ROUNDS} calls that follow each other")
    ms = {}
    for which in sets:
        _set(inputs, sets[which], outputs)
        ms[which] = _ms(lambda: run(inputs, outputs))
        if plain and which != IDLE:
            tf32 = _ms(lambda: plain(inputs, outputs))
            ms[f"{which}, of tf32's"] = round(ms[which] / tf32, 3)
    return {"name": name, "wrong": wrong, "ms": ms}


def _loaded(program, path: Path) -> Callable:
    from dsl.lower.cute import lower
    from engine.build.cute_worker import import_generated

    path.write_text(lower(program).text)
    return import_generated(path).load()


def _set(inputs: list, values: list, outputs: list) -> None:
    """New values in the same memory, which a CUDA graph reads, and poison in the results."""
    for x, value in zip(inputs, values, strict=True):
        x.copy_(value)
    for y in outputs:
        y.fill_(float("nan"))


def _bits(x):
    import torch

    return x.view(torch.int32)


def _agree(have: list, want: list, bits: bool) -> bool:
    if bits:
        return all(bool((_bits(h) == _bits(w)).all()) for h, w in zip(have, want, strict=True))
    return all(float((h - w).norm()) <= IN_F32 * float(w.norm()) for h, w in zip(have, want, strict=True))


def _ms(call: Callable, calls: int = 20) -> float:
    import torch

    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    first.record()
    for _ in range(calls):
        call()
    last.record()
    torch.cuda.synchronize()
    return round(first.elapsed_time(last) / calls, 4)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.gated_kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME,..", help="only these programs")
    args = parser.parse_args(argv)
    from engine.build.cache import Cache
    from engine.build.cute import environment
    from tests.dsl.lower.cute.gated import texts

    asked = [n for n in args.only.split(",") if n]  # a name with a comma goes by its first part
    programs = {n: t for n, t in texts().items() if not asked or any(n.startswith(one) for one in asked)}
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(environment(Cache(Path(scratch) / "cache")))
        for number, (name, text) in enumerate(programs.items()):
            print(f"begin {name}", flush=True)
            folder = Path(scratch) / f"program{number}"
            folder.mkdir()
            row = rows(name, text, folder)
            wrong += bool(row["wrong"])
            print(json.dumps(row), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
