"""Write the forward of a composed module as Python: its programs, and the PyTorch operations between them.

    text, names = Writer(whole, programs, direct=True).forward()

`whole` is composition.json. With `direct` the text launches the programs itself, for plain CUDA tensors; otherwise it
calls their operators, which torch.compile, torch.export, fake and CPU tensors need.
"""

import contextlib
import functools

import torch

from . import _aten
from ._fused import Later

_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_HALF = {"f16": "torch.float16", "bf16": "torch.bfloat16"}
_SIZED = ("view", "reshape", "_unsafe_view")  # tracing drops the copy that made a view possible
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "einsum", "conv", "bilinear", "attention", "lstm",
             "gru", "rnn")  # fmt: skip


def dtype_of(name):
    """The torch dtype of an element type."""
    return getattr(torch, _DTYPES[name])


class Program:
    """A program of the package. `load()` gives its `run(inputs, outputs)`, `operator` its operator (_operators.py)."""

    def __init__(self, load, operator=None):
        self.load, self.operator = load, operator


class Writer:
    """`whole`: the composition; `programs`: name -> Program."""

    def __init__(self, whole, programs, direct=False):
        self.whole, self.programs, self.direct = whole, programs, direct
        self.tensors = whole["tensors"]
        self.lines, self.names, self.depth = [], {"torch": torch, "empty": torch.empty, "state": state, "flat": flat}, 1
        self.known, self.dense = set(), set()  # tensors with a variable; those that a program wrote
        self.loose = set()  # what PyTorch made under autocast, perhaps in another type
        self.alias = {}  # tensor -> the tensors of the module whose memory it may share
        self.casts, self.beside = _HALF.get(whole["rest"]), False

    # ---- whole functions ----

    def forward(self):
        """(text, names) of `forward(self, *tensors)`, which returns a tuple of the module's results."""
        whole = self.whole
        for name in whole["inputs"]:
            self.known.add(name)
            self._checked(name)
        steps = whole["steps"] if self.direct else [one for step in whole["steps"] for one in step.get("fused", [step])]
        last = self._last_reads(steps)
        tf32 = self.direct and whole["rest"] == "tf32" and any(self._multiplies(s) for s in steps)
        if tf32:
            self._line("before = tf32_on()")
            self._line("try:")
            self.depth += 1
            self.names |= {"tf32_on": _tf32_on, "tf32_off": _tf32_off}
        for at, step in enumerate(steps):
            self._step(step)
            done = [self._v(n) for n in last[at]]
            if done:
                self._line(f"del {', '.join(done)}")
        if tf32:
            self.depth -= 1
            self._line("finally:")
            self._line("    tf32_off(before)")
        self._finish()
        return self._text(["self", *map(self._v, whole["inputs"])])

    def reference(self, step):
        """(text, names) of a program's meaning: a function of its inputs that returns a tuple, computed by PyTorch.
        None if the program reads less than its operations do."""
        inputs = [f"x{i}" for i in range(len(step["reads"]))]
        for x, (name, _, transposed, _) in zip(inputs, step["reads"], strict=True):
            own = list(self.tensors[name]["shape"])
            swapped = [*own[:-2], own[-1], own[-2]] if transposed else own
            back = f"{x}.reshape({swapped})" + (".transpose(-2, -1)" if transposed else "")
            self._line(f"{self._v(name)} = {back}.to({self._dtype(self.tensors[name]['dtype'])})")
            self.known.add(name)
        makes = {n for op in step["ops"] for n in op["makes"]}
        if not {n for op in step["ops"] for n in op["reads"]} <= makes | self.known:
            return None
        for op in step["ops"]:
            self._operation(op)
        results = [
            f"{self._v(name)}.reshape({list(shape)}).to({self._dtype(dtype)}).contiguous()"
            for name, shape, dtype in step["makes"]
        ]
        self._line(f"return ({', '.join(results)},)")
        return self._text(inputs)

    def state(self):
        """(text, names) of a function of the module: the list of its own tensors that forward reads."""
        own = [t for t in self.tensors.values() if t["kind"] not in ("intermediate", "input")]
        self._line(f"return [{', '.join(map(self._place, own))}]")
        return self._text(["self"])

    # ---- steps ----

    def _step(self, step):
        for name in self._reads(step):
            self._load(name)
        if "program" in step:
            self._program(step)
        elif "fused" in step:
            self._fused(step)
        else:
            self._operation(step)

    def _program(self, step):
        program, inputs = step["program"], []
        for read in step["reads"]:
            inputs.append(self._bound(*read))
        outputs = [self._v(name) for name, _, _ in step["makes"]]
        if self.direct:
            for out, (_, shape, dtype) in zip(outputs, step["makes"], strict=True):
                like = f"dtype={self._dtype(dtype)}, device=device"
                self._line(f"{out} = empty({self._constant(tuple(shape))}, {like})")
            self.names[f"run_{program}"] = self.programs[program].load()
            self._line(f"run_{program}([{', '.join(inputs)}], [{', '.join(outputs)}])")
        else:
            self.names[program] = self.programs[program].operator
            self._line(f"{', '.join(outputs)} = {program}([{', '.join(inputs)}])")
        for out, (name, shape, dtype) in zip(outputs, step["makes"], strict=True):
            own = self.tensors[name]
            if list(own["shape"]) != list(shape):
                self._line(f"{out} = {out}.view({own['shape']})")
            if own["dtype"] != dtype:
                self._line(f"{out} = {out}.to({self._dtype(own['dtype'])})")
            self.known.add(name)
            self.dense.add(name)

    def _bound(self, name, shape, transposed, dtype):
        """The expression of a tensor as a program reads it."""
        tensor, x = self.tensors[name], self._v(name)
        if transposed:
            x += ".transpose(-2, -1)"
        own = list(tensor["shape"])
        if transposed or own != list(shape):
            x += f".reshape({list(shape)})"
        if tensor["dtype"] == "bool":
            x += f".to({self._dtype('bool')}).view({self._dtype(dtype)})"  # the bytes 1 and 0
        elif name in self.loose or tensor["dtype"] != dtype:
            x += f".to({self._dtype(dtype)})"
        x += "" if name in self.dense else ".contiguous()"
        constant = tensor["kind"] not in ("intermediate", "input") and name not in dict(self.whole["written"])
        if not self.direct or not constant or x == f"{self._v(name)}.contiguous()":
            return x
        # A view that is the same object at every call keeps what a program packed from it.
        key = f"bind_{len(self.names)}"
        names = dict(self.names)
        exec(f"def bind({self._v(name)}):\n    return {x}", names)
        self.names[key] = names["bind"]
        return f"bound(self, {key!r}, {self._v(name)}, {key})"

    def _operation(self, step):
        reads, makes = [self._v(n) for n in step["reads"]], [self._v(n) for n in step["makes"]]
        for name in step["makes"]:
            self.known.add(name)
        if step["op"] in _SIZED:
            self._line(f"{makes[0]} = {reads[0]}.reshape({self.tensors[step['makes'][0]]['shape']})")
            self._aliases(step, True)
            return
        call = _aten.find(step["op"], len(reads), step["attrs"], _DEVICE, dtype_of)
        if call is None:
            raise RuntimeError(f"PyTorch {torch.__version__} has no aten.{step['op']} that takes {step['attrs']}")
        arguments = [self._argument(how, reads) for how in call.ordered]
        arguments += [f"{name}={self._argument(how, reads)}" for name, how in call.named]
        schema = call.overload._schema
        operation = f"{schema.name.replace('::', '_')}_{schema.overload_name or 'default'}"
        self.names[operation] = call.overload
        text, returns = f"{operation}({', '.join(arguments)})", schema.returns
        single = len(returns) == 1 and str(returns[0].type) == "Tensor"
        target = makes[0] if single else f"{', '.join(makes)}, *_"
        if self.casts:
            self.names["casting"] = _casting
            self._line(f"with casting(device, {self.casts}):")
        self._line(f"{'    ' if self.casts else ''}{target} = {text if single else f'flat({text})'}")
        self._aliases(step, any(r.alias_info is not None for r in returns))
        if self.casts:
            self.loose.update(step["makes"])

    def _fused(self, step):
        key, makes = f"fused_{len(self.names)}", step["makes"]
        shapes = {n: self.tensors[n]["shape"] for op in step["fused"] if op["op"] in _SIZED for n in op["makes"]}
        casting = functools.partial(_casting, dtype=getattr(torch, self.casts[6:])) if self.casts else None
        self.names[key] = Later(step, shapes, _SIZED, dtype_of, casting)
        self._line(f"# {', '.join(op['op'] for op in step['fused'])}")
        self._line(f"{', '.join(map(self._v, makes))}, = {key}([{', '.join(map(self._v, step['reads']))}])")
        self.known.update(makes)
        self._aliases(step, True)
        if self.casts:
            self.loose.update(makes)

    def _argument(self, how, reads):
        if isinstance(how, _aten.Several):
            return f"[{', '.join('None' if i is None else reads[i] for i in how)}]"
        if not isinstance(how, _aten.Given):
            return f"{reads[how]}.cpu()" if isinstance(how, _aten.OnHost) else reads[how]
        return "device" if how.value is _DEVICE else self._constant(how.value)

    def _aliases(self, step, views):
        for name in step["makes"] if views else ():
            roots = set()
            for n in step["reads"]:
                roots |= self.alias.get(n, set())
                roots |= set() if self.tensors[n]["kind"] == "intermediate" else {n}
            self.alias[name] = roots

    # ---- the ends ----

    def _finish(self):
        """Copy the new values into what forward writes, and return the results."""
        written = dict(self.whole["written"])
        results = {}
        for name in dict.fromkeys((*self.whole["returned"], *written.values())):
            self._load(name)
            text = self._v(name)
            if name in self.loose:
                text += f".to({self._dtype(self.tensors[name]['dtype'])})"
            roots = self.alias.get(name, set()) | {name}
            if roots & written.keys():  # its memory is about to be written
                text += ".clone()"
            results[name] = text
        if written:
            for name in results:
                if results[name] != self._v(name):
                    self._line(f"{self._v(name)} = {results[name]}")
                    results[name] = self._v(name)
        for old, new in written.items():
            self._load(old)
            self._line(f"{self._v(old)}.copy_({results[new]})")
        self._line(f"return ({', '.join(results[n] for n in self.whole['returned'])},)")

    def _last_reads(self, steps):
        """For each step the intermediate tensors that no later one reads."""
        last_ones = {*self.whole["returned"], *dict(self.whole["written"]).values()}
        last, seen = [[] for _ in steps], set(last_ones)
        for at in reversed(range(len(steps))):
            makes = [m[0] for m in steps[at]["makes"]] if "program" in steps[at] else steps[at]["makes"]
            for name in dict.fromkeys((*self._reads(steps[at]), *makes)):
                if name not in seen and self.tensors[name]["kind"] == "intermediate":
                    last[at].append(name)
                seen.add(name)
        return last

    # ---- words ----

    @staticmethod
    def _reads(step):
        return [r[0] for r in step["reads"]] if "program" in step else step["reads"]

    @staticmethod
    def _multiplies(step):
        return any(word in op.get("op", "") for op in step.get("fused", [step]) for word in _PRODUCTS)

    def _checked(self, name):
        tensor, x = self.tensors[name], self._v(name)
        shape, dtype = self._constant(torch.Size(tensor["shape"])), self._dtype(tensor["dtype"])
        self.names["refuse"] = _refuse
        self._line(f"if {x}.shape != {shape} or {x}.dtype is not {dtype}:")
        self._line(f"    refuse({name!r}, {shape}, {dtype}, {x})")

    def _load(self, name):
        """A variable of one of the module's own tensors, at its first use."""
        if name in self.known:
            return
        self.known.add(name)
        tensor = self.tensors[name]
        self._line(f"{self._v(name)} = {self._place(tensor)}")
        if self.direct and not self.beside:
            self.beside = True  # one look is enough: `.to()` moves all of a module
            self.names["apart"] = _apart
            self._line(f"if {self._v(name)}.device != device:")
            self._line(f"    apart({self._v(name)}.device, device)")

    def _place(self, tensor):
        *owners, last = tensor["path"].split(".")
        table = {"parameter": "_parameters", "buffer": "_buffers"}.get(tensor["kind"])
        if table is None:
            return f"state(self, {tensor['path']!r})"
        if not self.direct:
            owner = "self"
            for part in owners:
                owner = f"{owner}.{part}" if part.isidentifier() else f"getattr({owner}, {part!r})"
            return f"{owner}.{last}" if last.isidentifier() else f"getattr({owner}, {last!r})"
        return "self" + "".join(f"._modules[{part!r}]" for part in owners) + f".{table}[{last!r}]"

    @staticmethod
    def _v(name):
        return f"v_{name}"

    def _dtype(self, name):
        return f"torch.{_DTYPES[name]}"

    def _constant(self, value):
        if value is None or type(value) in (bool, int, str) or (type(value) is float and abs(value) < 1e300):
            return repr(value)
        if type(value) is list and all(type(v) in (bool, int) for v in value):
            return repr(value)
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return str(value)
        key = next((k for k, v in self.names.items() if k[:2] == "c_" and type(v) is type(value) and v == value), None)
        key = key or f"c_{len(self.names)}"
        self.names[key] = value
        return key

    def _line(self, text):
        self.lines.append("    " * self.depth + text)

    def _text(self, arguments):
        head = [f"def forward({', '.join(arguments)}):"]
        first = next((a for a in arguments if a != "self"), None)
        if first and any("device" in line for line in self.lines):
            head.append(f"    device = {first}.device")
        if self.direct:
            self.names["bound"] = bound
        return "\n".join([*head, *self.lines]) + "\n", self.names


