"""Runs generated kernels of our own without a GPU: every thread at once, as numpy arrays [block, thread].

The module's text is executed with stand-ins for CuTe, CUTLASS and quack. An `if` on the device becomes a mask, a loop
with a trip count of the device's runs to the longest one masked; shuffles, shared memory and barriers work as in
lockstep. Every access is checked: inside its tensor, and on the alignment that the text claims. What it cannot show is
timing, races and the compiler.
"""

from __future__ import annotations

import ast
import builtins
import math
import types
from contextlib import contextmanager

import numpy as np
import torch

from .emulated_types import E4M3, E5M2, NAMED, TYPES, BFloat16, ElementType, Float16, Float32, Int32

AT_ONCE = 1 << 18  # threads emulated together


class _Device:
    """What is running: the indices of all threads, and which of them are awake."""

    blocks = threads = None
    mask = np.ones((1, 1), bool)


@contextmanager
def masked(test):
    before = _Device.mask
    _Device.mask = before & np.asarray(test)
    try:
        yield
    finally:
        _Device.mask = before


def device_range(first, last=None, step=1, unroll=1):
    """A loop on the device: until the last thread is done."""
    first, last = (0, first) if last is None else (first, last)
    turn = np.asarray(first).astype(np.int64)
    while np.any((turn < last) & _Device.mask):
        if turn.ndim == 0 and np.ndim(last) == 0:
            yield Int32(turn)
        else:
            with masked(turn < last):
                yield Int32(turn)
        turn = turn + step


class Registers:
    def __init__(self, count: int, element_type: ElementType, values=None):
        self.shape, self.element_type = (count,), element_type
        self.values = values or [None] * count

    def __getitem__(self, i):
        if self.values[i] is None:
            if not _Device.mask.any():  # nobody is awake to read
                return np.zeros((), self.element_type.numpy)
            raise AssertionError("read of registers that nothing was written to")
        return self.values[i]

    def __setitem__(self, i, value):
        value, old = self.element_type(value), self.values[i]
        if old is None:
            old = np.zeros((), self.element_type.numpy)
        self.values[i] = value if _Device.mask.all() else np.where(_Device.mask, value, old)

    def __iter__(self):
        return iter(self.values)

    def fill(self, value):
        self.values = [self.element_type(value)] * self.shape[0]

    def load(self):
        return Registers(self.shape[0], self.element_type, [self[i] for i in range(self.shape[0])])

    def store(self, other):
        for i in range(self.shape[0]):
            self[i] = other[i]

    def to(self, element_type):
        return Registers(self.shape[0], element_type, [_rounded(v, element_type) for v in self.values])


def _rounded(value, element_type: ElementType):
    if element_type in (Float16, BFloat16, E4M3, E5M2):
        return torch.from_numpy(np.array(value, np.float32)).to(element_type.torch).to(torch.float32).numpy()
    return element_type(value)


class Pointer:
    def __init__(self, tensor, offset=0, alignment=1):
        self.tensor, self.offset, self.alignment = tensor, offset, alignment

    def __add__(self, offset):
        return Pointer(self.tensor, self.offset + np.asarray(offset).astype(np.int64))

    @property
    def dtype(self):
        return self.tensor.element_type

    @property
    def memspace(self):
        return "memory"

    def toint(self):
        address = Anything()
        address.pointer = self
        return address

    def align(self, alignment):
        size = self.tensor.element_type.width // 8
        wrong = (np.asarray(self.offset) * size % alignment != 0) & _Device.mask
        assert not wrong.any(), f"{alignment}-byte access off its boundary"
        return Pointer(self.tensor, self.offset, alignment)


def _make_ptr(dtype, address, memspace, assumed_align):
    return address.pointer.align(assumed_align)


class Global:
    """A tensor in memory, flat."""

    def __init__(self, tensor: torch.Tensor):
        assert tensor.is_contiguous()
        self.tensor, self.flat, self.element_type = tensor, tensor.view(-1), TYPES[tensor.dtype]
        self.iterator = Pointer(self)


class View:
    def __init__(self, pointer: Pointer, layout):
        self.pointer, self.count = pointer, layout.shape[0]
        tensor = pointer.tensor
        last = np.asarray(pointer.offset) + self.count - 1
        wrong = ((np.asarray(pointer.offset) < 0) | (last >= tensor.flat.numel())) & _Device.mask
        assert not wrong.any(), f"access outside a tensor of {tensor.flat.numel()} elements"

    def where(self, i):
        return np.asarray(self.pointer.offset + i)

    def __getitem__(self, i):
        tensor = self.pointer.tensor
        at = np.where(_Device.mask, self.where(i), 0)
        kind = tensor.element_type
        values = tensor.flat[torch.from_numpy(np.ascontiguousarray(at))]
        return values.to(torch.float32).numpy().astype(kind.numpy) if kind is not Int32 else values.numpy()

    def __setitem__(self, i, value):
        tensor = self.pointer.tensor
        at, mask = np.broadcast_arrays(self.where(i), _Device.mask)
        value = np.broadcast_to(value, at.shape)
        flat = torch.from_numpy(np.array(value[mask]))
        tensor.flat[torch.from_numpy(np.array(at[mask]))] = flat.to(tensor.flat.dtype)


