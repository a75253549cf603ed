"""Check the exported module against the original, with fresh zero-mean inputs, and time both.

    python check.py [--device cuda|cpu] [--seed N] [--json OUT]

The reference is the module in float64 (a module with convolutions: in float32 without TF32, because float64 has no fast
convolution). The results, and what forward leaves in buffers, must be within the tolerance of the precision class. If
PyTorch itself is outside of it, they must be within twice PyTorch's error in that class. With `--device cpu` PyTorch
computes the programs' operations: that checks what is around the programs and nothing of them. Exit status: 0 right, 1
wrong, 2 it cannot run here.
"""

import argparse
import copy
import importlib
import secrets
import sys
import tomllib
import types
from pathlib import Path

import _checks
from _checks import CannotRun

HERE = Path(__file__).resolve().parent


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=None, help="of the inputs (default: fresh)")
    parser.add_argument("--json", metavar="OUT", help="the numbers as JSON")
    return _checks.ended(parser.parse_args(argv), check, lambda report: report["ok"])


def check(args):
    name = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ucutlass"]["package"]
    try:
        package = importlib.import_module(name)
    except ImportError:
        raise CannotRun(f"the package {name} is not installed: pip install --no-deps {HERE}") from None
    torch = _torch(args.device, package, name)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    torch.manual_seed(seed)
    torch.set_grad_enabled(False)
    report = {"package": name, "class": package.CLASS, "seed": seed, "device": args.device, "torch": torch.__version__}
    where = torch.cuda.get_device_name() if args.device == "cuda" else "the CPU, where PyTorch computes the programs"
    report["gpu"] = where if args.device == "cuda" else None
    print(f"{name} on {where}, torch {torch.__version__}, seed {seed}")
    facts = types.SimpleNamespace(FACTS={"class": package.CLASS})
    module = _checks.Original(torch, facts, HERE / "module.py", args.device)
    if package.FIRST_CALL:  # what every call but the first computes
        called(torch, module.model, module)
    module.writes = package.WRITES
    module.run()
    fast = package.optimized(copy.deepcopy(module.model))
    if package.FIRST_CALL:
        called(torch, fast, module)
        fast.load_state_dict(module.model.state_dict())
    inputs, named = values = _checks.mapped(torch, (module.inputs, module.named), lambda x: x.clone())
    outputs = module.results(fast, fast(*inputs, **named), values)
    print(f"right: the module in {module.right_as}; PyTorch's own error in {report['class']}: {module.own_text()}")
    report |= compare(torch, package, module, outputs)
    if report["ok"] and args.device == "cuda":
        report |= _checks.times(torch, lambda: fast(*inputs, **named), module)
    print(_checks.line("all", report) if "ms" in report else line(report), flush=True)
    return report


def called(torch, model, module):
    """One call with copies of the module's inputs."""
    inputs, named = _checks.mapped(torch, (module.inputs, module.named), lambda x: x.clone())
    return model(*inputs, **named)


def compare(torch, package, module, outputs):
    """{ok, error, max_error, unexpected, allowed, against} of the results, what forward writes among them."""
    row = {"against": f"module in {module.right_as}"}
    if [list(x.shape) for x in outputs] != [list(x.shape) for x in module.right]:
        return row | {"ok": False, "why": "the results have other shapes than the module's"}
    error, top, unexpected = _checks.worst(
        [_checks.compare(torch, a, b) for a, b in zip(outputs, module.right, strict=True)]
    )
    allowed = _checks.TOLERANCES[package.CLASS]
    if module.own and not module.own[2]:  # a module can amplify rounding: PyTorch's then does so too
        allowed = tuple(2 * own if own > a else a for a, own in zip(allowed, module.own, strict=False))
    ok = unexpected == 0 and error <= allowed[0] and top <= allowed[1]
    return row | {"ok": ok, "error": error, "max_error": top, "unexpected": unexpected, "allowed": allowed[0]}


def line(report):
    if "error" not in report:
        return f"FAILED  {report['why']}"
    verdict = "right" if report["ok"] else "WRONG"
    return f"{verdict}  error {report['error']:.2e} (allowed {report['allowed']:.2e}) against {report['against']}"


def _torch(device, package, name):
    if device == "cuda":
        facts = importlib.import_module(f"{name}.{package.PROGRAMS[0]}").FACTS if package.PROGRAMS else {"arch": ""}
        return _checks.gpu(facts)
    try:
        import torch
    except ImportError:
        raise CannotRun("PyTorch is not installed (pip install torch)") from None
    return torch


if __name__ == "__main__":
    sys.exit(main())
