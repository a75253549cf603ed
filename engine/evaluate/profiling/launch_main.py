"""The process that Nsight Compute watches: it runs one program of the language twice, and marks the second run.

    python -m engine.evaluate.profiling.launch_main PROGRAM BACKEND [LIBRARY]

PROGRAM: a file with the text; LIBRARY: of the back end cpp, the built one. A program is data: nothing of it runs here
but the kernels that our back end wrote. Inputs are random, because their values do not change what the kernels do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from dsl import ir
from dsl.check.program import check
from dsl.compile import compile as generate
from engine.build.cute_worker import import_generated
from engine.evaluate.correctness.inputs import torch_dtype


def main(argv: list[str]) -> int:
    text, backend, library = Path(argv[0]).read_text(encoding="utf-8"), argv[1], (argv[2:] or [None])[0]
    program = check(text).program
    properties = torch.cuda.get_device_properties(0)
    source = generate(program, properties.multi_processor_count).sources[backend]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "binding.py"
        path.write_text(source.binding, encoding="utf-8")
        run = import_generated(path).load(library)
        ins = [tensor(program, p) for p in program.params]
        outs = [torch.empty(t.shape, dtype=torch_dtype(t.dtype.value), device="cuda") for t in program.result_types]
        run(ins, outs)  # builds what is built at the first call, and computes what is prepacked
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        run(ins, outs)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
    return 0


def tensor(program: ir.Program, param: ir.Param, device: str = "cuda") -> torch.Tensor:
    """A random value of a parameter; the sizes of a grouped product share its rows equally."""
    dtype, shape = torch_dtype(param.type.dtype.value), param.type.shape
    for stage in program.stages:
        if isinstance(stage, ir.GroupedGemm) and stage.sizes.name == param.name:
            rows, groups = program.type_of(stage.a.name).shape[0], shape[0]
            sizes = [rows // groups + (i < rows % groups) for i in range(groups)]
            return torch.tensor(sizes, dtype=dtype, device=device)
    if not dtype.is_floating_point:
        return torch.randint(-4, 5, shape, dtype=dtype, device=device)
    return torch.randn(shape, device=device).to(dtype)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
