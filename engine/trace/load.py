"""Execute a pasted text in the confined child and find the module, its arguments and its inputs.

Two forms are accepted: KernelBench's (`Model`, `get_inputs()`, `get_init_inputs()`), and any text with one nn.Module
class and example inputs in a variable `inputs` or `example_inputs`.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.sandbox import pasted
from engine.sandbox.channel import PASTED
from engine.trace import arguments, results

MODULE = "pasted"
EXAMPLES = ("inputs", "example_inputs")


_NEWER = (
    ((3, 12), r"type\s+\w+\s*[\[=]", "`type` statements"),
    ((3, 12), r"(async\s+)?(def|class)\s+\w+\s*\[", "Type parameters in brackets"),
    ((3, 14), r".*\bt[\"']", "Strings such as t'...'"),
    ((3, 14), r"except\s+[\w.]+\s*,", "Several exceptions without parentheses"),
)  # the first version, how a line begins, and the syntax in words


class Bad(Exception):
    """The pasted text is refused. Becomes engine.devices.SessionRefused in the engine. `of_device`: the text does
    something that PyTorch does on one device only, so a graph of it would be that of another module elsewhere.
    `of_size`: only the size of a tensor depends on values, or a check of PyTorch's own."""

    def __init__(
        self, code: str, reason: str, line: int | None = None, of_device: bool = False, of_size: bool = False
    ):  # fmt: skip
        super().__init__(reason)
        self.code, self.reason, self.line, self.of_device, self.of_size = code, reason, line, of_device, of_size


def without_nested_tensors(model: Any) -> None:
    """Let encoders with a padding mask compute padded tokens, too.

    In eval mode eager PyTorch packs the others into nested tensors and returns zeros for the padded ones, but not under
    torch.compile, torch.export or autocast, nor where a mask is not left aligned. So its ways agree without them alone.
    """
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.TransformerEncoder):
            module.use_nested_tensor = False


