"""A module with programs in place of its regions, which is otherwise the original: its class, its parameters and
buffers, the same `state_dict`.

For inference: results have no gradient. Under torch.compile, torch.export and on CPU tensors the programs are operators
(_operators.py); on a CPU, PyTorch computes them.
"""

import contextlib
import copy
import dataclasses
import functools
import importlib
import inspect
import json
from pathlib import Path

import torch
from torch.utils import _pytree

from . import _compose, _graph, _operators

_HERE = Path(__file__).resolve().parent
WHOLE = json.loads((_HERE / "composition.json").read_text(encoding="utf-8"))
_PLAIN = -1 if WHOLE.get("values") else WHOLE["arguments"]  # how many arguments are all tensors
_MODAL = (torch.nn.modules.batchnorm._NormBase, torch.nn.modules.dropout._DropoutNd)


@functools.cache
def programs():
    """Name -> program, each with its operator."""
    known = {}
    for step in WHOLE["steps"]:
        if "program" not in step:
            continue
        name = step["program"]
        load = functools.partial(_load, name)
        written = _compose.Writer({**WHOLE, "rest": ""}, {}).reference(step)
        if written is None:
            reference = functools.partial(_no_reference, name)
        else:
            reference = _compose.function(*written, f"<{__package__}.{name} on the CPU>")
        results = [(tuple(shape), _compose.dtype_of(dtype)) for _, shape, dtype in step["makes"]]
        operator = _operators.operator(step["operator"], results, load, reference)
        known[name] = _compose.Program(load, operator)
    return known


@functools.cache
def _load(name):
    return importlib.import_module(f"{__package__}.{name}").load()


def _no_reference(name, *inputs):
    raise NotImplementedError(f"{name} does less work than the module's operations; it runs on a GPU only")


_FORWARDS = {}  # a plain dictionary, since torch.compile looks through a cached function


def forward(direct):
    """The composed forward: of the module and its tensors, returns a tuple."""
    if direct not in _FORWARDS:
        text, names = _compose.Writer(WHOLE, programs(), direct).forward()
        how = "launching" if direct else "operators"
        _FORWARDS[direct] = _compose.function(text, names, f"<{__package__}, {how}>")
    return _FORWARDS[direct]


class _Calls:
    """What an instance keeps between calls. A copy of the module begins with none of it."""

    def __init__(self):
        self.bound, self.spec, self.settled, self.modal = {}, None, not WHOLE["settled"], False
        self.plain = ()  # (place, value) of each leaf of forward's results that is no tensor
        self.takes = ()  # forward's parameters, each (name, kind, default)
        self.places = None  # (of the tensors among the arguments, of the plain values), as _rows gives them
        self.positional = _PLAIN  # how many arguments are all tensors, in order
        self.graph = None  # of calls that replay one

    def __deepcopy__(self, memo):
        calls = _Calls()
        calls.spec, calls.settled, calls.modal, calls.takes = self.spec, self.settled, self.modal, self.takes
        calls.plain, calls.places, calls.positional = self.plain, self.places, self.positional
        return calls

    def __reduce__(self):
        return _Calls, ()


class DropIn(torch.nn.Module):
    """Mixed in before the original's class. `_prepare` runs once, after the original's `__init__`."""

    def _prepare(self, spec=None, call=None):
        """`spec`: how forward returns its results (torch.utils._pytree), and `call`: the arguments that it was traced
        with (.args, .kwargs), if they are known."""
        calls = self.__dict__["_ucutlass"] = _Calls()
        own = inspect.signature(super().forward).parameters.values()
        calls.takes = tuple((p.name, p.kind, p.default) for p in own)
        if call is not None:
            calls.places = _split(_rows(self, call.args, call.kwargs))
            names = tuple(name for name, kind, _ in calls.takes if kind in _POSITIONAL)
            every = tuple(place for place, _ in calls.places[0])
            defaults = all(value is _default_of(calls, place) for place, value in calls.places[1])
            calls.positional = len(every) if defaults and every == names[: len(every)] else -1
        calls.modal = any(isinstance(m, _MODAL) for m in self.modules())
        if calls.settled:
            self._find_state()
        if spec is not None and spec.num_leaves == len(WHOLE["returned"]):
            calls.spec = _uncommon(spec)
        else:
            calls.spec, calls.plain = _result_spec(self, _examples("meta"), {})
        forward(False)  # written now, since torch.compile does not trace the writing

    def _find_state(self):
        for t in WHOLE["tensors"].values():
            if t["kind"] == "buffer":
                _as_buffer(self, t["path"])
        _find_constants(self)

    def forward(self, *inputs, **named):
        calls, arguments = self._ucutlass, inputs
        if calls.spec is _UNKNOWN and not torch.compiler.is_compiling():
            leaves, how = _leaves((inputs, named))
            meta = _pytree.tree_unflatten([_on_meta(x) if torch.is_tensor(x) else x for x in leaves], how)
            calls.spec, calls.plain = _result_spec(self, *meta)
        if named or len(inputs) != calls.positional or not all(isinstance(x, torch.Tensor) for x in inputs):
            inputs = _tensors_of(self, inputs, named)
        if calls.modal and self.training:
            raise RuntimeError("this module was optimised for inference: call .eval() before forward")
        if torch.compiler.is_compiling():
            if not calls.settled:
                raise RuntimeError("its first call makes tensors that later calls read: call it once, then compile it")
            with contextlib.nullcontext() if torch.compiler.is_exporting() else torch.no_grad():
                return _shaped(calls, _FORWARDS[False](self, *inputs))
        if not calls.settled:  # PyTorch computes the call that makes tensors which later calls read
            with torch.no_grad():
                results = super().forward(*arguments, **named)
            self._find_state()
            calls.settled = True
            return results
        direct = _launches(inputs[0])
        grad = torch.is_grad_enabled()
        if grad:
            if any(x.requires_grad for x in inputs):
                raise RuntimeError("an input requires a gradient, which programs do not compute; call the original")
            torch._C._set_grad_enabled(False)
        try:
            if not (direct and WHOLE.get("captured")):
                return _shaped(calls, forward(direct)(self, *inputs))
            calls.graph = calls.graph or _graph.Graph(WHOLE)
            return _shaped(calls, calls.graph.run(forward(True), self, inputs))
        finally:
            if grad:
                torch._C._set_grad_enabled(True)


