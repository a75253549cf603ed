"""Load a candidate in its confined process: Python with `ModelNew` or `kernel`, or CUDA C++ with `run`.

Contracts (`python -m engine verify --help` states the same):

    FILE.py   class ModelNew(nn.Module), built with the reference's arguments; it has the reference's parameters and
              buffers under the same names, and the harness changes their values in place between calls;
              or def kernel(*inputs, *parameters_and_buffers), in the order of the module's state.
    FILE.cu   extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream):
              inputs, then parameters and buffers; 0 for success. `Tensor` is declared in nvcc_unit.PRELUDE, which is
              included for you.

The entry may have another name, which the sender of the text gives.
"""

from __future__ import annotations

import ctypes
import inspect
import mmap
import os
import sys
import types
from collections.abc import Container
from typing import Any

from engine.evaluate.integrity.probes import results
from engine.evaluate.integrity.process.nvcc_unit import nvcc_library
from engine.sandbox import pasted
from engine.sandbox.channel import PASTED
from engine.session.kernel_text import no_entry
from engine.trace.load import Bad, without_nested_tensors

MODULE = "candidate"
_DTYPES = {
    "float32": 0,
    "float16": 1,
    "bfloat16": 2,
    "float64": 3,
    "int32": 4,
    "int64": 5,
    "int8": 6,
    "uint8": 7,
    "bool": 8,
}


class CTensor(ctypes.Structure):
    """One tensor as the prelude's struct declares it."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 8), ("rank", ctypes.c_int), ("dtype", ctypes.c_int),
    ]  # fmt: skip


class Loaded:
    """A candidate that can be called. `library`: the function of a CUDA candidate; `facts`: {entry} for the engine."""

    def __init__(self, call: Any, is_module: bool, library: Any = None, facts: dict | None = None):
        self.call, self.is_module, self.library, self.facts = call, is_module, library, facts or {}
        self._tensors: list[tuple[str, Any]] = []

    def attach(self, state: list[dict], tensors: dict[str, Any], torch: Any, order: list[dict]) -> None:
        """Find the module's parameters. Raises Bad if they differ from the reference's, or if it cannot be called with
        the arguments of the reference's forward (`order`), for a function also the state."""
        if self.library is None:
            names = [a.get("tensor", "a value") for a in order]
            _callable(self.call, names + [s["name"] for s in state] * (not self.is_module), self.is_module)
        if not self.is_module:
            return
        wanted = [s for s in state if s["kind"] in ("parameter", "buffer")]
        own = {**dict(self.call.named_parameters()), **dict(self.call.named_buffers())}
        by_order = None
        missing = [
            s for s in wanted if s["path"] not in own and not isinstance(_at(self.call, s["path"]), torch.Tensor)
        ]
        if missing:
            shapes = [tuple(tensors[s["name"]].shape) for s in wanted]
            if [tuple(v.shape) for v in own.values()] != shapes:
                raise Bad(
                    "not_loaded",
                    f"ModelNew has no parameter {missing[0]['path']!r} {list(tensors[missing[0]['name']].shape)}: keep "
                    "the reference's parameters and buffers under the same names",
                )
            by_order = list(own.values())
        for i, s in enumerate(wanted):
            tensor = by_order[i] if by_order else own.get(s["path"], _at(self.call, s["path"]))
            if tuple(tensor.shape) != tuple(tensors[s["name"]].shape):
                raise Bad(
                    "not_loaded",
                    f"ModelNew's {s['path']} has shape {list(tensor.shape)}; the module's has "
                    f"{list(tensors[s['name']].shape)}",
                )
            self._tensors.append((s["name"], tensor))
        self._copy = torch.Tensor.copy_

    def refresh(self, tensors: dict[str, Any]) -> None:
        """Copy the reference's values in place. Anything that a layer derived from the old values is then stale."""
        for name, tensor in self._tensors:
            self._copy(tensor.data, tensors[name])
        results.written(tensor for _, tensor in self._tensors)  # as an optimiser's step does

    def point(self, tensors: dict[str, Any], names: Container[str]) -> None:
        """Let the module's parameters of these names lie where the reference's values are. Anything that a layer
        derived from the old address is then stale."""
        for name, tensor in self._tensors:
            if name in names:
                tensor.data = tensors[name]

    def give_back(self, tensors: dict[str, Any]) -> None:
        """Copy the module's parameters back after a call, so that the judge can detect writes."""
        for name, tensor in self._tensors:
            self._copy(tensors[name], tensor.data)

    def launch(self, inputs: list[Any], outputs: list[Any]) -> None:
        import torch

        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        ins, outs = (CTensor * len(tensors))(*map(_c, tensors)), (CTensor * len(outputs))(*map(_c, outputs))
        stream = torch.cuda.current_stream().cuda_stream
        code = self.library(ins, len(tensors), outs, len(outputs), ctypes.c_void_p(stream))
        if code != 0:
            raise Bad("raised", f"{self.facts['entry']}() returned {code}")


def _callable(call: Any, arguments: list[str], is_module: bool) -> None:
    """Raise Bad if the arguments do not fit the signature, with the list of arguments."""
    try:
        signature = inspect.signature(call.forward if is_module else call)
        signature.bind(*arguments)
    except ValueError:
        return  # a C function has no signature
    except TypeError:
        name = "ModelNew.forward" if is_module else "kernel"
        many = f"{len(arguments)} argument{'' if len(arguments) == 1 else 's'}"
        raise Bad("not_loaded", f"{name}{signature} cannot take the {many} given: {', '.join(arguments)}") from None


