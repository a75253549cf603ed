"""Check the installed program against the original module, with fresh zero-mean inputs, and time both.

    python check.py [--backend cute|cpp] [--seed N] [--json OUT]

The reference is the module in float64 (a module with convolutions: in float32 without TF32, because float64 has no fast
convolution). The result must be within the tolerance of its precision class. If PyTorch itself is outside of it, the
result must be within twice PyTorch's error in that class. Exit status: 0 right, 1 wrong, 2 it cannot run here.
"""

import argparse
import contextlib
import copy
import dataclasses
import importlib
import inspect
import json
import keyword
import re
import secrets
import statistics
import sys
import tomllib
from operator import attrgetter
from pathlib import Path

HERE = Path(__file__).resolve().parent
# error = ||out - ref|| / ||ref||, max_error = max |out - ref| / rms(ref): 4 unit roundoffs, and 12 times that.
UNIT = {"tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-3, "i8": 2.0**-8, "f32": 1e-5 / 4}
TOLERANCES = {cls: (4 * u, 48 * u) for cls, u in UNIT.items()}
CHUNK = 1 << 26  # elements compared at a time
HOLD_CYCLES = 3_000_000  # every launch is queued before the first event
WARM_UP, PAIRS = 2, 11


class CannotRun(Exception):
    """The check cannot run on this machine; the message says what is missing."""


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("cute", "cpp"), help="check only this one (default: each in the package)")
    parser.add_argument("--seed", type=int, default=None, help="of the inputs (default: fresh)")
    parser.add_argument("--json", metavar="OUT", help="the numbers as JSON")
    return ended(parser.parse_args(argv), check, all_right)


def all_right(report):
    return bool(report["backends"]) and all(row["ok"] for row in report["backends"].values())


def ended(args, check, is_right):
    """The exit status of `check(args)`, whose report it writes."""
    try:
        report = check(args)
    except CannotRun as e:
        print(f"cannot run: {e}", file=sys.stderr)
        return 2
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    right = is_right(report)
    print("right" if right else "WRONG")
    return 0 if right else 1


def check(args):
    name = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ucutlass"]["package"]
    try:
        program = importlib.import_module(name)
    except ImportError:
        raise CannotRun(f"the package {name} is not installed: pip install --no-deps {HERE}") from None
    torch = gpu(program.FACTS)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    torch.manual_seed(seed)
    torch.set_grad_enabled(False)
    backends = [args.backend] if args.backend else list(program.BACKENDS)
    report = {"program": program.FACTS["program"], "class": program.FACTS["class"], "seed": seed, "backends": {}}
    report |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(f"{report['program']} on {report['gpu']}, torch {report['torch']}, seed {seed}")
    region = program.FACTS.get("region")
    has_module = (HERE / "module.py").exists() and not region
    module = Original(torch, program, HERE / "module.py") if has_module else None
    if region:
        report["region"] = region
        which = f"region {region['number']}" if region["number"] else "one"
        print(f"this program is {which} of the {region['of']} regions of the module and computes that part alone")
    if module is None:
        what = "the module's result is not this part's" if region else "no module came with this program"
        print(f"{what}: its back ends are compared with each other, and each with itself")
        inputs = [fresh(torch, shape, program.torch_dtype(t)) for _, shape, t in program.PARAMETERS]
    else:
        module.run()
        inputs = module.bind()
        print(f"right: the module in {module.right_as}; PyTorch's own error in {report['class']}: {module.own_text()}")
    first = None
    for backend in backends:
        row = report["backends"][backend] = one(torch, program, backend, inputs, module, first)
        first = first or row.pop("outputs", None)
        row.pop("outputs", None)
        print(line(backend, row), flush=True)
    return report