def _launches(x):
    """Whether programs run by themselves: on plain CUDA tensors, with nobody who watches PyTorch's operators."""
    return type(x) is torch.Tensor and x.is_cuda and not torch._C._len_torch_dispatch_stack()


def drop_in(model, spec=None, call=None):
    """A module that computes what `model` does, sharing its parameters, buffers and submodules."""
    own = copy.copy(model)
    own.__class__ = type(f"Optimized{type(model).__name__}", (DropIn, type(model)), {"__module__": __name__})
    own._prepare(spec, call)
    return own


def _shaped(calls, results):
    if calls.spec is not None and calls.spec is not _UNKNOWN:
        leaves = list(results)
        for at, value in calls.plain:
            leaves.insert(at, value)
        return _pytree.tree_unflatten(leaves, calls.spec)
    return results[0] if len(results) == 1 else results


def _tensors_of(module, inputs, named):
    """The tensors among the arguments, in the order in which the module was traced."""
    known = module._ucutlass.places
    tensors, plain = _split(_rows(module, inputs, named, known is not None))
    if known is not None:
        places, order = [place for place, _ in known[0]], [place for place, _ in tensors]
        if sorted(places) != sorted(order):
            raise TypeError(_other(f"the tensors {', '.join(places)}", ", ".join(order)))
        if plain != known[1]:
            raise ValueError(_other(f"the other arguments {_listed(known[1])}", _listed(plain)))
        if order != places:  # of a dictionary, or of **named: forward may go through it
            raise ValueError(_other(f"{', '.join(places)} in this order", ", ".join(order)))
        return tuple(x for _, x in tensors)
    if len(tensors) != WHOLE["arguments"]:
        raise TypeError(f"this module was optimised for {WHOLE['arguments']} tensors, not {len(tensors)}")
    values = [x for _, x in plain]
    if "values" in WHOLE and values != WHOLE["values"]:
        raise ValueError(f"this module was optimised for the other arguments {WHOLE['values']}, not {values}")
    return tuple(x for _, x in tensors)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _other(before, now):
    return f"this module was optimised for {before}, not {now}. Call the original, or optimise it for these inputs."


def _listed(plain):
    return ", ".join(f"{place}={value!r}" for place, value in plain) or "none"


def _default_of(calls, place):
    """The default of a parameter; _UNKNOWN if it has none, or if that is part of one."""
    return next((d for name, _, d in calls.takes if name == place and d is not inspect.Parameter.empty), _UNKNOWN)


def _split(rows):
    """The rows of tensors, and the others."""
    return [r for r in rows if isinstance(r[1], torch.Tensor)], [r for r in rows if not isinstance(r[1], torch.Tensor)]