def autovec_copy(source, target):
    if isinstance(source, View):
        for i in range(source.count):
            target[i] = source[i]
    else:
        for i in range(target.count):
            target[i] = source[i]


class Shared:
    def __init__(self, element_type: ElementType, shape):
        self.element_type = element_type
        unwritten = 7e33 if element_type is Float32 else 77
        self.data = np.full((_Device.blocks.shape[0], *shape), unwritten, element_type.numpy)

    def _index(self, index):
        index = index if isinstance(index, tuple) else (index,)
        block = np.arange(self.data.shape[0])[:, None]
        return np.broadcast_arrays(block, *(np.asarray(i).astype(np.int64) for i in index), _Device.mask)

    def __getitem__(self, index):
        *at, _ = self._index(index)
        return self.data[tuple(at)]

    def __setitem__(self, index, value):
        *at, mask = self._index(index)
        self.data[tuple(a[mask] for a in at)] = np.broadcast_to(value, mask.shape)[mask]


class Allocator:
    def allocate_tensor(self, element_type, layout, byte_alignment=16):
        return Shared(element_type, layout.shape)


def shuffle_bfly(value, offset):
    value = np.broadcast_to(value, _Device.mask.shape)
    return value[:, np.arange(value.shape[1]) ^ offset]


def kernel(function):
    def called(*tensors):
        def launch(grid, block, stream=None, cluster=None):
            gx, gy, _ = grid
            threads = block[0]
            step = max(1, AT_ONCE // threads)
            for first in range(0, gx * gy, step):
                blocks = np.arange(first, min(first + step, gx * gy))[:, None]
                _Device.blocks, _Device.grid, _Device.all = blocks, gx, gx * gy
                _Device.threads = np.arange(threads)[None]
                _Device.mask = np.ones((len(blocks), threads), bool)
                with np.errstate(all="ignore"):
                    function(*tensors)

        return types.SimpleNamespace(launch=launch)

    return called


def _fmax(a, b, nan=False):
    return np.maximum(a, b) if nan else np.fmax(a, b)


def _fmin(a, b, nan=False):
    return np.minimum(a, b) if nan else np.fmin(a, b)


def _f32(function):
    return lambda x, fastmath=False: function(np.asarray(x, np.float32)).astype(np.float32)


def _select(test, a, b):
    if isinstance(test, bool):
        raise TypeError("select_ takes a boolean that a thread computes; this one is known when the kernel compiles")
    return np.where(test, a, b)


_ERF = np.vectorize(math.erf, otypes=[np.float64])
_math = types.SimpleNamespace(
    exp=_f32(np.exp), log=_f32(np.log), sqrt=_f32(np.sqrt), tanh=_f32(np.tanh), absf=_f32(np.abs),
    rsqrt=_f32(lambda x: 1 / np.sqrt(x)), roundeven=lambda x: np.round(np.asarray(x)).view(_Whole), exp2=_f32(np.exp2),
    log1p=_f32(np.log1p), erf=_f32(_ERF), fma=lambda x, y, z: (np.float64(x) * y + z).astype(np.float32),
)  # fmt: skip


class _Whole(np.ndarray):
    def to(self, element_type):
        return element_type(np.asarray(self))


def _block_idx():
    blocks, across = _Device.blocks, _Device.grid
    return (blocks % across).astype(np.int32), (blocks // across).astype(np.int32), 0


def _recast(values, element_type):
    """The same bits as another type, of values in f32."""
    bits = [np.ascontiguousarray(v, np.float32).view(element_type.numpy) for v in values.values]
    return Registers(values.shape[0], element_type, bits)


def _redux(value, kind):
    assert kind == "umax" and _Device.mask.all()
    value = np.broadcast_to(value, _Device.mask.shape)
    warps = value.reshape(len(value), -1, 32)
    return np.broadcast_to(warps.max(-1, keepdims=True), warps.shape).reshape(value.shape)


_arch = types.SimpleNamespace(
    thread_idx=lambda: (_Device.threads.astype(np.int32), 0, 0),
    block_idx=_block_idx, grid_dim=lambda: (np.int32(_Device.grid), np.int32(_Device.all // _Device.grid), 1),
    warp_redux_sync=_redux,
    warp_idx=lambda: (_Device.threads // 32).astype(np.int32),
    lane_idx=lambda: (_Device.threads % 32).astype(np.int32),
    barrier=lambda: None,
    shuffle_sync_bfly=lambda value, offset: shuffle_bfly(value, offset),
    fmax=_fmax, fmin=_fmin, rcp_approx=_f32(lambda x: 1 / x),
)  # fmt: skip


def _size(x, mode=None):
    shape = x if isinstance(x, tuple) else x.shape
    return math.prod(shape)


_runtime = types.SimpleNamespace(make_fake_tensor=lambda *a, **k: None, make_fake_stream=lambda **k: None)
cute = types.SimpleNamespace(
    arch=_arch, math=_math, kernel=kernel, jit=lambda f: f, Tensor=object, size=_size, runtime=_runtime,
    make_rmem_tensor=lambda shape, t: Registers(shape[0] if isinstance(shape, tuple) else shape, t),
    make_layout=lambda shape, stride=None: types.SimpleNamespace(shape=shape if isinstance(shape, tuple) else (shape,)),
    make_tensor=View, make_ptr=_make_ptr, autovec_copy=autovec_copy, recast_tensor=_recast,
    compile=lambda launch, *fakes, options="": lambda *tensors: launch(*map(Global, tensors), None),
    ceil_div=lambda a, b: -(-a // b),
)  # fmt: skip
cutlass = types.SimpleNamespace(
    cute=cute, range=device_range, range_constexpr=range, const_expr=lambda x: x, Constexpr=object,
    min=np.minimum, max=np.maximum, select_=_select, utils=types.SimpleNamespace(SmemAllocator=Allocator),
    Boolean=lambda x: np.asarray(x, bool), **NAMED,
)  # fmt: skip


def _sigmoid(x):
    return (1 / (1 + np.exp(-np.asarray(x, np.float64)))).astype(np.float32)


_activation = types.SimpleNamespace(
    silu=lambda x: x * _sigmoid(x), sigmoid=_sigmoid,
    gelu_erf=_f32(lambda x: 0.5 * x * (1 + _ERF(x / math.sqrt(2)))),
    gelu_tanh_approx=_f32(lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
)  # fmt: skip

_torch = types.SimpleNamespace(
    empty=lambda shape, dtype=None, device=None: _poisoned(shape, dtype), uint8=torch.uint8, zeros=torch.zeros,
    cuda=types.SimpleNamespace(current_device=lambda: "cpu"),
    **{str(t.torch).split(".")[1]: t.torch for t in TYPES.values()},
)  # fmt: skip


def _poisoned(shape, dtype):
    """Memory as a device gives it: full of what nobody wrote."""
    memory = torch.empty(shape, dtype=dtype)
    memory.view(-1).view(torch.uint8).fill_(0x7B) if memory.numel() else None
    return memory


class _Base:
    def __init__(self, *args, **kwargs):
        pass


class Anything:
    """What a module names and nothing here runs: kernels of the tensor cores."""

    def __mro_entries__(self, bases):
        return (_Base,)

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else Anything()


class _Module:
    def __init__(self, known):
        self.__dict__.update(vars(known))

    def __getattr__(self, name):
        return Anything()


cutlass, cute, _arch, _torch = map(_Module, (cutlass, cute, _arch, _torch))
cutlass.cute = cute
MODULES = {"cutlass": cutlass, "cutlass.cute": cute, "cutlass.cute.arch": _arch, "quack.activation": _activation,
           "torch": _torch}  # fmt: skip


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    if name == "os":
        return builtins.__import__(name)
    if fromlist:
        return MODULES.get(name, Anything())
    if name == "cutlass.cute":
        return cutlass
    return MODULES.get(name.partition(".")[0], Anything())


class _Masks(ast.NodeTransformer):
    """`if` on the device becomes a mask."""

    def visit_If(self, node):
        self.generic_visit(node)
        if "const_expr" in ast.unparse(node.test) or node.orelse:
            return node
        call = ast.Call(ast.Name("_masked", ast.Load()), [node.test], [])
        return ast.With([ast.withitem(call)], node.body)


def load(text: str):
    """`run(inputs, outputs)` of a generated module, on CPU tensors."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("cute." in ast.unparse(d) for d in node.decorator_list):
            _Masks().visit(node)
    ast.fix_missing_locations(tree)
    scope = {"__builtins__": {**vars(builtins), "__import__": _import}, "_masked": masked}
    exec(compile(tree, "generated", "exec"), scope)
    if "CastStage" in scope:  # a kernel over CuTe tilings: what it does, not how
        cast = scope["CastStage"]
        cast.__call__ = lambda self, x, y: y.copy_(x)
    scope["jit_cache"] = lambda f: f
    return scope["load"]()