def in_training(model: Any) -> str:
    """The layers of a module that compute something else in training: "nn.Dropout and nn.BatchNorm1d"; "" if none."""
    import torch

    norms = torch.nn.modules.batchnorm._NormBase
    names = [
        f"nn.{type(m).__name__}"
        for m in model.modules()
        if (isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0)
        or (isinstance(m, norms) and m.track_running_stats)
    ]
    *first, last = dict.fromkeys(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last


@dataclass
class Loaded:
    """The executed text. `inputs_from`: get_inputs | inputs | example_inputs."""

    namespace: dict[str, Any]
    cls: type
    inputs_from: str

    def build(self, seed: int = 0) -> Any:
        """A new instance in eval mode, with random parameters drawn from `seed`."""
        import torch

        torch.manual_seed(seed)
        args, kwargs = self._init_inputs()
        try:
            inspect.signature(self.cls).bind(*args, **kwargs)
        except TypeError as e:
            how = (
                "get_init_inputs() must return its arguments in a list"
                if "get_init_inputs" in self.namespace
                else "add `def get_init_inputs(): return [...]` with its arguments"
            )
            line = line_of(self.cls.__init__) or line_of(self.cls)
            raise Bad("init_inputs", f"{self.cls.__name__}.__init__ cannot be called: {e}; {how}.", line) from None
        with uncompiled():
            model = self.cls(*args, **kwargs)
        if not isinstance(model, torch.nn.Module):
            raise Bad("no_model", f"{self.cls.__name__}(...) is not an nn.Module.", line_of(self.cls))
        if any(isinstance(p, torch.nn.parameter.UninitializedTensorMixin) for p in _state(model)):
            with torch.no_grad():
                model.eval()
                model(*self.inputs(seed))  # lazy layers get their sizes from the first call
            torch.manual_seed(seed)
            for module in model.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
        model.eval()  # whose result is None where a class's own `train` returns nothing
        without_nested_tensors(model)
        return model

    def inputs(self, seed: int = 0) -> tuple[Any, ...]:
        """The example inputs in call order, flat; random ones drawn from `seed`. Afterwards the class's forward takes
        them flat (engine.trace.arguments)."""
        import torch

        torch.manual_seed(seed + 1)
        value = self.namespace[self.inputs_from]
        line = None
        if callable(value):
            line = line_of(value)
            value = value()
        if isinstance(value, torch.Tensor):
            value = (value,)
        if not isinstance(value, (list, tuple, dict)):
            kind = type(value).__name__
            raise Bad("bad_inputs", f"{self.inputs_from} must give a list of tensors, not a {kind}.", line)
        args, kwargs = (), value
        if not isinstance(value, dict):  # a list, or KernelBook's form: [[positional], {named}]
            args, kwargs = _named_apart(getattr(self.cls.forward, "own_forward", self.cls.forward), value, (None,))
        elif kwargs:
            args, kwargs = self._by_name(value, line)
        try:
            leaves = arguments.flattened(self.cls, args, kwargs)
        except RecursionError:
            reason = f"{self.inputs_from} gives a value that contains itself, or that is nested too deeply."
            raise Bad("bad_inputs", reason, line) from None
        if not any(isinstance(v, torch.Tensor) for v in leaves):
            how = "it must give the inputs of forward"
            if any(type(v).__module__ == "numpy" for v in leaves):
                how = "convert its arrays of numpy with torch.from_numpy(...)"
            raise Bad("bad_inputs", f"{self.inputs_from} gives no tensor; {how}.", line)
        self._check_call(args, kwargs, line)
        for i, x in enumerate(leaves, 1):
            if isinstance(x, torch.nn.Module) and not isinstance(x, torch.jit.ScriptModule):
                reason = f"{self.inputs_from} gives a module as input {i} ({type(x).__name__}): build it in __init__"
                raise Bad("bad_inputs", f"{reason}, and let forward call it.", line)
        tensors = [(i, x) for i, x in enumerate(leaves, 1) if isinstance(x, torch.Tensor)]
        if all(0 in x.shape for _, x in tensors):
            i, shape = tensors[0][0], list(tensors[0][1].shape)
            reason = f"{self.inputs_from} gives input {i} the shape {shape}: axis {shape.index(0)} has size 0"
            raise Bad("bad_inputs", f"{reason}, so there is nothing to compute; give every axis a size from 1.", line)
        return leaves

    def _check_call(self, args: tuple, kwargs: dict[str, Any], line: int | None) -> None:
        """Raise Bad if forward does not take so many inputs, or lacks one without a default."""
        forward = getattr(self.cls.forward, "own_forward", self.cls.forward)
        try:
            signature = inspect.signature(forward)
        except (TypeError, ValueError):
            return  # of a function without one
        try:
            signature.bind(None, *args, **kwargs)
        except TypeError as e:
            plain = [p.replace(annotation=p.empty) for p in list(signature.parameters.values())[1:]]
            at, many = line_of(forward), len(args) + len(kwargs)
            where = f"forward in line {at} takes" if at else "forward takes"
            gives = (
                f"{self.inputs_from} gives {many} input{'s' * (many != 1)}, and {where} {inspect.Signature(plain)}: {e}"
            )
            raise Bad("bad_inputs", f"{gives}. Give one input for each argument.", line) from None

    def _by_name(self, value: dict, line: int | None) -> tuple[tuple, dict[str, Any]]:
        try:
            return arguments.by_name(getattr(self.cls.forward, "own_forward", self.cls.forward), value)
        except arguments.NotAnArgument as e:
            raise Bad("bad_inputs", str(e), line) from None

    def _init_inputs(self) -> tuple[tuple, dict]:
        function = self.namespace.get("get_init_inputs")
        value = function() if callable(function) else ()
        if isinstance(value, dict):
            return (), value
        if not isinstance(value, (list, tuple)):
            return (value,), {}
        return _named_apart(self.cls, value, ())


def _named_apart(function: Any, value: list | tuple, first: tuple) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call: KernelBook's form [[positional], {named}] is meant where `function`, which takes `first`
    before them, takes these names."""
    if len(value) == 2 and isinstance(value[0], (list, tuple)) and isinstance(value[1], dict):
        with contextlib.suppress(TypeError):
            inspect.signature(function).bind(*first, *value[0], **value[1])
            return tuple(value[0]), dict(value[1])
    return tuple(value), {}


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """In this context torch.compile returns what it gets: the results are the same, and the compiler would read files
    that the sandbox does not show."""
    import torch

    own = torch.compile
    torch.compile = lambda model=None, **how: (lambda function: function) if model is None else model
    try:
        yield
    finally:
        torch.compile = own


def _state(model: Any) -> Iterator[Any]:
    yield from model.parameters()
    yield from model.buffers()


def load(source: str) -> Loaded:
    """Execute the text. Raises Bad if it lacks a module or inputs, and any exception of the text."""
    import torch

    source = pasted.normal(source)
    try:
        code = pasted.compiled(source)
    except SyntaxError as e:
        hint = newer(e) or _not_python(e) or _no_module(source)
        raise Bad("syntax_error", f"Line {e.lineno}: {e.msg}.{hint}", e.lineno) from None
    except ValueError as e:
        raise Bad("syntax_error", f"The text is not Python: {e}.", None) from None
    except (RecursionError, MemoryError):
        raise Bad("syntax_error", "The text is nested too deeply for Python's parser.", None) from None
    module = types.ModuleType(MODULE)
    module.__file__ = PASTED
    sys.modules[MODULE] = module
    try:
        with uncompiled():
            exec(code, module.__dict__)
    except NameError as e:
        if not _no_module(source):
            raise
        raise Bad("no_model", f"Line {_raised_at(e)}: {e}.{_no_module(source)}", _raised_at(e)) from None
    names = module.__dict__
    results.open_dataclasses(names.values())
    cls = _choose(names, torch.nn.Module)
    if issubclass(cls, torch.jit.ScriptModule):
        reason = f"{cls.__name__} is a torch.jit.ScriptModule, whose forward is no Python any more: derive it from"
        raise Bad("no_model", f"{reason} torch.nn.Module, without @torch.jit.script_method.", line_of(cls))
    source_name = next((n for n in ("get_inputs", *EXAMPLES) if n in names), None)
    if source_name is None or (source_name == "get_inputs" and not callable(names[source_name])):
        raise Bad(
            "no_inputs",
            "No example inputs: add `def get_inputs(): return [torch.randn(...)]`, "
            "or a variable `inputs = [torch.randn(...)]`, with the tensors that forward takes.",
            line_of(cls),
        )
    return Loaded(dict(names), cls, source_name)


def newer(error: SyntaxError) -> str:
    """A hint beside the error for a line in the syntax of a newer Python than this one, else ""."""
    line, here = (error.text or "").strip(), sys.version_info[:2]
    runs = f"this engine runs Python {here[0]}.{here[1]}."
    for since, pattern, what in _NEWER:
        if here < since and re.match(pattern, line):
            return f" {what} need Python {since[0]}.{since[1]}, and {runs}"
    if here < (3, 12) and error.msg.startswith("f-string"):
        return f" Its own quotes or a backslash inside the braces of an f-string need Python 3.12, and {runs}"
    return ""


def _not_python(error: SyntaxError) -> str:
    """What to leave out of a text that was copied with what stood around it."""
    line = (error.text or "").strip()
    if line.startswith("```"):
        return " The text is in a Markdown fence: leave out the lines with ```."
    if line.startswith(("!", "%")):
        return " This is a notebook's command: leave the line out."
    if line.startswith((">>>", "...")):
        return " This is a prompt of Python's console: leave out >>> and ... at the beginning of lines."
    return ""


def _no_module(source: str) -> str:
    """A hint beside the error for a text without a class (prose, or a part of a file), else ""."""
    if re.search(r"^\s*class\s+\w", source, re.MULTILINE):
        return ""
    if re.search(r"^\s*program\s+\w+\s*\(", source, re.MULTILINE):
        return " This is a μCUTLASS program, not a PyTorch module: run it as a program."
    return " There is no module in this text: paste a Python file with `class Model(nn.Module)` and get_inputs()."


def _raised_at(error: BaseException) -> int | None:
    line, tb = None, error.__traceback__
    while tb is not None:
        line, tb = (tb.tb_lineno if tb.tb_frame.f_code.co_filename == PASTED else line), tb.tb_next
    return line


def _choose(names: dict[str, Any], base: type) -> type:
    named = names.get("Model")
    if isinstance(named, type) and issubclass(named, base):
        return named
    if isinstance(named, type):
        raise Bad(
            "no_model", "`Model` is not a torch.nn.Module: write `class Model(torch.nn.Module):`.", line_of(named)
        )
    own = [v for v in names.values() if isinstance(v, type) and issubclass(v, base) and v.__module__ == MODULE]
    own = list(dict.fromkeys(own))
    if len(own) == 1:
        return own[0]
    if own:
        listed = ", ".join(c.__name__ for c in own[:8])
        raise Bad(
            "several_models",
            f"{len(own)} modules and none is called Model ({listed}): name the one to optimise `Model`.",
            line_of(own[-1]),
        )
    if callable(names.get("kernel")):
        reason = "This is a raw kernel and not a module: paste its module, and try the kernel in that session"
        raise Bad("no_model", f"{reason} (or `python -m engine verify KERNEL --reference MODULE`).", None)
    raise Bad("no_model", "No nn.Module class: define `class Model(torch.nn.Module)` with a forward method.", None)


def line_of(thing: Any) -> int | None:
    code = getattr(inspect.unwrap(thing) if callable(thing) else thing, "__code__", None)
    if code is not None:
        return code.co_firstlineno if code.co_filename == PASTED else None
    if isinstance(thing, type):
        lines = linecache.cache.get(PASTED, (0, None, []))[2]
        starts = (f"class {thing.__name__}(", f"class {thing.__name__}:")
        return next((i for i, text in enumerate(lines, 1) if text.lstrip().startswith(starts)), None)
    return None