def _rows(module, inputs, named, whole=True):
    """(place, leaf) of each argument's tensors and plain values in forward's order, for example ("x", tensor) and
    ("d['a']", tensor). `whole`: no argument may miss, and a default that is no tensor counts as an argument."""
    title, takes = type(module).__name__, module._ucutlass.takes
    rows, left, at = [], dict(named), 0
    for name, kind, default in takes:
        if kind == inspect.Parameter.VAR_POSITIONAL:
            rows += _rows_of(name, inputs[at:])
            at = len(inputs)
        elif kind == inspect.Parameter.VAR_KEYWORD:
            for key in list(left):
                rows += _rows_of(key, left.pop(key))
        elif kind in _POSITIONAL and at < len(inputs):
            if name in left:
                raise TypeError(f"forward of {title} got {name!r} twice")
            rows += _rows_of(name, inputs[at])
            at += 1
        elif name in left:
            rows += _rows_of(name, left.pop(name))
        elif not whole:
            continue
        elif default is inspect.Parameter.empty:
            raise TypeError(f"forward of {title} misses {name!r}")
        elif not isinstance(default, torch.Tensor):
            rows += _rows_of(name, default)
    if left:
        raise TypeError(f"forward of {title} got {next(iter(left))!r} and has no such argument")
    if at < len(inputs):
        raise TypeError(f"forward of {title} takes {at} arguments by their places, not {len(inputs)}")
    return rows


def _rows_of(place, value):
    if isinstance(value, dict):
        return [row for key in value for row in _rows_of(f"{place}[{key!r}]", value[key])]
    if isinstance(value, (list, tuple)):
        return [row for i, one in enumerate(value) for row in _rows_of(f"{place}[{i}]", one)]
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
        return [(place, value)]
    return [(f"{place}.{i}" if leaf is not value else place, leaf) for i, leaf in enumerate(_leaves(value)[0])]


_UNKNOWN = object()  # how forward returns its results, until a call shows how it takes its arguments


def _uncommon(spec):
    """None for the results that `_shaped` gives without a spec: one tensor, or a tuple of several."""
    if spec is None or spec.is_leaf():
        return None
    plain = spec.type is tuple and all(child.is_leaf() for child in spec.children())
    return None if plain and spec.num_leaves > 1 else spec


def _result_spec(module, inputs, named):
    """How the original's forward returns its results, and (place, value) of each that is no tensor, from a call of a
    copy on the meta device; _UNKNOWN if that fails, for example because its tensors come in lists."""
    memo = {}
    for t in (*module.parameters(), *module.buffers()):
        memo[id(t)] = torch.empty_like(t, device="meta")
        if isinstance(t, torch.nn.Parameter):
            memo[id(t)] = torch.nn.Parameter(memo[id(t)], requires_grad=False)
    try:
        with torch.no_grad(), torch.device("meta"):
            twin = copy.deepcopy(module, memo)
            leaves, spec = _leaves(super(DropIn, twin).forward(*inputs, **named))
    except Exception:
        return _UNKNOWN, ()
    plain = tuple((at, x) for at, x in enumerate(leaves) if not torch.is_tensor(x))
    if len(leaves) - len(plain) != len(WHOLE["returned"]):
        return _UNKNOWN, ()
    return (spec if plain else _uncommon(spec)), plain


def _leaves(result):
    """torch.utils._pytree.tree_flatten, also into dataclasses that it does not know."""
    while True:
        leaves, spec = _pytree.tree_flatten(result)
        unknown = {type(x) for x in leaves if dataclasses.is_dataclass(x)} - set(_pytree.SUPPORTED_NODES)
        if not unknown:
            return leaves, spec
        for cls in unknown:
            _pytree.register_dataclass(cls)


def _on_meta(x):
    return torch.empty_like(x, device="meta")


def _examples(device):
    rows = [WHOLE["tensors"][name] for name in WHOLE["inputs"]]
    return [torch.empty(t["shape"], dtype=_compose.dtype_of(t["dtype"]), device=device) for t in rows]


def _as_buffer(module, path):
    """Make a buffer of a plain attribute that forward writes, outside of the `state_dict`."""
    prefix, _, name = path.rpartition(".")
    owner = module.get_submodule(prefix)
    if name not in owner._buffers and name in vars(owner):
        owner.register_buffer(name, vars(owner).pop(name).clone(), persistent=False)


def _find_constants(module):
    """Keep the tensors that only the graph names, such as a literal in forward, as buffers outside of the
    `state_dict`. torch.export names them again as it did when the module was traced."""
    lost = [t for t in WHOLE["tensors"].values() if t["kind"] == "constant" and not _has(module, t["path"])]
    if not lost:
        return
    device = next((p.device for p in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    original = copy.copy(module)
    original.__class__ = type(module).__mro__[type(module).__mro__.index(DropIn) + 1]
    with torch.no_grad(), device:
        constants = torch.export.export(original, tuple(_examples(device)), strict=False).constants
    for t in lost:
        value = constants.get(t["path"])
        if value is None or list(value.shape) != t["shape"]:
            version = torch.__version__
            raise RuntimeError(f"PyTorch {version} does not export {t['path']}, a tensor that forward makes")
        module.register_buffer(t["path"].replace(".", "_"), value.to(device), persistent=False)


def _has(module, path):
    try:
        return torch.is_tensor(_compose.state(module, path))
    except (AttributeError, IndexError, ValueError):
        return False