_DEVICE = object()


def function(text, names, where):
    """The function of a text, with its lines in tracebacks."""
    import linecache

    linecache.cache[where] = (len(text), None, text.splitlines(True), where)
    scope = dict(names)
    exec(compile(text, where, "exec"), scope)
    return scope["forward"]


def state(module, path):
    """The tensor at a dotted path of a module, whose parts may be numbers of a list."""
    value = module
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list | tuple) else getattr(value, part)
    return value


def flat(results):
    """The tensors of an operation with several results."""
    return list(_aten.tensors(results))


def bound(module, key, tensor, bind):
    """The module's tensor as a program reads it, made anew only where the tensor is another or was written."""
    views = module.__dict__["_ucutlass"].bound
    now = (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)
    entry = views.get(key)
    if entry is None or entry[0] is not tensor or entry[1] != now:
        entry = views[key] = (tensor, now, bind(tensor))
    return entry[2]


def _casting(device, dtype):
    """PyTorch's autocast, as the module was timed with. A CPU computes in the module's own types."""
    if device.type in ("cpu", "meta"):
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype, cache_enabled=False)


def _refuse(name, shape, dtype, x):
    kind, own = str(dtype).removeprefix("torch."), str(x.dtype).removeprefix("torch.")
    raise ValueError(
        f"input {name} is {own}{list(x.shape)}; this module was optimised for {kind}{list(shape)}. Call the original, "
        "or optimise it for these inputs."
    )


def _apart(own, device):
    raise ValueError(f"the module's parameters are on {own} and its input on {device}; move one with .to()")


def _tf32_on():
    """Allow TF32 for PyTorch's products, as where the module was timed. Returns what to put back."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    if not all(before):
        matmul.allow_tf32 = cudnn.allow_tf32 = True
    return before


def _tf32_off(before):
    if not all(before):
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


__all__ = ["Program", "Writer", "dtype_of", "function"]
