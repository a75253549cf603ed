"""The arguments of `python -m engine verify` and `measure`. Imports nothing of the engine, so that `--help` is
quick."""

from __future__ import annotations

import argparse
from collections.abc import Callable

CONTRACT = (
    "A Python candidate defines class ModelNew(nn.Module), built as the module is and with its parameters under the "
    'same names, or def kernel(*inputs, *parameters_and_buffers). CUDA C++ defines extern "C" int run(const Tensor* '
    "in, int inputs, const Tensor* out, int outputs, cudaStream_t stream), the same tensors in that order; struct "
    "Tensor { void* data; int64_t shape[8]; int rank, dtype; } is included for it. While it is timed each call gets "
    "tensors of its own, parameters too."
)
EXIT = "Exit status: 0 the candidate was accepted, 1 it was not, 2 the input was refused or nothing could be judged."
DEVICE = {
    "verify": "cuda or cpu (default: cuda where there is a GPU, else cpu)",
    "measure": "cuda, or for a program modelled:h200, a prediction (default: cuda where there is a GPU, else that)",
}
CLASS = {
    "verify": "the precision class that it declares (default f32)",
    "measure": "the precision class that it declares (default f32; of a program its own)",
}
ABOUT = {
    "verify": "check in the sandbox that a raw kernel is right and does the work itself",
    "measure": "verify one candidate, then time it in alternation with PyTorch",
}


def add(commands: argparse._SubParsersAction, run: Callable[[argparse.Namespace], int]) -> None:
    """Add both commands; `run` gets the arguments, with `command` among them."""
    for name, about in ABOUT.items():
        one = commands.add_parser(name, help=about, description=about, epilog=f"{CONTRACT} {EXIT}")
        program = ", or a .ucutlass program" if name == "measure" else ""
        one.add_argument("file", metavar="FILE", help=f"a .py or .cu candidate{program}")
        one.add_argument("--reference", required=True, metavar="MODULE", help="a module's file, or an example's name")
        one.add_argument("--device", default=None, help=DEVICE[name])
        one.add_argument("--class", dest="cls", choices=("f32", "tf32", "f16", "bf16"), help=CLASS[name])
        one.add_argument("--nondeterministic", action="store_true", help="two runs may differ in their bits (atomics)")
        one.add_argument("--json", metavar="OUT", help="write the result as JSON; - for standard output")
        if name == "measure":
            names = "eager, compile or compile_max, with a class behind it where wanted: eager_tf32; repeatable "
            names += "(default eager; of a program eager in its class)"
            one.add_argument("--baseline", action="append", metavar="NAME", help=names)
        one.set_defaults(run=run, command=name)
