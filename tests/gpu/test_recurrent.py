"""Recurrent stages on a real GPU: right in every kind, with clusters of 1 to 16 blocks, and their time a step.

A kernel of clusters that waits for ever would hold the GPU, so each case runs in a process of its own that is ended
after `SECONDS`, and nothing else of a session runs before these have passed:

    timeout 600 python -m pytest -p no:xdist -x -s tests/gpu/test_recurrent.py

`python -m tests.gpu.test_recurrent build FOLDER` builds all libraries without a GPU, a minute on 16 cores; with
UCUTLASS_RECURRENT=FOLDER the tests load them from there. `-s` prints microseconds a step beside PyTorch's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.check.program import check
from dsl.lower.cpp import lower
from dsl.resolve import resolve
from dsl.rules.recurrent import layout as rules
from tests.dsl.recurrent_programs import text

pytestmark = pytest.mark.gpu

SECONDS = 100
WITHIN = {"tf32": 1e-3, "f16": 2e-3, "bf16": 2e-2, "f32": 3e-6}  # of the result's norm
CASES = {  # the smallest first: what hangs shall hang there
    "one block": {"op": "lstm", "hidden": 20, "batch": 3, "steps": 7},
    "two steps of 16 blocks": {"op": "rnn_tanh", "hidden": 256, "batch": 4, "steps": 2},
    "16 blocks of LSTM": {"op": "lstm", "hidden": 256, "batch": 10, "steps": 512, "states": True, "order": "bt"},
    "16 blocks, both directions": {"op": "lstm", "hidden": 256, "batch": 10, "steps": 512, "directions": 2},
    "GRU": {"op": "gru", "hidden": 256, "batch": 10, "steps": 512, "states": True},
    "GRU, both directions": {"op": "gru", "hidden": 256, "batch": 10, "steps": 512, "directions": 2, "states": True},
    "RNN": {"op": "rnn_tanh", "hidden": 256, "batch": 10, "steps": 512},
    "RNN of relu, odd sizes": {"op": "rnn_relu", "hidden": 147, "batch": 9, "steps": 33, "directions": 2},
    "odd sizes": {"op": "gru", "hidden": 133, "batch": 11, "steps": 37, "order": "bt", "directions": 2},
    "weights in shared memory too": {"op": "lstm", "hidden": 512, "batch": 10, "steps": 100},
    "more clusters than run at once": {"op": "lstm", "hidden": 256, "batch": 256, "steps": 64, "directions": 2},
    "f16": {"op": "lstm", "hidden": 256, "batch": 10, "steps": 512, "element": "f16", "weight": "f16"},
    "bf16": {"op": "gru", "hidden": 256, "batch": 32, "steps": 64, "element": "bf16", "weight": "bf16"},
    "f32 on the CUDA cores": {"op": "lstm", "hidden": 256, "batch": 10, "steps": 512, "clauses": "compute f32"},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    """An NVIDIA GPU, seen without a process of ours holding it."""
    listed = (
        shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).stdout
    )
    if not listed or b"GPU" not in listed:
        pytest.skip("needs an NVIDIA GPU")


def source_of(name: str):
    program = resolve(check(text(**CASES[name])).program)
    return program, lower(program)


def build(name: str, folder: Path) -> Path:
    """The case's library, built where it is not there yet."""
    from engine.build import nvcc

    _, source = source_of(name)
    library = folder / f"{source.namespace}.so"
    return library if library.exists() else nvcc.build(source, folder, seconds=400).path


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_and_ends(name, tmp_path):
    folder = Path(os.environ.get("UCUTLASS_RECURRENT") or tmp_path)
    build(name, folder)
    command = [sys.executable, "-m", "tests.gpu.test_recurrent", "run", str(folder), name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    print(ended.stdout, end="")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_layer_with_its_products_is_verified_like_any_program(cuda):
    """The example lstm, by the engine's own evaluator: two products, both directions. Last, for the kernels ended."""
    from dsl.compile import compile as generate
    from engine.devices import Candidate, Problem
    from engine.strategies.planner.lowering import program_graph

    example = (Path(__file__).parents[2] / "dsl/examples/lstm.ucutlass").read_text()
    program = check(example).program
    compiled = generate(program, 132)
    cuda.open(Problem(example, "program", program_graph.graph_of(program), 1), lambda: False)
    try:
        one = Candidate(
            1, compiled.resolved, compiled.text, "tf32", "cpp", compiled.sources,
            *program_graph.bindings(compiled.resolved),
        )  # fmt: skip
        assert cuda.build(one).how == "machine code"
        right = cuda.validate(one)
        print(f"the example: error {right.error:.2g} of {right.tolerance:.2g}")
        assert right.error <= right.tolerance
    finally:
        cuda.close()


# ---- the process of one case ----------------------------------------------------------------------------------------


def run(name: str, folder: Path) -> None:
    import torch

    from engine.evaluate.correctness import oracle
    from tests.dsl.lower.cpp.own.test_recurrent import compute_of, expected, inputs_of, module_of

    case = CASES[name]
    program, source = source_of(name)
    space: dict = {}
    exec(source.binding, space)
    call = space["load"](str(build(name, folder)))
    module = module_of(**case)
    tensors = inputs_of(program, module)
    wanted = expected(case, module, tensors)
    inputs = [t.cuda() for t in tensors.values()]
    outputs = [torch.full(t.shape, torch.nan, dtype=oracle.TORCH[t.dtype], device="cuda") for t in program.result_types]
    again = [torch.full_like(o, torch.nan) for o in outputs]
    call(inputs, outputs)
    torch.cuda.synchronize()
    for result, got in zip(program.results, outputs, strict=True):
        off = (got.double().cpu() - wanted[result]).norm() / wanted[result].norm()
        assert off < WITHIN[compute_of(case)], f"{name}: {result} is off by {off}"
    call(inputs, again)
    assert all(torch.equal(a, b) for a, b in zip(outputs, again, strict=True)), f"{name}: two runs differ"
    ours = _ms(torch, lambda: call(inputs, outputs))
    steps = case.get("steps", 5)
    stage = program.stages[0]
    layout = rules.layout_of(stage, {o.name: program.type_of(o.name) for o in stage.operands})
    whole = module.to(torch.float16 if case.get("element") == "f16" else torch.float32).cuda()
    x = inputs[0].to(next(whole.parameters()).dtype)
    theirs = _ms(torch, lambda: whole(x))
    print(
        f"{name}: {1e3 * ours / steps:.2f} us a step ({layout.groups * stage.directions} clusters of {layout.cluster}, "
        f"{layout.waves(stage.directions)} in turn); PyTorch with its product {1e3 * theirs / steps:.2f}"
    )


def _ms(torch, call, repeats: int = 20) -> float:
    """The median of some calls, by events."""
    with torch.no_grad():
        for _ in range(3):
            call()
        times = []
        for _ in range(repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


if __name__ == "__main__":
    if sys.argv[1] == "build":
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(int(os.environ.get("JOBS", "8"))) as pool:
            for built in pool.map(build, CASES, [Path(sys.argv[2])] * len(CASES)):
                print(built, built.stat().st_size)
    else:
        run(sys.argv[3], Path(sys.argv[2]))