def gpu(facts):
    """torch, if a GPU can run this program. Raises CannotRun otherwise."""
    try:
        import torch
    except ImportError:
        raise CannotRun("PyTorch is not installed (pip install torch), and this check needs an NVIDIA GPU") from None
    need = facts["arch"]
    if not torch.cuda.is_available():
        raise CannotRun(f"this check needs an NVIDIA GPU ({need}), and PyTorch sees none on this machine")
    have = "sm_{}{}".format(*torch.cuda.get_device_capability())
    if need.endswith("a") and have != need[:-1]:
        raise CannotRun(f"the program is compiled for {need}; {torch.cuda.get_device_name()} is {have}")
    return torch


def fresh(torch, shape, dtype, like=None, device="cuda"):
    """Zero-mean values: normal, or small integers. `like`: a tensor whose values are used if they are indices."""
    if dtype is torch.int8:
        return torch.randint(-3, 4, shape, dtype=dtype, device=device)
    if not dtype.is_floating_point:
        if like is None:
            raise CannotRun("an integer parameter (sizes of groups) has no fresh values without the module")
        return like.to(device)
    return torch.randn(shape, device=device).to(dtype)


class Original:
    """The module with its inputs; after `run` also what is right, and PyTorch's own error in the program's class."""

    def __init__(self, torch, program, path, device="cuda"):
        self.torch, self.program, self.device = torch, program, device
        names = {"__name__": "module"}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
        kinds = [c for c in names.values() if isinstance(c, type) and issubclass(c, torch.nn.Module)]
        cls = names.get("Model") or next(c for c in kinds if c.__module__ == "module")
        source = names.get("get_inputs") or names.get("inputs", names.get("example_inputs"))
        with torch.device(device):
            init, named = arguments(cls, names["get_init_inputs"]() if "get_init_inputs" in names else [], ())
            self.model = cls(*init, **named).to(device)
            self.model.eval()
            for module in self.model.modules():  # as under torch.compile, which returns no zeros for padded tokens
                if isinstance(module, torch.nn.TransformerEncoder):
                    module.use_nested_tensor = False
            values = arguments(cls.forward, source() if callable(source) else source, (None,))
            self.inputs, self.named = mapped(torch, values, lambda x: x.to(device))
            if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in self.model.parameters()):
                self.model(*self.inputs, **self.named)  # lazy layers get their sizes
        self.writes = ()  # paths of buffers that forward writes, and places of inputs among its tensors
        self.forward = list(inspect.signature(cls.forward).parameters)[1:]

    def run(self):
        """Draw the inputs anew and run the module on them."""
        torch = self.torch
        self.vary()
        self.inputs, self.named = mapped(
            torch, (self.inputs, self.named), lambda x: fresh(torch, x.shape, x.dtype, x, x.device)
        )
        convolves = any(isinstance(m, torch.nn.modules.conv._ConvNd) for m in self.model.modules())
        self.right_as = "float32" if convolves else "float64"
        self.right = self.called(torch.float64 if not convolves else None, tf32=False)
        self.own = self.own_error()

    def vary(self):
        """Parameters that begin as all ones or all zeros would hide mistakes: they are drawn anew."""
        torch = self.torch
        for t in (*self.model.parameters(), *self.model.buffers()):
            if t.is_floating_point() and t.numel() > 1 and bool((t == t.flatten()[0]).all()):
                one = float(t.flatten()[0]) == 1.0
                t.data.copy_(torch.rand_like(t) + 0.5 if one else torch.randn_like(t) * 0.5)

    def called(self, dtype=None, tf32=True):
        """The module's results as a list; in `dtype` where one is given."""
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        model, values = self.model, (self.inputs, self.named)
        if self.writes:
            model, values = copy.deepcopy((model, values))
        if dtype is not None:
            model = copy.deepcopy(model).to(dtype)
            values = mapped(torch, values, lambda x: x.to(dtype) if x.is_floating_point() else x)
        with torch.device(self.device):  # as in a session: a tensor that forward makes is made there
            out = model(*values[0], **values[1])
        return self.results(model, out, values)

    def results(self, model, out, inputs):
        """The tensors that a call returned, then those that it wrote."""
        tensors = leaves(self.torch, inputs)
        written = [tensors[w] if isinstance(w, int) else attrgetter(w)(model) for w in self.writes]
        return [*leaves(self.torch, out), *written]

    def own_error(self):
        """(error, max_error) of PyTorch in the class, or None where PyTorch has no such class."""
        torch = self.torch
        dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": None}.get(self.program.FACTS["class"], "none")
        if dtype == "none":
            return None
        return worst([compare(torch, a, b) for a, b in zip(self.called(dtype), self.right, strict=True)])

    def own_text(self):
        return f"{self.own[0]:.2e}" if self.own else "not measured"

    def bind(self):
        """The program's inputs: the module's tensors, seen in the program's shapes and element types."""
        torch, facts = self.torch, self.program.FACTS
        bound = []
        for (name, shape, dtype), (_, x) in zip(self.program.PARAMETERS, self.sources(), strict=True):
            x = x.transpose(-2, -1) if name in facts.get("swapped", ()) else x
            if x.numel() != torch.Size(shape).numel():
                raise CannotRun(f"`{name}` is {list(shape)} in the program and {list(x.shape)} in the module")
            bound.append(x.reshape(shape).to(self.program.torch_dtype(dtype)).contiguous())
        return bound

    def sources(self):
        """(name, tensor) of the module for each of the program's parameters: as facts.json says, else by the name."""
        facts = self.program.FACTS
        tensors = leaves(self.torch, (self.inputs, self.named))
        values = {**dict(zip(self.forward, self.inputs, strict=False)), **self.named}
        state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        values |= {path: t.detach() for path, t in state.items()}
        names = {plain(path): path for path in reversed(values)}
        for name, _, _ in self.program.PARAMETERS:
            place = facts.get("inputs", {}).get(name)
            if place is not None and place < len(tensors):
                yield next((n for n, x in values.items() if x is tensors[place]), f"input {place + 1}"), tensors[place]
                continue
            path = facts["tensors"].get(name) or names.get(name) or names.get(re.sub(r"_\d+$", "", name))
            if path not in values:
                raise CannotRun(
                    f"the module has no tensor for `{name}`; it has {', '.join(values)}. Name it in facts.json"
                )
            yield path, values[path]