def _c(x: Any) -> CTensor:
    dims = (ctypes.c_int64 * 8)(*x.shape)
    return CTensor(x.data_ptr(), dims, x.dim(), _DTYPES.get(str(x.dtype).removeprefix("torch."), -1))


def _at(model: Any, path: str) -> Any:
    value = model
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, (list, tuple)) else getattr(value, part, None)
        if value is None:
            return None
    return value


def private_maps() -> None:
    """Make `mmap.mmap(-1, n)` private memory: the sandbox refuses shared memory, which its limit does not count."""
    real = mmap.mmap

    class Map(real):
        def __new__(cls, fileno: int, length: int, *more: Any, **named: Any) -> Any:
            if fileno == -1 and not more and not {"flags", "access"} & set(named):
                named["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            return real.__new__(cls, fileno, length, *more, **named)

    Map.__name__ = Map.__qualname__ = real.__name__
    mmap.mmap = Map


class _PipeEnd:
    """One end of a pipe, with those methods of a socket that a loop of asyncio wakes itself by."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, flag: bool) -> None:
        os.set_blocking(self._descriptor, flag)

    def recv(self, size: int) -> bytes:
        return os.read(self._descriptor, size)

    def send(self, data: bytes) -> int:
        return os.write(self._descriptor, data)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def loops_without_sockets(source: str) -> None:
    """Let loops of asyncio wake themselves by a pipe: the sandbox refuses the pair of sockets that they would take."""
    if "asyncio" not in source:
        return  # loading it takes a while
    from asyncio import selector_events

    def make_self_pipe(self: Any) -> None:
        self._ssock, self._csock = map(_PipeEnd, os.pipe())
        self._ssock.setblocking(False)
        self._csock.setblocking(False)
        self._internal_fds += 1
        self._add_reader(self._ssock.fileno(), self._read_from_self)

    selector_events.BaseSelectorEventLoop._make_self_pipe = make_self_pipe


def load_python(source: str, init: list | None, device: str, name: str = "") -> Loaded:
    """Execute the text and build its entry: `name`, or a usual one. Raises Bad, and whatever the text raises."""
    private_maps()
    loops_without_sockets(source)
    source = pasted.normal(source)
    with open(PASTED, "w") as f:  # in the sandbox's scratch folder, because Triton reads its kernels' text from a file
        f.write(source)
    try:
        code = pasted.compiled(source)
    except SyntaxError as e:
        raise Bad("not_loaded", f"line {e.lineno}: {e.msg}" if e.lineno else e.msg, e.lineno) from None
    except (ValueError, RecursionError, MemoryError) as e:
        raise Bad("not_loaded", f"Python's parser refuses it: {type(e).__name__}") from None
    module = types.ModuleType(MODULE)
    module.__file__ = PASTED
    sys.modules[MODULE] = module
    exec(code, module.__dict__)
    return _entry(source, module.__dict__, init, device, name)


def _entry(source: str, names: dict[str, Any], init: list | None, device: str, name: str) -> Loaded:
    entry = name or ("ModelNew" if isinstance(names.get("ModelNew"), type) else "kernel")
    called = names.get(entry)
    if isinstance(called, type):
        import torch

        arguments, named = init if init is not None else ([], {})
        if init is None and callable(names.get("get_init_inputs")):
            arguments = list(names["get_init_inputs"]())
        try:
            inspect.signature(called).bind(*arguments, **named)
        except TypeError as e:
            raise Bad("not_loaded", f"{entry} cannot be built as the module is: {e}") from None
        with torch.device(device):
            model = called(*arguments, **named)
        if not isinstance(model, torch.nn.Module):
            raise Bad("not_loaded", f"{entry}(...) is no torch.nn.Module")
        model = model.to(device).requires_grad_(False)
        model.eval()  # whose result is None where a class's own `train` returns nothing
        without_nested_tensors(model)
        return Loaded(model, True, facts={"entry": entry})
    if callable(called):
        return Loaded(called, False, facts={"entry": entry})
    raise Bad("no_entry", no_entry(source, "python", name).evidence)


def load_cuda(source: str, library: str | None, compiler: dict | None, name: str = "") -> Loaded:
    """Compile a CUDA unit (or take a built library, in base64) and load it. `compiler`: see compiler.find; `name`: of
    the entry, if it is not `run`. Raises Bad."""
    import base64
    import tempfile

    path = os.path.join(tempfile.mkdtemp(dir=os.getcwd()), "candidate.so")  # never overwrite a mapped library
    if library is None:
        nvcc_library(source, path, compiler, _arch())
    else:
        with open(path, "wb") as f:
            f.write(base64.b64decode(library))
    entry = name or "run"
    try:
        called = getattr(ctypes.CDLL(path), entry)
    except OSError as e:
        raise Bad("not_loaded", f"the library that nvcc built does not load: {str(e)[:300]}") from None
    except AttributeError:
        raise Bad("no_entry", no_entry(source, "cuda", name).evidence) from None
    called.restype = ctypes.c_int
    return Loaded(None, False, called, {"entry": entry})


def _arch() -> str:
    """The architecture of the GPU here, with its own features (sm_90a); without a GPU, the default."""
    import torch

    if not torch.cuda.is_available():
        return "sm_90a"
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + "a" * (major >= 9)