def arguments(function, value, first):
    """(positional, named) arguments of a call from what get_inputs or get_init_inputs gives, by the rules of a session:
    a list, one value, names, or a list of positional ones beside names. `function` takes `first` before them."""
    if isinstance(value, dict):
        bound = inspect.signature(function).bind(*first, **value)
        return list(bound.args[len(first) :]), bound.kwargs
    if not isinstance(value, list | tuple):
        return [value], {}
    if len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], dict):
        with contextlib.suppress(TypeError):
            inspect.signature(function).bind(*first, *value[0], **value[1])
            return list(value[0]), value[1]
    return list(value), {}


def mapped(torch, value, change):
    """A value with every tensor in it changed."""
    if torch.is_tensor(value):
        return change(value)
    if isinstance(value, dict):
        return {name: mapped(torch, one, change) for name, one in value.items()}
    if isinstance(value, list | tuple):
        parts = [mapped(torch, one, change) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(value, field.name, mapped(torch, getattr(value, field.name), change))
    return value


def leaves(torch, value):
    """The tensors of a value, which may be nested; what else a module returns is the same in every call."""
    tensors = []
    mapped(torch, value, lambda x: tensors.append(x) or x)
    return tensors


def plain(path):
    """A tensor's path as the programs spell it: `proj.Weight` -> `proj_weight`, `0.bias` -> `t_0_bias`."""
    name = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_").lower()[:48]
    return f"t_{name}" if name[:1].isdigit() or keyword.iskeyword(name) else name


def compare(torch, out, right):
    """(error, max_error, unexpected) a piece at a time, so that large results need little memory."""
    squares = total = top = 0.0
    unexpected = 0
    for x, y in zip(out.reshape(-1).split(CHUNK), right.reshape(-1).split(CHUNK), strict=True):
        x, y = x.double(), y.double()
        good = torch.isfinite(x) & torch.isfinite(y)
        unexpected += int((torch.isfinite(x) != torch.isfinite(y)).sum())
        d = torch.where(good, x - y, 0.0)
        squares, total = squares + float(d.square().sum()), total + float(torch.where(good, y, 0.0).square().sum())
        top = max(top, float(d.abs().max()))
    scale = total**0.5 or 1.0
    return squares**0.5 / scale, top / (scale / right.numel() ** 0.5), unexpected


def worst(rows):
    return tuple(max(row[i] for row in rows) for i in range(3))


def one(torch, program, backend, inputs, module, others):
    """One back end: whether it is right, its error and its time."""
    try:
        call = program.load(backend)
        results = [torch.full(s, 77, device="cuda").to(program.torch_dtype(t)) for _, s, t in program.RESULTS]
        for out in results:
            if out.is_floating_point() and out.element_size() > 1:
                out.fill_(float("nan"))  # what is not written shows
        call(inputs, results)
        torch.cuda.synchronize()
        first = [x.clone() for x in results]
        call(inputs, results)
        torch.cuda.synchronize()
    except Exception as e:
        return {"ok": False, "why": f"{type(e).__name__}: {e}"[:1500]}
    twice = zip(first, results, strict=True)
    row = {"repeats": all(torch.equal(bits(torch, a), bits(torch, b)) for a, b in twice)}
    right = module.right if module else others or first
    row["against"] = f"module in {module.right_as}" if module else "another back end" if others else "itself"
    if [x.numel() for x in first] != [x.numel() for x in right]:
        return row | {"ok": False, "why": "the results have other sizes than the module's"}
    error, top, unexpected = worst([compare(torch, a, b) for a, b in zip(first, right, strict=True)])
    allowed = TOLERANCES[program.FACTS["class"]]
    if module and module.own and not module.own[2]:  # a module can amplify rounding: PyTorch's then does so too
        allowed = tuple(2 * own if own > a else a for a, own in zip(allowed, module.own, strict=False))
    row |= {"error": error, "max_error": top, "unexpected": unexpected, "allowed": allowed[0], "outputs": first}
    row["ok"] = unexpected == 0 and error <= allowed[0] and top <= allowed[1]
    return row | times(torch, lambda: call(inputs, results), module)


def bits(torch, x):
    return x.reshape(-1).view(torch.uint8)


def times(torch, call, module):
    """Device time with a cold L2, in alternation with the module as it is (TF32 allowed)."""
    flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(f):
        flush.fill_(1)
        torch.cuda._sleep(HOLD_CYCLES)
        start.record()
        f()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    for _ in range(WARM_UP):
        sample(call)
        if module:
            sample(module.called)
    pairs = [(sample(module.called) if module else 0.0, sample(call)) for _ in range(PAIRS)]
    row = {"ms": statistics.median(b for _, b in pairs)}
    if module:
        row |= {
            "module_ms": statistics.median(a for a, _ in pairs),
            "ratio": statistics.median(a / b for a, b in pairs),
        }
    return row


def line(backend, row):
    if "error" not in row:
        return f"{backend:5} FAILED  {row['why']}"
    text = f"{backend:5} {'right ' if row['ok'] else 'WRONG '} error {row['error']:.2e} (allowed {row['allowed']:.2e})"
    text += f" against {row['against']}, worst element {row['max_error']:.2e}, {row['ms']:.4f} ms"
    if row["unexpected"]:
        text += f", {row['unexpected']} elements NaN or Inf"
    if "ratio" in row:
        text += f", the module {row['module_ms']:.4f} ms: {row['ratio']:.2f} times as fast"
    return text


if __name__ == "__main__":
    sys.exit(main())
